//! A session as it is to be: rules, and what is measured of them. Nothing is taken over until the request is
//! done.

use super::cause::{Cause, Refused, rule_number};
use super::ie_reader::IeReader;
use super::sessions::SessionEntry;
use super::sides::Sides;
use super::translate::{
    check_guarantees, create_far, create_pdr, create_qer, remove, update_far, update_pdr, update_qer,
};
use super::tunnels::ReservedTunnels;
use super::usage::{UsageRecord, create_urr, query_urr, update_urr};
use crate::message::ie;
use crate::rules::{METERS_MAX, Meter, RemoteTunnel, RuleKind, Seid, Session, UeAddress};
use weir_units::{Duration, Time};

/// PFCPSMReq-Flags (TS 29.244 section 8.2.28): the usage of all rules is asked for.
const QUERY_ALL: u64 = 4;

/// See the [module documentation](self).
pub struct Draft {
    /// Its rules.
    pub session: Session,
    /// Its usage reporting rules.
    pub books: Vec<UsageRecord>,
    /// Those that end.
    pub ended: Vec<UsageRecord>,
    /// Those whose usage is asked for.
    pub asked: Vec<u32>,
    /// The tunnels that are to be told their end.
    pub closed: Vec<RemoteTunnel>,
    /// Which PDR names which URR.
    links: Vec<(u16, u32)>,
    /// Versions of IP where no rule names an address.
    versions: Versions,
    now: Time,
}

/// Versions of IP that packets may be of.
#[derive(Clone, Copy)]
struct Versions {
    v4: bool,
    v6: bool,
}

impl Versions {
    const BOTH: Versions = Versions { v4: true, v6: true };

    fn of(ue: &UeAddress) -> Versions {
        Versions { v4: ue.v4.is_some(), v6: ue.v6.is_some() }
    }
}

/// The rules of a new session.
pub fn read_new(
    mut bag: IeReader,
    seid: Seid,
    now: Time,
    sides: &Sides,
    chosen: &mut ReservedTunnels,
) -> Result<Draft, Refused> {
    /// PDN Type (section 8.2.79): IPv4, IPv6, both.
    const IP: std::ops::RangeInclusive<u64> = 1..=3;
    let mut draft = Draft::new(Session { seid, ..Session::default() }, Vec::new(), now);
    if let Some(number) = bag.number(ie::PDN_TYPE)? {
        let kind = number & 7;
        if !IP.contains(&kind) {
            let why = format!("sessions of type {number} are not done");
            return Err(Refused::element(Cause::NotSupported, ie::PDN_TYPE, why));
        }
        draft.versions = Versions { v4: kind & 1 != 0, v6: kind & 2 != 0 };
    }
    bag.inform(&[ie::APN_DNN, ie::S_NSSAI, ie::USER_ID])?;
    draft.session.inactivity = inactivity(&mut bag)?.flatten();
    draft.create(&mut bag, sides, chosen)?;
    let session = &draft.session;
    for (is_empty, id) in
        [(session.pdrs.is_empty(), ie::CREATE_PDR), (session.fars.is_empty(), ie::CREATE_FAR)]
    {
        if is_empty {
            return Err(Refused::element(
                Cause::MandatoryMissing,
                id,
                format!("{} is missing", ie::shown(id)),
            ));
        }
    }
    bag.finish()?;
    draft.whole(sides)
}

/// Buffering rules: a number, and what asks for functions that are not announced. How packets are buffered is
/// configured.
fn bars(bag: &mut IeReader, id: u16) -> Result<(), Refused> {
    bag.groups(id)?.into_iter().try_for_each(|mut group| {
        group.need_number(ie::BAR_ID)?;
        group.finish()
    })
}

/// Changes rules: takes out, changes, adds.
pub fn change(
    mut bag: IeReader,
    entry: &SessionEntry,
    now: Time,
    sides: &Sides,
    chosen: &mut ReservedTunnels,
) -> Result<Draft, Refused> {
    let mut draft = Draft::new(Session::clone(&entry.rules), entry.books().cloned().collect(), now);
    draft.query(&mut bag)?;
    draft.remove(&mut bag)?;
    draft.update(&mut bag, sides, chosen)?;
    if let Some(inactivity) = inactivity(&mut bag)? {
        draft.session.inactivity = inactivity;
    }
    draft.create(&mut bag, sides, chosen)?;
    bag.finish()?;
    draft.whole(sides)
}

impl Draft {
    fn new(session: Session, books: Vec<UsageRecord>, now: Time) -> Draft {
        let of = |meter: &Meter| -> Vec<(u16, u32)> {
            meter.urr.map_or_else(Vec::new, |urr| meter.pdrs.iter().map(|pdr| (*pdr, urr)).collect())
        };
        let links = session.meters.iter().flat_map(of).collect();
        Draft {
            session,
            books,
            ended: Vec::new(),
            asked: Vec::new(),
            closed: Vec::new(),
            links,
            versions: Versions::BOTH,
            now,
        }
    }

    /// Rules that are asked for their usage: those of before.
    fn query(&mut self, bag: &mut IeReader) -> Result<(), Refused> {
        let flags = bag.number(ie::PFCPSM_REQ_FLAGS)?.unwrap_or(0);
        if flags & !QUERY_ALL != 0 {
            let why = format!("the flags {flags:#x} are not done");
            return Err(Refused::element(Cause::NotSupported, ie::PFCPSM_REQ_FLAGS, why));
        }
        if flags & QUERY_ALL != 0 {
            self.asked = self.books.iter().map(|book| book.urr.id).collect();
        }
        for group in bag.groups(ie::QUERY_URR)? {
            let id = query_urr(group)?;
            if self.books.iter().all(|book| book.urr.id != id) {
                let why = format!("there is no URR {id} to ask");
                return Err(Refused::new(Cause::RuleFailure, why).of_rule(rule_number(RuleKind::Urr), id));
            }
            if !self.asked.contains(&id) {
                self.asked.push(id);
            }
        }
        Ok(())
    }

    fn remove(&mut self, bag: &mut IeReader) -> Result<(), Refused> {
        let session = &mut self.session;
        for group in bag.groups(ie::REMOVE_PDR)? {
            let gone =
                remove(group, ie::PDR_ID, RuleKind::Pdr, &mut session.pdrs, |rule| u32::from(rule.id))?;
            self.links.retain(|(pdr, _)| *pdr != gone.id);
        }
        for group in bag.groups(ie::REMOVE_FAR)? {
            remove(group, ie::FAR_ID, RuleKind::Far, &mut session.fars, |rule| rule.id)?;
        }
        for group in bag.groups(ie::REMOVE_QER)? {
            remove(group, ie::QER_ID, RuleKind::Qer, &mut session.qers, |rule| rule.id)?;
        }
        for group in bag.groups(ie::REMOVE_URR)? {
            let gone = remove(group, ie::URR_ID, RuleKind::Urr, &mut self.books, |book| book.urr.id)?;
            self.links.retain(|(_, urr)| *urr != gone.urr.id);
            self.ended.push(gone);
        }
        bars(bag, ie::REMOVE_BAR)?;
        Ok(())
    }

    fn update(
        &mut self,
        bag: &mut IeReader,
        sides: &Sides,
        chosen: &mut ReservedTunnels,
    ) -> Result<(), Refused> {
        for group in bag.groups(ie::UPDATE_PDR)? {
            let (pdr, urrs) = update_pdr(group, &mut self.session.pdrs, sides, chosen)?;
            if !urrs.is_empty() {
                self.links.retain(|(other, _)| *other != pdr);
                self.links.extend(urrs.into_iter().map(|urr| (pdr, urr)));
            }
        }
        for group in bag.groups(ie::UPDATE_FAR)? {
            let closed = update_far(group, &mut self.session.fars, sides)?;
            // Several flows may have shared a tunnel.
            self.closed.extend(closed.filter(|tunnel| !self.closed.contains(tunnel)));
        }
        bars(bag, ie::UPDATE_BAR)?;
        for group in bag.groups(ie::UPDATE_QER)? {
            update_qer(group, &mut self.session.qers)?;
        }
        for group in bag.groups(ie::UPDATE_URR)? {
            let find = |id| self.books.iter().find(|book| book.urr.id == id).map(|book| book.urr.clone());
            let (urr, fresh) = update_urr(group, find)?;
            let book = self.books.iter_mut().find(|book| book.urr.id == urr.id).expect("it was just found");
            (book.urr, book.fresh) = (urr, book.fresh | fresh);
        }
        Ok(())
    }

    /// Adds new rules.
    fn create(
        &mut self,
        bag: &mut IeReader,
        sides: &Sides,
        chosen: &mut ReservedTunnels,
    ) -> Result<(), Refused> {
        bars(bag, ie::CREATE_BAR)?;
        for group in bag.groups(ie::CREATE_FAR)? {
            self.session.fars.push(create_far(group, sides)?);
        }
        for group in bag.groups(ie::CREATE_QER)? {
            self.session.qers.push(create_qer(group)?);
        }
        for group in bag.groups(ie::CREATE_URR)? {
            let urr = create_urr(group)?;
            let id = urr.id;
            let failed = |cause, why: &str| Refused::new(cause, why).of_rule(rule_number(RuleKind::Urr), id);
            if self.books.iter().any(|book| book.urr.id == id) {
                return Err(failed(Cause::RuleFailure, "its number is there already"));
            }
            let place = self.place().ok_or_else(|| {
                Refused::new(Cause::NoResources, format!("more than {METERS_MAX} usage reporting rules"))
            })?;
            self.books.push(UsageRecord::new(urr, place, self.now));
        }
        for group in bag.groups(ie::CREATE_PDR)? {
            let (pdr, urrs) = create_pdr(group, sides, chosen)?;
            self.links.extend(urrs.into_iter().map(|urr| (pdr.id, urr)));
            self.session.pdrs.push(pdr);
        }
        Ok(())
    }

    /// A place for a meter: one that nobody had, else one that is free again.
    fn place(&self) -> Option<u8> {
        let is_taken = |place: &u8| self.books.iter().any(|book| book.place == *place);
        let had = self.session.meters.len() as u8;
        let mut places = (had..METERS_MAX as u8).chain(0..had);
        places.find(|place| !is_taken(place))
    }

    /// Rules in their order, if they go together.
    fn whole(mut self, sides: &Sides) -> Result<Draft, Refused> {
        let session = &mut self.session;
        let counts = [session.pdrs.len(), session.fars.len(), session.qers.len(), self.books.len()];
        if counts.into_iter().any(|count| count > sides.rules_max) {
            let why = format!("more than {} rules of a kind", sides.rules_max);
            return Err(Refused::new(Cause::NoResources, why));
        }
        for (pdr, urr) in &self.links {
            if self.books.iter().all(|book| book.urr.id != *urr) {
                let why = format!("there is no URR {urr}");
                let refused = Refused::element(Cause::RuleFailure, ie::URR_ID, why);
                return Err(refused.of_rule(rule_number(RuleKind::Pdr), u32::from(*pdr)));
            }
        }
        session.order();
        session.problem()?;
        check_versions(session, self.versions)?;
        check_guarantees(session)?;
        session.pdrs.shrink_to_fit();
        session.fars.shrink_to_fit();
        session.qers.shrink_to_fit();
        let places = self.books.iter().map(|book| usize::from(book.place) + 1).max().unwrap_or(0);
        let mut meters = vec![Meter::default(); places.max(session.meters.len())];
        for book in &self.books {
            let own = self.links.iter().filter(|(_, urr)| *urr == book.urr.id);
            let pdrs = own.map(|(pdr, _)| *pdr).collect();
            meters[usize::from(book.place)] = Meter { urr: Some(book.urr.id), pdrs };
        }
        session.meters = meters.into();
        Ok(self)
    }
}

/// Refuses filters for packets of a version of IP that the user equipment has no address of. `otherwise` are
/// the versions where no rule names an address.
fn check_versions(session: &Session, otherwise: Versions) -> Result<(), Refused> {
    let named = session.pdrs.iter().filter_map(|pdr| pdr.ue.as_ref()).map(Versions::of);
    let all = named.reduce(|a, b| Versions { v4: a.v4 || b.v4, v6: a.v6 || b.v6 }).unwrap_or(otherwise);
    for pdr in &session.pdrs {
        let own = pdr.ue.as_ref().map_or(all, Versions::of);
        let is_vain = |is_ipv6| if is_ipv6 { !own.v6 } else { !own.v4 };
        if let Some(filter) = pdr.filters.iter().find(|filter| filter.is_ipv6().is_some_and(is_vain)) {
            let why = format!("`{filter}` is for a version of IP that the user equipment has no address of");
            let refused = Refused::element(Cause::RuleFailure, ie::SDF_FILTER, why);
            return Err(refused.of_rule(rule_number(RuleKind::Pdr), u32::from(pdr.id)));
        }
    }
    Ok(())
}

/// The time without packets after which session management is told; none if it says zero.
fn inactivity(bag: &mut IeReader) -> Result<Option<Option<Duration>>, Refused> {
    let seconds = bag.number(ie::INACTIVITY_TIMER)?;
    Ok(seconds.map(|seconds| (seconds > 0).then(|| Duration::from_secs(seconds))))
}
