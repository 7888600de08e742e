//! The packet path: a packet that nothing keeps, in one go.
//!
//! Nearly all packets are of a flow that was met before, find nobody before them and need not wait for any
//! rate. All that could keep such a packet is looked at first. Where nothing does it is gone; else nothing
//! was changed, and it takes the longer way (`admit`), on which the same would have become of it.

use crate::plane::classify::layout::{ACCESS, FastPath, QueuePlan, Rule, What};
use crate::plane::ingress::arrived::Arrived;
use crate::plane::io::{Io, longer};
use crate::plane::path::UserPlane;
use weir_queue::Shaper;
use weir_units::{Bytes, Rate, Time};
use weir_wire::ethernet::{self, HEADER_LEN as ETHERNET};
use weir_wire::ip;
use weir_wire::tunnel::Encapsulation;

impl UserPlane {
    /// Whether a packet that met a rule is gone; `to` is whom it is for, and whether that is IPv6.
    #[inline(always)]
    pub(in crate::plane) fn express(
        &mut self,
        session: u32,
        rule: Option<u16>,
        is_up: bool,
        arrived: Arrived,
        to: (bool, u128),
        io: &mut impl Io,
    ) -> bool {
        self.express_if::<false>(session, rule, is_up, arrived, to, io).is_some()
    }

    /// The same where something is learnt from the packet; for all others the way is compiled without.
    #[inline(never)]
    fn express_learning(
        &mut self,
        session: u32,
        rule: Option<u16>,
        is_up: bool,
        arrived: Arrived,
        to: (bool, u128),
        io: &mut impl Io,
    ) -> Option<()> {
        self.express_if::<true>(session, rule, is_up, arrived, to, io)
    }

    #[inline(always)]
    fn express_if<const LEARNS: bool>(
        &mut self,
        session: u32,
        number: Option<u16>,
        is_up: bool,
        arrived: Arrived,
        (is_v6, host): (bool, u128),
        io: &mut impl Io,
    ) -> Option<()> {
        let Arrived { frame, hash, tos, hops, at, port: from } = arrived;
        let live = self.sessions[session as usize].as_deref_mut()?;
        let rules = if is_up { &live.program.up } else { &live.program.down };
        let rule = rules.rules.get(usize::from(number?))?;
        let is_alone = live.waiting[usize::from(is_up)] == 0 && self.agenda.are_lines_empty();
        if !is_alone || hops <= 1 {
            return None;
        }
        match rule.express {
            FastPath::Always => {}
            FastPath::Learning if LEARNS => {}
            FastPath::Learning => {
                // Made anew, so that none is in memory where nothing is learnt.
                let arrived = Arrived { frame, hash, tos, hops, at, port: from };
                return self.express_learning(session, number, is_up, arrived, (is_v6, host), io);
            }
            FastPath::Never => return None,
        }
        let what = &live.program.acts.get(usize::from(rule.act))?.what;
        let Next { port, outer, overhead, is_v6: is_next_v6, host } = Next::of(what, rule, (is_v6, host))?;
        let (plan, state) = (live.program.queues.get(usize::from(rule.queue))?, self.ports.get_mut(port)?);
        let addresses = state.link.recent(host, at)?;
        let fits = frame.len as usize + overhead <= state.mtu as usize;
        let may_go = is_free(&state.shaper, at) && are_free(plan, &live.limits, at) && io.room(port) > 0;
        if !fits || !may_go {
            return None;
        }
        let len = Bytes::new(u64::from(frame.len));
        let mut learnt = None;
        if LEARNS {
            // What goes back to where it came from is of two ways at once.
            let path = live.paths.get_mut(usize::from(plan.path))?;
            let learner = path.learner.filter(|_| is_up != matches!(what, What::Tunnel(_)))?;
            let place = self.waits.place(live.lines[usize::from(rule.queue)].place?);
            if plan.follows && !go_by_bottleneck(&mut path.shaper, at, len) {
                return None;
            }
            place.active = at;
            let waiting = live.waiting[usize::from(false)] > 0;
            learnt =
                Some((plan.path, self.learners.passed(learner, is_up, at, hash, io.bytes(frame), waiting)));
        }
        // From here on it goes.
        charge(plan, &mut live.limits, at, len);
        charge_port(&mut state.shaper, at, frame.len + overhead as u32);
        live.lines[usize::from(rule.queue)].note_passed(len);
        live.usage.note_forwarded(is_up, len);
        (live.active, live.told_inactive) = (at, false);
        let frame = longer(frame, ETHERNET + overhead);
        let bytes = io.bytes(frame);
        ip::take_hop(is_v6, &mut bytes[ETHERNET + overhead..]);
        if let Some(outer) = outer {
            // It was made as long as the headers need.
            let _ = outer.write(&mut bytes[ETHERNET..], rule.qfi, tos);
        }
        let _ = ethernet::write(bytes, addresses, ethernet::of_ip(is_next_v6));
        io.push(port, frame);
        if let Some((path, learnt)) = learnt.filter(|(_, learnt)| !learnt.is_nothing()) {
            self.apply_learnt_of(session, path, &learnt, at);
        }
        Some(())
    }
}

/// Where a packet goes next.
struct Next<'a> {
    port: usize,
    /// The tunnel that it goes into, and how long its headers are.
    outer: Option<&'a Encapsulation>,
    overhead: usize,
    is_v6: bool,
    /// Number of the host.
    host: u128,
}

impl Next<'_> {
    /// By what is done with it, if it is forwarded; `to` is whom it is for.
    #[inline(always)]
    fn of<'a>(what: &'a What, rule: &Rule, to: (bool, u128)) -> Option<Next<'a>> {
        match what {
            What::Plain(port) => {
                let (is_v6, host) = to;
                Some(Next { port: *port, outer: None, overhead: 0, is_v6, host: ip::mapped(is_v6, host) })
            }
            What::Tunnel(outer) | What::Onward(outer) => {
                let (overhead, is_v6) = (outer.overhead(rule.qfi.is_some()), outer.is_v6());
                Some(Next { port: ACCESS, outer: Some(outer), overhead, is_v6, host: outer.host() })
            }
            What::Drop | What::Buffer { .. } => None,
        }
    }
}

/// Whether a rate lets a packet go now.
#[inline(always)]
pub(in crate::plane) fn is_free(shaper: &Shaper, at: Time) -> bool {
    shaper.departure(at) <= at
}

/// Whether what is known of a bottleneck lets a packet go now; it is charged with it then.
#[inline(never)]
fn go_by_bottleneck(bottleneck: &mut Option<Shaper>, at: Time, len: Bytes) -> bool {
    let Some(shaper) = bottleneck else { return true };
    let may_go = is_free(shaper, at);
    if may_go {
        shaper.sent(at, len);
    }
    may_go
}

/// Whether all rates of a queue do.
#[inline(always)]
pub(in crate::plane) fn are_free(plan: &QueuePlan, limits: &[Shaper], at: Time) -> bool {
    for place in plan.limits {
        let Some(limit) = limits.get(usize::from(place)) else { break };
        if !is_free(limit, at) {
            return false;
        }
    }
    true
}

/// Charges all rates of a queue with a packet that goes now.
#[inline(always)]
pub(in crate::plane) fn charge(plan: &QueuePlan, limits: &mut [Shaper], at: Time, len: Bytes) {
    for place in plan.limits {
        let Some(limit) = limits.get_mut(usize::from(place)) else { break };
        limit.sent(at, len);
    }
}

/// Charges the link behind a port with a packet, tunnel included.
#[inline(always)]
pub(in crate::plane) fn charge_port(shaper: &mut Shaper, at: Time, len: u32) {
    if shaper.rate() != Rate::ZERO {
        shaper.sent(at, Bytes::new(u64::from(len)));
    }
}
