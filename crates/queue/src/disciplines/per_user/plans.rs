//! Plans: what each customer is entitled to, alone and together with the others of its site.
//!
//! A customer is a user whose key is the number of its plan; the keys of all others are larger. Sites
//! take turns at the link, and users at their site: in each turn a site has a quantum for each user
//! that has something to send there, so that users get equal shares of a link that is short, wherever
//! they are. A site whose time has not come leaves the rounds, as a user does (`paces.rs`). Those
//! without a site share one that is held to no rate.
//!
//! What plans need while packets pass is made with them, outside of the packet path, and handed over as a
//! whole.

use super::PerUser;
use super::shaped::UserShapers;
use super::own::own_of;
use crate::{Shaper, Sojourns, memory};
use crate::rounds::{Over, Rounds, Turn};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::repeat_n;
use weir_aqm::{Aqm, Guide};
use weir_units::{Bytes, Duration, NANOS_PER_SEC, Rate, Time};

/// What a customer is entitled to in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The rate that it is held to; `None` for no limit of its own.
    pub rate: Option<Rate>,
    /// What it may send at once after it sent less than its rate.
    pub burst: Bytes,
    /// The number of its site, from 0 on.
    pub site: Option<u32>,
    /// The delay set point of its algorithm; `None` for that of all.
    pub target: Option<Duration>,
    /// Whether its packets pass the algorithm by.
    pub is_exempt: bool,
    /// Whether all its flows have one FIFO, for which a virtual queue can stand.
    pub is_one_fifo: bool,
}

/// Users whose memory is asked for before they are told.
const ASKED_AHEAD: usize = 8;

/// A turn of a site at the link.
const TURN: i64 = 1;

/// What the users of a site are held to together.
struct Site {
    /// Zero for no limit.
    rate: Rate,
    /// Holds to that rate, or to none for a while.
    shaper: Shaper,
    rounds: Rounds,
    /// Users on its rounds.
    active: u32,
    /// Counts its turns at the link.
    turn: u32,
}

/// Plans of all customers, by number, and the rounds of their sites.
pub struct Plans {
    customers: Box<[Plan]>,
    /// The first is of those without one.
    sites: Box<[Site]>,
    /// Of sites; what waits are packets of those who may send.
    turns: Box<[Turn]>,
    rounds: Rounds,
    held: BinaryHeap<Reverse<(Time, u32)>>,
    /// Packets that wait for the rate of a site, and not for that of their user.
    packets: u32,
    /// Whether any plan has a set point of its own, or had one before.
    has_targets: bool,
}

impl Plans {
    /// Of customers by number, and of sites with the rate of each.
    pub fn new(customers: Vec<Plan>, sites: &[Option<Rate>]) -> Plans {
        let site = |rate: Option<Rate>| Site {
            rate: rate.unwrap_or(Rate::ZERO),
            shaper: Shaper::new(rate.unwrap_or(Rate::ZERO), Duration::ZERO),
            rounds: Rounds::default(),
            active: 0,
            turn: 0,
        };
        let known = |plan: Plan| Plan { site: plan.site.filter(|site| (*site as usize) < sites.len()), ..plan };
        let has_targets = customers.iter().any(|plan| plan.target.is_some());
        Plans {
            has_targets,
            customers: customers.into_iter().map(known).collect(),
            sites: [None].into_iter().chain(sites.iter().copied()).map(site).collect(),
            turns: vec![Turn::IDLE; sites.len() + 1].into(),
            rounds: Rounds::default(),
            held: BinaryHeap::with_capacity(sites.len() + 1),
            packets: 0,
        }
    }

    /// Customers that have a plan.
    pub fn customers(&self) -> usize {
        self.customers.len()
    }

    /// The plan of a user; one who is no customer is entitled to whatever there is.
    fn of(&self, key: u32) -> Plan {
        self.customers.get(key as usize).copied().unwrap_or_default()
    }

    /// Sites go on where those of the same number were, under these plans' rates.
    fn follow(&mut self, before: &Plans, catch_up: Duration) {
        self.has_targets |= before.has_targets;
        for site in &mut self.sites {
            site.shaper = Shaper::new(site.rate, catch_up);
        }
        for (site, before) in self.sites.iter_mut().zip(&before.sites).skip(1) {
            site.shaper = before.shaper;
            site.shaper.set_rate(site.rate);
        }
    }

    /// Users that have something to send there get so much of the site's rate each; zero where it has none.
    #[inline]
    fn share(&self, site: usize) -> Rate {
        let Site { shaper, active, .. } = &self.sites[site];
        Rate::from_bps(shaper.rate().as_bps() / u64::from((*active).max(1)))
    }

    /// A user who was idle goes first at its site.
    #[inline]
    fn join(&mut self, turns: &mut [Turn], at: usize, site: usize, quantum: i64) {
        self.sites[site].rounds.join(turns, at, quantum);
        self.sites[site].active += 1;
    }

    /// A user who waited for something else goes to the end at its site, with its packets.
    fn resume(&mut self, turns: &mut [Turn], at: usize, site: usize) {
        let packets = turns[at].waiting;
        self.sites[site].rounds.resume(turns, at);
        self.sites[site].active += 1;
        if self.turns[site].is_idle() {
            // One that comes again and again is no new one.
            self.rounds.put_off(&mut self.turns, site, TURN);
            self.rounds.resume(&mut self.turns, site);
        }
        self.stored(site, packets);
    }

    /// Packets came for a user who does not wait for its own rate.
    #[inline]
    fn stored(&mut self, site: usize, packets: u32) {
        self.turns[site].waiting += packets;
        if self.turns[site].is_suspended() {
            self.packets += packets;
        } else if self.turns[site].is_idle() {
            // Its users may be on its rounds still, with nothing to send until now.
            self.rounds.join(&mut self.turns, site, TURN);
        }
    }

    /// Whose turn it is at the site whose turn it is: each of its users gets a quantum, and then the next
    /// site has its turn, so that users get what they would in one round of all. `hold` says whether a user
    /// must wait for its own rate, and keeps it until then.
    fn choose(
        &mut self,
        turns: &mut [Turn],
        accounts: &mut [Account],
        now: Time,
        quantum: i64,
        left: &mut u32,
        mut hold: impl FnMut(usize, &Turn) -> bool,
    ) -> Option<usize> {
        loop {
            let at = self.rounds.choose(&mut self.turns, TURN, &mut 0)?;
            let site = &mut self.sites[at];
            let time = site.shaper.departure(Time::ZERO);
            if site.shaper.rate() != Rate::ZERO && time > now {
                self.held.push(Reverse((time, at as u32)));
                self.packets += self.turns[at].waiting;
                self.rounds.suspend(&mut self.turns, at);
                continue;
            }
            loop {
                let turn = site.turn;
                let one = |user: usize| {
                    let before = std::mem::replace(&mut accounts[user].turn, turn);
                    (before != turn).then_some(quantum)
                };
                let mut idle = 0;
                let user = site.rounds.choose_while(turns, one, &mut idle);
                site.active -= idle;
                *left += idle;
                match user {
                    Ok(Some(user)) if !hold(user, &turns[user]) => return Some(user),
                    Ok(Some(user)) => {
                        self.turns[at].waiting -= turns[user].waiting;
                        site.rounds.suspend(turns, user);
                        site.active -= 1;
                    }
                    // Nobody there has anything to send.
                    Ok(None) => break,
                    Err(Over) => {
                        site.turn = site.turn.wrapping_add(1);
                        self.turns[at].end();
                        break;
                    }
                }
            }
        }
    }

    /// Sites whose time has come take part in the rounds again; the latest of these times.
    #[inline]
    fn release(&mut self, now: Time) -> Option<Time> {
        let mut latest = None;
        while let Some(Reverse((due, site))) = self.held.peek().copied().filter(|Reverse((due, _))| *due <= now)
        {
            self.held.pop();
            self.packets -= self.turns[site as usize].waiting;
            self.rounds.resume(&mut self.turns, site as usize);
            latest = Some(due);
        }
        latest
    }

    /// Nobody is on the rounds, and nobody waits for a site.
    fn clear(&mut self) {
        self.turns.fill(Turn::IDLE);
        self.sites.iter_mut().for_each(|site| (site.rounds, site.active) = (Rounds::default(), 0));
        self.rounds = Rounds::default();
        self.held.clear();
        self.packets = 0;
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.customers) + size_of_val(&*self.sites) + size_of_val(&*self.turns)
    }
}

/// How a user stands; counts are since it has its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserNow {
    /// Its key: the number of its plan, where it has one.
    pub key: u32,
    /// Bytes that were sent to it, or by it.
    pub bytes: u64,
    /// Packets that were sent.
    pub packets: u64,
    /// Packets that were discarded, for whatever reason.
    pub dropped: u64,
    /// Packets that were marked CE.
    pub marked: u64,
    /// Sojourn times of what was sent, all together.
    pub delays: Duration,
    /// The longest since it was asked for last.
    pub delay_max: Duration,
    /// The time that 95 % of the packets sent since then waited at most, up to a quarter too long; none
    /// without packets.
    pub delay_p95: Option<Duration>,
    /// Bytes and packets that wait.
    pub backlog: Bytes,
    /// Packets that wait.
    pub waiting: u32,
    /// The rate that it is held to.
    pub rate: Option<Rate>,
    /// The delay set point of its algorithm, where that has one.
    pub setpoint: Option<Duration>,
    /// The round-trip time between the queue and the user that was measured last, where somebody does.
    pub rtt: Option<Duration>,
}

/// What belongs to a place where there are plans.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(super) struct Account {
    bytes: u64,
    packets: u64,
    dropped: u64,
    marked: u64,
    delays: Duration,
    delay_max: Duration,
    pub site: u32,
    /// The turn of its site in which it got its last quantum.
    turn: u32,
    pub is_exempt: bool,
    is_one_fifo: bool,
}

impl Account {
    /// A packet was discarded.
    #[inline]
    pub fn dropped(&mut self) {
        self.dropped += 1;
    }

    /// A packet was sent.
    #[inline]
    pub fn sent(&mut self, len: Bytes, sojourn: Duration, is_marked: bool) {
        self.bytes += len.get();
        self.packets += 1;
        self.marked += u64::from(is_marked);
        self.delays += sojourn;
        self.delay_max = self.delay_max.max(sojourn);
    }
}

/// Plans in force, and the accounts of all places.
pub(super) struct Entitlements {
    plans: Plans,
    accounts: Box<[Account]>,
    /// How long packets of each waited since somebody asked.
    sojourns: Box<[Sojourns]>,
    catch_up: Duration,
}

impl Entitlements {
    /// Nobody has a plan.
    pub fn new(places: usize, catch_up: Duration) -> Entitlements {
        Entitlements {
            plans: Plans::new(Vec::new(), &[]),
            accounts: memory::array(repeat_n(Account::default(), places)),
            sojourns: memory::array(repeat_n(Sojourns::default(), places)),
            catch_up,
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.accounts) + size_of_val(&*self.sojourns) + self.plans.bytes()
    }

    #[inline]
    pub fn account(&mut self, at: usize) -> &mut Account {
        &mut self.accounts[at]
    }

    /// A packet was sent, after it had waited so long.
    #[inline]
    pub fn counted(&mut self, at: usize, len: Bytes, sojourn: Duration, is_marked: bool) {
        self.accounts[at].sent(len, sojourn, is_marked);
        self.sojourns[at].note(sojourn);
    }

    /// Whether all flows of a user have one FIFO.
    #[inline]
    pub fn is_one_fifo(&self, at: usize) -> bool {
        self.accounts[at].is_one_fifo
    }

    /// Asks for the memory of what is told of a place.
    #[inline]
    fn ask(&self, at: usize) {
        memory::soon(&self.accounts[at]);
        memory::lines_soon(&self.sojourns[at], 2);
    }

    /// A place has a new user, who has sent nothing.
    pub fn begin(&mut self, at: usize) {
        (self.accounts[at], self.sojourns[at]) = Default::default();
    }

    #[inline]
    fn site(&self, at: usize) -> usize {
        self.accounts[at].site as usize
    }

    /// What a user of a site gets, where that has a rate.
    #[inline]
    pub fn share(&self, at: usize) -> Option<Rate> {
        Some(self.plans.share(self.site(at))).filter(|rate| *rate != Rate::ZERO)
    }

    /// A user who was idle has something to send.
    #[inline]
    pub fn join(&mut self, turns: &mut [Turn], at: usize, quantum: i64) {
        let site = self.site(at);
        self.plans.join(turns, at, site, quantum);
    }

    /// A user waited for something else.
    pub fn resume(&mut self, turns: &mut [Turn], at: usize) {
        let site = self.site(at);
        self.plans.resume(turns, at, site);
    }

    /// A packet came for a user who does not wait for its own rate.
    #[inline]
    pub fn stored(&mut self, at: usize) {
        let site = self.site(at);
        self.plans.stored(site, 1);
    }

    /// A packet was taken out of a FIFO of the user whose turn it is.
    #[inline]
    pub fn taken(&mut self, at: usize) {
        let site = self.site(at);
        self.plans.turns[site].waiting -= 1;
    }

    /// A user sent a packet that arrived then.
    #[inline]
    pub fn sent(&mut self, at: usize, now: Time, arrived: Time, len: Bytes) {
        let site = self.site(at);
        let shaper = &mut self.plans.sites[site].shaper;
        if shaper.rate() != Rate::ZERO {
            shaper.looked(now);
            shaper.sent(shaper.departure(arrived), len);
        }
    }

    /// Whose turn it is.
    #[inline]
    pub fn choose(
        &mut self,
        turns: &mut [Turn],
        now: Time,
        quantum: i64,
        left: &mut u32,
        hold: impl FnMut(usize, &Turn) -> bool,
    ) -> Option<usize> {
        self.plans.choose(turns, &mut self.accounts, now, quantum, left, hold)
    }

    /// Sites whose time has come take part again.
    #[inline]
    pub fn release(&mut self, now: Time) -> Option<Time> {
        self.plans.release(now)
    }

    /// Packets that wait for the rate of a site.
    #[inline]
    pub fn packets(&self) -> u32 {
        self.plans.packets
    }

    /// When the first of the sites that wait may send.
    #[inline]
    pub fn first(&self) -> Option<Time> {
        self.plans.held.peek().map(|Reverse((due, _))| *due)
    }
}

/// How long a burst takes at a rate.
fn time_of(burst: Bytes, rate: Rate) -> Duration {
    let nanos = u128::from(burst.get()) * 8 * u128::from(NANOS_PER_SEC) / u128::from(rate.as_bps().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl<A: Aqm + Clone, T: Copy, G: Guide<A>> PerUser<A, T, G> {
    /// Makes room for plans, beside that for rates; to be called before the first packet.
    pub(super) fn make_entitlements(&mut self, catch_up: Duration) {
        self.entitled = Some(Entitlements::new(self.users.len(), catch_up));
    }

    /// A user gets what its plan says.
    pub(super) fn entitle(&mut self, at: usize) {
        let Some(entitled) = &mut self.entitled else { return };
        let plan = entitled.plans.of(self.users[at].key);
        let account = &mut entitled.accounts[at];
        account.site = plan.site.map_or(0, |site| site + 1);
        (account.is_exempt, account.is_one_fifo) = (plan.is_exempt, plan.is_one_fifo);
        if let Some(paces) = &mut self.paces {
            let burst = plan.rate.map_or(Duration::ZERO, |rate| time_of(plan.burst, rate));
            paces.set_plan(at, plan.rate, burst);
        }
        let target = plan.target.or_else(|| self.fresh.setpoint().map(|setpoint| setpoint.get()));
        let Some(target) = target.filter(|_| entitled.plans.has_targets) else { return };
        let user = &mut self.users[at];
        let of_flows = match (&mut self.sets, user.set) {
            (Some(sets), Some(set)) => Some(sets.get(set as usize).aqms()),
            _ => None,
        };
        for aqm in [&mut user.line.aqm].into_iter().chain(of_flows.into_iter().flatten()) {
            if let Some(setpoint) = aqm.setpoint() {
                setpoint.set(target);
            }
        }
    }

    /// Puts plans in the place of those before, which it hands back. Packets stay where they are, in their
    /// order; the work grows with the number of users.
    pub(super) fn put_plans(&mut self, plans: &mut Plans) {
        let Some(entitled) = &mut self.entitled else { return };
        plans.follow(&entitled.plans, entitled.catch_up);
        std::mem::swap(&mut entitled.plans, plans);
        (0..self.used).for_each(|at| self.entitle(at));
        self.relist();
    }

    /// Nobody is held to a rate, neither users nor sites, until [`PerUser::hold_again`].
    pub(super) fn let_go(&mut self) {
        self.shapers.iter_mut().for_each(UserShapers::let_go);
        let Some(paces) = &mut self.paces else { return };
        (0..self.users.len()).for_each(|at| paces.reset(at));
        if let Some(Entitlements { plans, catch_up, .. }) = &mut self.entitled {
            plans.sites.iter_mut().for_each(|site| site.shaper = Shaper::new(Rate::ZERO, *catch_up));
        }
        self.relist();
    }

    /// Plans hold again.
    pub(super) fn hold_again(&mut self) {
        if let Some(Entitlements { plans, .. }) = &mut self.entitled {
            plans.sites.iter_mut().for_each(|site| site.shaper.set_rate(site.rate));
            (0..self.used).for_each(|at| self.entitle(at));
        }
    }

    /// Makes the rounds anew: all who have packets are on them, whether they were held or not.
    fn relist(&mut self) {
        if let Some(entitled) = &mut self.entitled {
            entitled.plans.clear();
        }
        if let Some(paces) = &mut self.paces {
            paces.clear();
        }
        self.rounds = Rounds::default();
        self.active = 0;
        let shared = self.shared();
        for at in (0..self.used).chain([shared]) {
            if self.strangers.holds(at) {
                // It waits for the shared queue, on no list.
                self.active += 1;
            } else if self.turns[at].waiting > 0 {
                self.rounds.put_aside(&mut self.turns, at);
                self.resume(at);
                self.active += 1;
            } else {
                self.turns[at] = Turn::IDLE;
            }
        }
    }

    /// Users from a place on, as many as there is room for; how many there were.
    pub(super) fn told(&mut self, from: usize, into: &mut [UserNow]) -> usize {
        let Some(entitled) = &mut self.entitled else { return 0 };
        let places = self.used.saturating_sub(from).min(into.len());
        let of_all = self.guide.setpoint();
        for (at, told) in (from..).zip(&mut into[..places]) {
            // Of many users most are in no cache.
            if let Some(user) = self.users.get(at + ASKED_AHEAD) {
                memory::lines_soon(user, 2);
                entitled.ask(at + ASKED_AHEAD);
            }
            let user = &mut self.users[at];
            let given = own_of(&mut self.own, user.key).map_or(of_all, |own| own.setpoint());
            let setpoint = given.or_else(|| user.line.aqm.setpoint().map(|setpoint| setpoint.get()));
            let of_flows = match (&self.sets, user.set) {
                (Some(sets), Some(set)) => sets.look(set as usize).backlog(),
                _ => Bytes::ZERO,
            };
            let beside = self.lanes.as_ref().map_or(Bytes::ZERO, |lanes| lanes.bytes(at));
            let Account { bytes, packets, dropped, marked, delays, .. } = entitled.accounts[at];
            *told = UserNow {
                key: user.key,
                bytes,
                packets,
                dropped,
                marked,
                delays,
                delay_max: std::mem::take(&mut entitled.accounts[at].delay_max),
                delay_p95: entitled.sojourns[at].take_p95(),
                backlog: user.line.backlog + of_flows + beside,
                waiting: self.turns[at].waiting,
                rate: self.paces.as_ref().and_then(|paces| paces.rate(at)),
                setpoint,
                rtt: None,
            };
        }
        places
    }
}
