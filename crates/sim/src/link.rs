//! A link: queue, sending side, and what happens to packets behind it.

use crate::dice::Dice;
use crate::discipline::{Discarded, LinkQueue, QueueSetup};
use crate::disorder::Disorder;
use crate::error::Error;
use crate::medium::Medium;
use crate::meter::LinkMeter;
use crate::observer::Observer;
use crate::packet::Item;
use crate::sensing::Prober;
use crate::service::Service;
use crate::turns::Turns;
use weir_config::disorder::Losses;
use weir_config::trace::TraceLink;
use weir_config::{AqmConfig, Counting, NetworkLink, QueueConfig};
use weir_queue::{Departure, Plan, Plans};
use weir_steer::Policy;
use weir_units::{Bytes, Duration, Rate, Time};

/// What a user who is held to a rate could not send because of others is made up for over this time, as on
/// live links by default.
const CATCH_UP: Duration = Duration::from_millis(5);

/// A link in one direction.
pub struct Link {
    /// What it is called in results.
    pub name: String,
    /// Packets that wait.
    pub queue: Box<dyn LinkQueue>,
    /// Whether acknowledgements may take the place of older ones that wait.
    pub filters_acks: bool,
    /// Whether users may be held to rates of their own, so that packets wait though the link is free.
    pub is_paced: bool,
    /// Whether the queue treats packets of NQB otherwise than others.
    pub reads_nqb: bool,
    /// Expedited packets that wait, where the link has a lane for them.
    pub expedited: Option<Box<dyn LinkQueue>>,
    /// The link that sends for all of its medium: itself, where it shares none.
    pub leader: usize,
    /// The medium that it leads, if there are others on it.
    pub medium: Option<Medium>,
    /// How the links of the medium that it leads come to their turn, where they have to wait for it.
    pub turns: Option<Box<Turns>>,
    /// What sends probes behind its packets.
    pub prober: Option<Box<Prober>>,
    /// How fast packets are sent.
    pub service: Service,
    /// What of an IP packet counts.
    pub counting: Counting,
    /// What is measured.
    pub meter: LinkMeter,
    /// Packets lost behind the queue.
    pub lost: u64,
    /// What it learns of the bottlenecks behind it, if it observes packets.
    pub observer: Option<Box<Observer>>,
    /// Time between two looks at the counters of its queue, where they steer it.
    pub poll_period: Duration,
    delay: Duration,
    jitter: Option<Jitter>,
    loss: Option<Box<(Losses, Dice)>>,
    /// What changes the order of packets behind the queue, or their number.
    pub(crate) disorder: Option<Box<Disorder>>,
}

/// Delays at random that keep the order.
struct Jitter {
    most: Duration,
    dice: Dice,
    last: Time,
}

/// What users of a link are entitled to, and the policies of those who have one of their own; `None` where
/// all have what there is.
fn plans(setup: &NetworkLink) -> Option<(Plans, Vec<Option<Policy>>)> {
    let users = setup.customers.iter().map(|customer| customer.group as usize + 1).max()?;
    let (mut plans, mut policies) = (vec![Plan::default(); users], vec![None; users]);
    for customer in &setup.customers {
        let named = |name: &String| setup.sites.iter().position(|site| site.name == *name);
        let site = customer.site.as_ref().and_then(named).map(|site| site as u32);
        let at = customer.group as usize;
        (plans[at], policies[at]) = customer.terms.plan(customer.rate, site, setup.policy.as_ref());
    }
    let sites: Vec<Option<Rate>> = setup.sites.iter().map(|site| site.rate).collect();
    Some((Plans::new(plans, &sites), policies))
}

impl Link {
    /// Builds a link; `run` is the seed of the run.
    pub fn new(setup: &NetworkLink, run: u64, meter: LinkMeter) -> Result<Link, Error> {
        let stream = |what: &str| format!("link {} {what}", setup.name);
        let queue = QueueSetup {
            queue: &setup.queue,
            aqm: &setup.aqm,
            policy: setup.policy.as_ref(),
            steering: &setup.steering,
            room: setup.buffer,
            rate: setup.rate,
            seed: crate::dice::seed_of(run, &stream("aqm")),
        };
        let (usual, fifo) = (QueueConfig::default(), AqmConfig::fifo());
        let lane = QueueSetup { queue: &usual, aqm: &fifo, policy: None, ..queue };
        let nonce = crate::dice::seed_of(run, &stream("nonce")) as u16;
        let variation = &setup.variation;
        let jitter =
            Jitter { most: variation.jitter, dice: Dice::of(run, &stream("jitter")), last: Time::ZERO };
        let losses = variation.losses().map(|losses| (losses, Dice::of(run, &stream("loss"))));
        let service =
            variation.trace().map(|trace| Service::Trace(TraceLink::new(trace, Time::ZERO, Time::ZERO)));
        let mut queue_of_all = queue.build()?;
        let observer = Observer::of(setup);
        let is_paced = observer.as_ref().is_some_and(|observer| observer.follows_users());
        if is_paced {
            queue_of_all.make_paces(CATCH_UP);
        }
        let plans = plans(setup);
        let is_paced = is_paced || plans.is_some();
        if let Some((plans, policies)) = plans {
            queue_of_all.put_plans(plans, &policies, CATCH_UP);
        }
        Ok(Link {
            name: setup.name.clone(),
            filters_acks: queue_of_all.filters_acks(),
            is_paced,
            reads_nqb: queue_of_all.reads_nqb(),
            queue: queue_of_all,
            expedited: setup.expedite.then(|| lane.build()).transpose()?,
            leader: setup.medium,
            medium: None,
            turns: None,
            prober: setup.probing.as_ref().map(|probing| Box::new(Prober::new(probing, nonce))),
            service: service.unwrap_or_else(|| Service::at_rate(setup.medium_rate)),
            counting: setup.counting,
            meter,
            lost: 0,
            observer,
            poll_period: setup.steering.poll_period,
            delay: setup.delay,
            jitter: (variation.jitter > Duration::ZERO).then_some(jitter),
            loss: losses.map(Box::new),
            disorder: Disorder::of(variation, |what| Dice::of(run, &stream(what))).map(Box::new),
        })
    }

    /// When a packet whose transmission ends at `sent` comes out at the other end; `None` if it is lost.
    #[inline]
    pub fn arrival(&mut self, sent: Time) -> Option<Time> {
        if let Some((losses, dice)) = self.loss.as_deref_mut()
            && losses.hits(&mut || dice.bits())
        {
            self.lost += 1;
            return None;
        }
        let at = sent + self.delay;
        Some(match &mut self.jitter {
            None => at,
            Some(jitter) => jitter.delayed(at),
        })
    }

    /// The next packet to send: expedited ones go first.
    #[inline]
    pub fn dequeue(&mut self, now: Time, discarded: &mut Vec<Discarded>) -> Option<Departure<Item>> {
        if let Some(lane) = &mut self.expedited
            && let Some(departure) = lane.dequeue(now, discarded)
        {
            return Some(departure);
        }
        self.queue.dequeue(now, discarded)
    }

    /// Packets that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.queue.packets() + self.expedited.as_ref().map_or(0, |lane| lane.packets())
    }

    /// Bytes that left the queue so far, expedited ones too.
    pub fn bytes_sent(&self) -> u64 {
        let of = |queue: &dyn LinkQueue| queue.counters().dequeued_bytes;
        of(&*self.queue) + self.expedited.as_deref().map_or(0, of)
    }

    /// Bytes that wait, expedited ones too.
    pub fn backlog(&self) -> u64 {
        let expedited = self.expedited.as_ref().map_or(Bytes::ZERO, |lane| lane.backlog());
        (self.queue.backlog() + expedited).get()
    }

    /// The IP packet of what counts so many bytes. Radios count frames, which have a constant overhead.
    pub fn ip_bytes(&self, counted: u64) -> u32 {
        let Counting::Frame(accounting) = self.counting else { return counted as u32 };
        counted.saturating_sub(accounting.overhead().get()) as u32
    }

    /// Whether no packet was lost or made up.
    pub fn is_conserved(&self) -> bool {
        let conserved = |queue: &dyn LinkQueue| queue.counters().is_conserved(queue.packets());
        conserved(&*self.queue) && self.expedited.as_deref().is_none_or(conserved)
    }

    /// The size of an IP packet by this link's accounting.
    #[inline]
    pub fn counted(&self, ip: u32) -> Bytes {
        self.counting.of_ip(ip)
    }
}

impl Jitter {
    fn delayed(&mut self, at: Time) -> Time {
        self.last = self.last.max(at + self.dice.up_to(self.most));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_bounded_and_keeps_the_order() {
        let most = Duration::from_millis(1);
        let mut jitter = Jitter { most, dice: Dice::of(1, "j"), last: Time::ZERO };
        let (mut before, mut kept_back) = (Time::ZERO, 0);
        for n in 0..10_000 {
            // Ten packets in the span of the jitter, so that most pairs would change places.
            let at = Time::ZERO + Duration::from_micros(100 * n);
            let out = jitter.delayed(at);
            assert!(before <= out && at <= out && out < at + most);
            kept_back += u32::from(out == before);
            before = out;
        }
        assert!(kept_back > 1000, "{kept_back}");
    }
}
