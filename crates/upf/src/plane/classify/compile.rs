//! From the rules of a session to what the packet path needs.
//!
//! Everything that can be refused is refused here, before the packet path hears of it.

use crate::plane::classify::layout::{
    Act, CORE, FastPath, LIMITS_MAX, LOCAL, LimitPlan, NO_PLACE, Program, QueuePlan, Rule, Rules, User, What,
};
use crate::plane::classify::lookup::{Builder, FilterContext};
use crate::plane::classify::rule_slots::{Bearer, FlowKey, Layout, QueueKey};
use crate::plane::setup::PlaneSetup;
use crate::rules::{
    Action, End, Far, Forward, METERS_MAX, Pdr, PerDirection, Qer, Refusal, RuleKind, Session, Side,
    UeAddress,
};
use std::net::{IpAddr, SocketAddr};
use weir_units::Rate;
use weir_wire::tunnel::Encapsulation;

/// Makes what the packet path needs of a session, whose rules stand as `before` so far.
pub fn compile(session: &Session, setup: &PlaneSetup, before: &Layout) -> Result<(Program, Layout), Refusal> {
    session.problem()?;
    if session.meters.len() > METERS_MAX {
        return Err(Refusal::NoResources(format!("a session has at most {METERS_MAX} meters")));
    }
    let mut making =
        Making { session, setup, layout: Layout::default(), queues: Vec::new(), ues: Vec::new() };
    making.layout.acts = before.acts.keeping(|id| session.far(*id).is_some());
    making.layout.limits = before.limits.keeping(|(id, _)| session.qer(*id).is_some());
    let acts = making.acts()?;
    session.qers.iter().try_for_each(check_qer)?;
    let wanted = session.pdrs.iter().map(|pdr| making.queue_key(pdr)).collect::<Result<Vec<_>, _>>()?;
    making.layout.queues = before.queues.keeping(|key| wanted.contains(key));
    making.layout.paths = making.paths();
    let mut up = making.rules(true, &wanted)?;
    let mut down = making.rules(false, &wanted)?;
    let queues: Box<[QueuePlan]> = making.queues.iter().map(|plan| plan.unwrap_or(UNUSED)).collect();
    // Where there are several, it is looked for of which one an answer tells.
    let is_one = making.layout.paths.len() == 1;
    for rule in up.rules.iter_mut().chain(&mut down.rules) {
        rule.express = express(rule, &acts, &queues, is_one);
    }
    let limits = making.layout.limits.all().iter().map(|place| LimitPlan {
        rate: place.key.map_or(Rate::ZERO, |(id, is_up)| making.mbr(id, is_up).unwrap_or(Rate::ZERO)),
        is_kept: place.is_kept,
    });
    let buffers = [&down, &up].map(|rules| {
        let act = |rule: &Rule| acts.get(usize::from(rule.act)).map(|act| &act.what);
        rules.rules.iter().any(|rule| act(rule).is_some_and(What::keeps))
    });
    let program = Program {
        seid: session.seid,
        buffers,
        up,
        down,
        acts,
        limits: limits.collect(),
        queues,
        teids: teids(session),
        ues: making.ues.into(),
        users: users(session)?,
        inactivity: session.inactivity,
    };
    Ok((program, making.layout))
}

/// A place that nothing waits in.
const UNUSED: QueuePlan = QueuePlan {
    is_up: false,
    is_local: false,
    qfi: None,
    profile: 0,
    limits: [NO_PLACE; LIMITS_MAX],
    rate: Rate::ZERO,
    gbr: Rate::ZERO,
    path: 0,
    learns: false,
    follows: false,
    is_asked: false,
    is_kept: false,
};

fn express(rule: &Rule, acts: &[Act], queues: &[QueuePlan], is_one_path: bool) -> FastPath {
    let is_forwarded =
        rule.is_open && acts.get(usize::from(rule.act)).is_some_and(|act| act.port().is_some());
    let queue = &queues[usize::from(rule.queue)];
    match queue.learns {
        _ if !is_forwarded || rule.meters != 0 || queue.is_asked || queue.gbr > Rate::ZERO => FastPath::Never,
        true if queue.is_up && !is_one_path => FastPath::Never,
        true => FastPath::Learning,
        false => FastPath::Always,
    }
}

struct Making<'a> {
    session: &'a Session,
    setup: &'a PlaneSetup,
    layout: Layout,
    /// By place.
    queues: Vec<Option<QueuePlan>>,
    ues: Vec<UeAddress>,
}

fn kbps(rate: u64) -> Rate {
    Rate::from_bps(rate.saturating_mul(1000))
}

fn one<T: Copy>(of: PerDirection<T>, is_up: bool) -> T {
    if is_up { of.up } else { of.down }
}

fn check_qer(qer: &Qer) -> Result<(), Refusal> {
    let refused = |why: &str| Err(Refusal::rule(RuleKind::Qer, qer.id, why));
    if qer.correlation.is_some() {
        return refused("a rate for several sessions (QER Correlation ID) is not supported");
    }
    for is_up in [true, false] {
        let [gbr, mbr] = [qer.gbr, qer.mbr].map(|rate| rate.map(|rate| one(rate, is_up)));
        if gbr.zip(mbr).is_some_and(|(gbr, mbr)| gbr > mbr) {
            return refused("the guaranteed rate is above the highest");
        }
    }
    Ok(())
}

impl Making<'_> {
    fn acts(&mut self) -> Result<Box<[Act]>, Refusal> {
        let mut acts = Vec::new();
        for far in &self.session.fars {
            let what = self.what(far)?;
            let full = || Refusal::rule(RuleKind::Far, far.id, "there are too many");
            let at = usize::from(self.layout.acts.of(&far.id).ok_or_else(full)?);
            let generation = self.layout.acts.all()[at].generation;
            acts.resize(acts.len().max(at + 1), Act { generation: 0, what: What::Drop });
            acts[at] = Act { generation, what };
        }
        // Places that nobody has now keep their generation.
        acts.resize(self.layout.acts.all().len(), Act { generation: 0, what: What::Drop });
        for (act, place) in acts.iter_mut().zip(self.layout.acts.all()) {
            act.generation = place.generation;
        }
        Ok(acts.into())
    }

    fn what(&self, far: &Far) -> Result<What, Refusal> {
        let refused = |why: &str| Err(Refusal::rule(RuleKind::Far, far.id, why));
        let Forward { to, tunnel, dscp } = match (far.action, far.forward) {
            (Action::Drop, _) => return Ok(What::Drop),
            (Action::Buffer { tell }, _) => return Ok(What::Buffer { tell }),
            (Action::Forward, Some(forward)) => forward,
            (Action::Forward, None) => return refused("it forwards, and does not say where"),
        };
        match (to, tunnel) {
            (Side::Access | Side::Core, Some(remote)) => {
                let end = SocketAddr::new(remote.address, remote.port);
                let mut own = self.setup.access.addresses.iter().map(|(address, _)| *address);
                match own.find_map(|own| Encapsulation::new(own, end, remote.teid, dscp)) {
                    Some(outer) if to == Side::Access => Ok(What::Tunnel(outer)),
                    Some(outer) => Ok(What::Onward(outer.upward())),
                    None => refused("the port to the access side has no address of the tunnel's family"),
                }
            }
            (Side::Access, None) => refused("packets go to the access side in a tunnel, and it names none"),
            (Side::Local, Some(_)) => refused("packets to the port for local breakout go in no tunnel"),
            (Side::Core, None) => Ok(What::Plain(CORE)),
            (Side::Local, None) if self.setup.local.is_some() => Ok(What::Plain(LOCAL)),
            (Side::Local, None) => refused("there is no port for local breakout"),
        }
    }

    fn qers(&self, pdr: &Pdr) -> impl Iterator<Item = &Qer> {
        pdr.qers.iter().filter_map(|id| self.session.qer(*id))
    }

    fn mbr(&self, id: u32, is_up: bool) -> Option<Rate> {
        let qer = self.session.qer(id)?;
        qer.mbr.map(|mbr| kbps(one(mbr, is_up)))
    }

    fn gbr(&self, pdr: &Pdr, is_up: bool) -> Rate {
        let rates = self.qers(pdr).filter_map(|qer| qer.gbr).map(|gbr| kbps(one(gbr, is_up)));
        rates.max().unwrap_or(Rate::ZERO)
    }

    /// Whose bottleneck packets of a rule pass. A GBR flow has radio resources of its own, and so a
    /// bottleneck of its own.
    fn flow_key(&self, pdr: &Pdr) -> FlowKey {
        let is_guaranteed = |qer: &Qer| qer.gbr.is_some_and(|gbr| gbr.up > 0 || gbr.down > 0);
        let Some(qer) = self.qers(pdr).find(|qer| is_guaranteed(qer)) else { return FlowKey::Aggregate };
        self.qers(pdr).find_map(|qer| qer.qfi).map_or(FlowKey::Bearer(qer.id), FlowKey::Flow)
    }

    /// The bottlenecks of a session: that of the aggregate first.
    fn paths(&self) -> Box<[FlowKey]> {
        let mut paths = vec![FlowKey::Aggregate];
        for pdr in &self.session.pdrs {
            let key = self.flow_key(pdr);
            if !paths.contains(&key) {
                paths.push(key);
            }
        }
        paths.into()
    }

    /// The bearer of a rule in a session in which nothing names a QoS flow (a 4G gateway): rules the same way
    /// with one tunnel are of one bearer, whose number is that of the first; `None` for the first bearer. A
    /// GBR bearer is told by its QER as well, whatever its tunnel is.
    fn bearer(&self, pdr: &Pdr) -> Option<Bearer> {
        if self.session.names_flows() {
            return None;
        }
        let is_up = pdr.from == Side::Access;
        let tunnel = |pdr: &Pdr| -> Option<(u32, Option<IpAddr>)> {
            if is_up {
                return pdr.tunnel.map(|tunnel| (tunnel.teid, None));
            }
            let far = pdr.far.and_then(|far| self.session.far(far))?;
            far.forward?.tunnel.map(|tunnel| (tunnel.teid, Some(tunnel.address)))
        };
        let own = tunnel(pdr);
        let same_way = || self.session.pdrs.iter().filter(|other| (other.from == Side::Access) == is_up);
        // Rules whose tunnel is not known yet are taken for those of the first bearer.
        let with = |wanted: Option<_>| {
            same_way().filter(move |pdr| wanted.map_or(tunnel(pdr).is_some(), |own| tunnel(pdr) == Some(own)))
        };
        let first = with(None).map(|pdr| pdr.id).min();
        let number = own.and_then(|own| with(Some(own)).map(|pdr| pdr.id).min());
        let number = number.filter(|number| Some(*number) != first);
        let guaranteed = match self.flow_key(pdr) {
            FlowKey::Bearer(qer) => Some(qer),
            FlowKey::Aggregate | FlowKey::Flow(_) => None,
        };
        (number.is_some() || guaranteed.is_some()).then_some(Bearer { number, guaranteed })
    }

    /// Where packets of a rule wait. The aggregate of a session is one queue; a flow with
    /// a rate of its own, guaranteed or not, or with a profile of its own has another, and so has a bearer.
    fn queue_key(&self, pdr: &Pdr) -> Result<QueueKey, Refusal> {
        let is_up = pdr.from == Side::Access;
        let to_local = || {
            let far = pdr.far.and_then(|far| self.session.far(far));
            far.and_then(Far::way).is_some_and(|forward| forward.to == Side::Local)
        };
        let is_local = if is_up { to_local() } else { pdr.from == Side::Local };
        let qfi = self.qers(pdr).find_map(|qer| qer.qfi);
        let has_rate =
            self.qers(pdr).any(|qer| qer.qfi.is_some() && (qer.mbr.is_some() || qer.gbr.is_some()));
        let is_guaranteed = self.qers(pdr).any(|qer| qer.gbr.is_some());
        let own = qfi.and_then(|qfi| self.setup.profiles.keys().position(|q| *q == qfi));
        let local = (is_local && self.setup.local_profile.is_some()).then_some(self.setup.profiles.len() + 1);
        let profile = own.map(|at| at + 1).or(local).unwrap_or(0) as u16;
        let mut limits: Vec<u32> =
            self.qers(pdr).filter(|qer| self.mbr(qer.id, is_up).is_some()).map(|qer| qer.id).collect();
        limits.sort_unstable();
        limits.dedup();
        if limits.len() > LIMITS_MAX {
            return Err(Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), "more than four rates at once"));
        }
        let qfi = qfi.filter(|_| has_rate || is_guaranteed || own.is_some());
        let bearer = self.bearer(pdr);
        Ok(QueueKey { is_up, is_local, qfi, bearer, profile, limits: limits.into() })
    }

    fn queue(&mut self, pdr: &Pdr, key: &QueueKey) -> Result<u8, Refusal> {
        let full = || Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), "too many queues in one session");
        let at = self.layout.queues.of(key).ok_or_else(full)?;
        let gbr = self.gbr(pdr, key.is_up);
        let mut limits = [NO_PLACE; LIMITS_MAX];
        for (limit, id) in limits.iter_mut().zip(&key.limits) {
            *limit = self.layout.limits.of(&(*id, key.is_up)).ok_or_else(full)?;
        }
        let rates = key.limits.iter().filter_map(|id| self.mbr(*id, key.is_up));
        let rate = rates.min().unwrap_or(Rate::ZERO);
        let places = self.queues.len().max(self.layout.queues.all().len());
        self.queues.resize(places, None);
        let QueueKey { is_up, is_local, qfi, profile, .. } = *key;
        let is_kept = self.layout.queues.all()[usize::from(at)].is_kept;
        let profile_of = self.setup.profile_number(profile);
        let flow = self.flow_key(pdr);
        let path = self.layout.paths.iter().position(|path| *path == flow);
        let path = path.and_then(|path| u8::try_from(path).ok()).ok_or_else(full)?;
        let learns = profile_of.follow || profile_of.is_told();
        let follows = learns && profile_of.follow && !is_up;
        let is_asked = profile_of.is_asked();
        let plan = QueuePlan {
            is_up,
            is_local,
            qfi,
            profile,
            limits,
            rate,
            gbr,
            path,
            learns,
            follows,
            is_asked,
            is_kept,
        };
        self.queues[usize::from(at)] = Some(plan);
        Ok(at)
    }

    fn rules(&mut self, is_up: bool, keys: &[QueueKey]) -> Result<Rules, Refusal> {
        let session = self.session;
        let (mut rules, mut filters) = (Vec::new(), Builder::default());
        for (pdr, key) in session.pdrs.iter().zip(keys).filter(|(_, key)| key.is_up == is_up) {
            check_pdr(pdr, self.setup)?;
            let asked = FilterContext {
                rule: rules.len() as u16,
                is_local: (!is_up && self.setup.local.is_some()).then_some(pdr.from == Side::Local),
            };
            let full = || Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), "too many filters in one session");
            if pdr.filters.is_empty() {
                filters.add_any(asked).ok_or_else(full)?;
            }
            pdr.filters.iter().try_for_each(|filter| filters.add(asked, filter).ok_or_else(full))?;
            rules.push(self.rule(pdr, key)?);
        }
        Ok(Rules { filters: filters.build(), rules: rules.into() })
    }

    /// The place of a rule's tunnel.
    fn tunnel(&self, pdr: &Pdr) -> Result<Option<u8>, Refusal> {
        let full = || Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), "too many tunnels in one session");
        let Some(tunnel) = pdr.tunnel else { return Ok(None) };
        let at = teids(self.session).iter().position(|teid| *teid == tunnel.teid);
        at.and_then(|at| u8::try_from(at).ok()).map(Some).ok_or_else(full)
    }

    fn ue(&mut self, ue: UeAddress) -> Option<u8> {
        let at = self.ues.iter().position(|other| *other == ue).unwrap_or_else(|| {
            self.ues.push(ue);
            self.ues.len() - 1
        });
        u8::try_from(at).ok()
    }

    /// Where packets of a rule that names no user equipment come from: what leaves the session bears the
    /// addresses that lead into it, where there is one of a family.
    fn source(&self, is_up: bool) -> Option<UeAddress> {
        let down =
            || self.session.pdrs.iter().filter(|pdr| pdr.from != Side::Access).filter_map(|pdr| pdr.ue);
        let (v4, v6) = (down().find_map(|ue| ue.v4), down().find_map(|ue| ue.v6));
        let is_one = |ue: UeAddress| (ue.v4.is_none() || ue.v4 == v4) && (ue.v6.is_none() || ue.v6 == v6);
        let is_known = is_up && (v4.is_some() || v6.is_some()) && down().all(is_one);
        is_known.then_some(UeAddress { v4, v6, end: End::Source })
    }

    fn rule(&mut self, pdr: &Pdr, key: &QueueKey) -> Result<Rule, Refusal> {
        let full = || Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), "too many addresses in one session");
        let queue = self.queue(pdr, key)?;
        // A highest rate of nothing lets nothing pass.
        let passes = |qer: &Qer| {
            one(qer.open, key.is_up) && self.mbr(qer.id, key.is_up).is_none_or(|rate| rate > Rate::ZERO)
        };
        let is_open = self.qers(pdr).all(passes);
        let qfi = self.qers(pdr).find_map(|qer| qer.qfi);
        let bits = pdr.qfis.iter().fold(0, |bits, qfi| bits | 1u64 << (qfi & 63));
        Ok(Rule {
            id: pdr.id,
            teid: self.tunnel(pdr)?,
            qfis: if pdr.qfis.is_empty() { u64::MAX } else { bits },
            ue: pdr.ue.or(self.source(key.is_up)).map(|ue| self.ue(ue).ok_or_else(full)).transpose()?,
            act: pdr.far.and_then(|far| self.layout.acts.of(&far)).unwrap_or(NO_PLACE),
            queue,
            is_open,
            qfi,
            meters: self.meters(pdr),
            express: FastPath::Never,
        })
    }

    /// The meters that count what a rule forwards.
    fn meters(&self, pdr: &Pdr) -> u16 {
        let meters = self.session.meters.iter().enumerate();
        let own = meters.filter(|(_, meter)| meter.urr.is_some() && meter.pdrs.contains(&pdr.id));
        own.fold(0, |bits, (place, _)| bits | 1 << place)
    }
}

fn check_pdr(pdr: &Pdr, setup: &PlaneSetup) -> Result<(), Refusal> {
    let refused = |why: &str| Err(Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), why));
    let is_up = pdr.from == Side::Access;
    match (is_up, pdr.tunnel, pdr.removal) {
        (true, None, _) => {
            return refused("packets come from the access side in a tunnel, and it names none");
        }
        (_, Some(_), None) => {
            return refused("the headers of the tunnel are not taken off (Outer Header Removal)");
        }
        (false, Some(_), _) if pdr.from == Side::Local => {
            return refused("packets from the port for local breakout come in no tunnel");
        }
        (false, None, Some(_)) => return refused("packets from the data network have no outer header"),
        _ => {}
    }
    if let Some(tunnel) = pdr.tunnel {
        let is_own = |own: IpAddr| setup.access.addresses.iter().any(|(address, _)| *address == own);
        let named = tunnel.v4.map(IpAddr::from).into_iter().chain(tunnel.v6.map(IpAddr::from));
        if let Some(other) = named.into_iter().find(|address| !is_own(*address)) {
            return refused(&format!("{other} is not an address of the port to the access side"));
        }
    }
    let names_user = pdr.ue.map(|ue| ue.end == End::Destination);
    if !is_up && !names_user.unwrap_or(pdr.tunnel.is_some()) {
        return refused("packets from the data network are found by their destination, and it names none");
    }
    if pdr.from == Side::Local && setup.local.is_none() {
        return refused("there is no port for local breakout");
    }
    Ok(())
}

fn teids(session: &Session) -> Box<[u32]> {
    let mut teids: Vec<u32> = session.pdrs.iter().filter_map(|pdr| pdr.tunnel).map(|t| t.teid).collect();
    teids.sort_unstable();
    teids.dedup();
    teids.into()
}

fn users(session: &Session) -> Result<Box<[User]>, Refusal> {
    let mut users = Vec::new();
    // What comes in a tunnel is found by that.
    for pdr in session.pdrs.iter().filter(|pdr| pdr.from != Side::Access && pdr.tunnel.is_none()) {
        let Some(ue) = pdr.ue else { continue };
        users.extend(ue.v4.map(|address| User::V4(address.into())));
        if let Some(prefix) = ue.v6 {
            if prefix.length != 64 {
                let why = "the IPv6 prefix of the user equipment must have 64 bits";
                return Err(Refusal::rule(RuleKind::Pdr, u32::from(pdr.id), why));
            }
            users.push(User::V6((u128::from(prefix.address) >> 64) as u64));
        }
    }
    users.sort_unstable();
    users.dedup();
    Ok(users.into())
}
