//! Links and routes of a scenario as the simulator uses them, whichever form the file has.

use crate::aqm_config::AqmConfig;
use crate::entitlements::{Customer, Site};
use crate::errors::Wrong;
use crate::experiment::Scenario;
use crate::flows::{Direction, FlowGroup, Rtt};
use crate::link::{Counting, Upstream};
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::QueueConfig;
use crate::remarking::Remarking;
use crate::schema::Here;
use crate::sense::Sense;
use crate::steering::Steering;
use crate::topology::{Link, Map};
use crate::variation::Variation;
use weir_sense::probe::{Settings, ShapingSettings};
use weir_units::{Bytes, Duration, Rate};

/// Name of the link of a file with `[link]`.
pub const BOTTLENECK: &str = "bottleneck";

/// Links, and the way of each group of flows over them.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// The links, in the order of the file.
    pub links: Vec<NetworkLink>,
    /// The way of each `[[flows]]` table, in the order of the file; of a table with `pairs` those of all
    /// pairs, in their order.
    pub routes: Vec<Route>,
}

/// A link in one direction.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkLink {
    /// Its name.
    pub name: String,
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// Its rate; the average of the trace, if it follows one.
    pub rate: Rate,
    /// Room for waiting packets, by the link's accounting.
    pub buffer: Bytes,
    /// Which bytes of a packet count.
    pub counting: Counting,
    /// Changes of the rate, trace, jitter and loss.
    pub variation: Variation,
    /// Time from its beginning to its end, behind the queue.
    pub delay: Duration,
    /// How packets wait at its beginning.
    pub queue: QueueConfig,
    /// The algorithm at its beginning.
    pub aqm: AqmConfig,
    /// The policy, where it is steered.
    pub policy: Option<PolicyConfig>,
    /// What steers its queue, where there is a policy.
    pub steering: Steering,
    /// What it learns of the bottlenecks behind it from the packets that pass.
    pub upstream: Upstream,
    /// Index of the first link of its medium; its own where it shares none.
    pub medium: usize,
    /// Rate of its medium.
    pub medium_rate: Rate,
    /// The rate that it has of its medium whatever others send, where it is a class of a shaper.
    pub committed: Option<Rate>,
    /// Whether expedited packets bypass the algorithm.
    pub expedite: bool,
    /// What becomes of the DSCP of packets.
    pub remarking: Remarking,
    /// What users are entitled to.
    pub customers: Vec<Customer>,
    /// What customers share on their way.
    pub sites: Vec<Site>,
    /// Probes that follow its packets.
    pub probing: Option<Probing>,
}

/// Probes of a link: the links that they pass, in order and back again, and how they are sent.
#[derive(Clone, PartialEq, Debug)]
pub struct Probing {
    /// Indices of the links, the probing one first.
    pub route: Vec<usize>,
    /// How they are sent.
    pub settings: Settings,
    /// What they do to the rate of the link; `None` where that is nothing.
    pub shaping: Option<ShapingSettings>,
}

/// The way of flows that are alike.
#[derive(Clone, PartialEq, Debug)]
pub struct Route {
    /// Number of the `[[flows]]` table whose flows go this way, `count` of them.
    pub group: usize,
    /// The node that sends; empty for a file with `[link]`.
    pub from: String,
    /// The node that receives; empty for a file with `[link]`.
    pub to: String,
    /// Indices of the links that data passes, in order; empty where it meets nothing but a delay.
    pub forward: Vec<usize>,
    /// Indices of the links that acknowledgements pass, in order; empty where they meet nothing but a delay.
    pub back: Vec<usize>,
    /// Round-trip time of the flows without any queue, drawn for each of them where it is a range.
    pub rtt: Rtt,
    /// Delay of the links in both directions together.
    pub link_delay: Duration,
    /// The share of what is left of the round-trip time that delays the data.
    split: Split,
}

/// A share as two numbers, so that halves and the delays of a file come out exactly.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Split {
    part: Duration,
    whole: Duration,
}

/// Delays that a flow has beside those of its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtraDelay {
    /// Between the last link and the receiver.
    pub forward: Duration,
    /// Between the last link of the way back and the sender.
    pub back: Duration,
}

impl Route {
    /// The delays beside the links that give a flow this round-trip time, which is one of [`Route::rtt`].
    pub fn extra_delay(&self, rtt: Duration) -> ExtraDelay {
        let spare = rtt - self.link_delay;
        let (part, whole) = (self.split.part.as_nanos(), self.split.whole.as_nanos());
        let product = u128::from(spare.as_nanos()) * u128::from(part);
        // A part is at most the whole, so that the share fits.
        let forward = product.checked_div(u128::from(whole)).unwrap_or(0) as u64;
        let forward = Duration::from_nanos(forward);
        ExtraDelay { forward, back: spare - forward }
    }
}

impl Scenario {
    /// Links and routes, the same for a file with `[link]` and for one with `[[links]]`.
    ///
    /// # Panics
    ///
    /// When the scenario was changed after it was read, so that a flow has no route any more.
    pub fn network(&self) -> Network {
        if self.links.is_empty() {
            return self.dumbbell();
        }
        let map = Map::new(&self.links);
        let mut routes = Vec::new();
        for (group, flows) in self.flows.iter().enumerate() {
            for (from, to) in self.ends(flows) {
                routes.push(self.route(&map, group, &from, &to).expect("checked when it was read"));
            }
        }
        Network { links: self.network_links(&map), routes }
    }

    /// From where to where flows go: between several pairs of nodes, where the file says so.
    fn ends(&self, flows: &FlowGroup) -> Vec<(String, String)> {
        match (&self.network, flows.pairs) {
            (Some(shape), Some(pairs)) => shape.pairs(pairs, flows.direction),
            _ => flows.from.clone().zip(flows.to.clone()).into_iter().collect(),
        }
    }

    fn network_links(&self, map: &Map) -> Vec<NetworkLink> {
        let link = |(number, link): (usize, &Link)| NetworkLink {
            name: link.name.clone(),
            from: link.from.clone(),
            to: link.to.clone(),
            rate: link.queue_rate(),
            buffer: link.shape.buffer.bytes(link.queue_rate()),
            counting: link.shape.counting(),
            variation: link.variation.clone(),
            delay: link.delay,
            queue: link.queue.clone(),
            aqm: link.aqm.clone().unwrap_or_else(AqmConfig::fifo),
            policy: link.policy.clone(),
            steering: link.steering.clone(),
            upstream: link.upstream,
            medium: self.first_of_medium(number),
            medium_rate: link.rate(),
            committed: link.committed,
            expedite: link.expedite,
            remarking: link.remarking.clone(),
            customers: link.customers.clone(),
            sites: link.sites.clone(),
            probing: link.sense.as_ref().map(|sense| Probing {
                route: self.probed(map, number, sense).expect("checked when it was read"),
                settings: sense.settings(),
                shaping: sense.rate.settings(link.queue_rate()),
            }),
        };
        self.links.iter().enumerate().map(link).collect()
    }

    /// The first link of the medium of a link.
    fn first_of_medium(&self, number: usize) -> usize {
        let medium = &self.links[number].medium;
        let same = |link: &Link| link.medium == *medium;
        medium.as_ref().and_then(|_| self.links.iter().position(same)).unwrap_or(number)
    }

    /// The links that the probes of a link pass.
    fn probed(&self, map: &Map, number: usize, sense: &Sense) -> Result<Vec<usize>, Wrong> {
        map.check_node(&sense.at)?;
        let link = &self.links[number];
        if sense.at == link.from {
            return Err(Wrong::new(
                "is where the link begins",
                "name a node behind the queues to be measured",
            ));
        }
        let way = |from: &str, to: &str| {
            let none = || {
                Wrong::new(format!("no links lead from {from} to {to}"), "add links, or name another node")
            };
            map.shortest(from, to).ok_or_else(none)
        };
        let mut route = vec![number];
        route.extend(way(&link.to, &sense.at)?);
        route.extend(way(&sense.at, &link.from)?);
        Ok(route)
    }

    /// Tells links of one medium that do not agree about it, and probes that cannot come back.
    pub(crate) fn check_media_and_probes(&self, here: &Here, p: &mut Problems) {
        let map = Map::new(&self.links);
        for (i, link) in self.links.iter().enumerate() {
            let first = self.first_of_medium(i);
            let (own, led) = (&link.variation, &self.links[first].variation);
            if own.wifi.is_some() != led.wifi.is_some() || own.grants != led.grants {
                let key = own.turns().or(led.turns()).unwrap_or_default();
                let problem = format!("is not that of `links.{first}`, which is on the same medium");
                let remedy = "say it of all links of a medium, or of none";
                here.wrong(p, &format!("links.{i}.{key}"), problem, remedy);
            }
            // Each radio has a rate of its own.
            let rates_differ = link.known_rate() != self.links[first].known_rate();
            if first != i && rates_differ && own.wifi.is_none() {
                let problem = format!("is not that of `links.{first}`, which is on the same medium");
                here.wrong(p, &format!("links.{i}.rate"), problem, "give all links of a medium its rate");
            }
            if first != i && link.variation.trace != self.links[first].variation.trace {
                let problem = format!("is not that of `links.{first}`, which is on the same medium");
                here.wrong(p, &format!("links.{i}.trace"), problem, "give all links of a medium its trace");
            }
            if first != i && link.committed.is_some() != self.links[first].committed.is_some() {
                let problem = format!("is given for some links of the medium of `links.{first}` alone");
                let remedy = "give it for all links of a medium, or for none";
                here.wrong(p, &format!("links.{i}.committed"), problem, remedy);
            }
            let same = self.links.iter().filter(|other| other.medium == link.medium);
            let committed: u64 = same.filter_map(|other| other.committed).map(Rate::as_bps).sum();
            if first == i && link.known_rate().is_some_and(|rate| committed > rate.as_bps()) {
                let problem = format!(
                    "is {} with that of the others, more than the medium has",
                    Rate::from_bps(committed)
                );
                let remedy = "lower the committed rates, or raise the `rate` of all links of the medium";
                here.wrong(p, &format!("links.{i}.committed"), problem, remedy);
            }
            if first != i && !link.variation.steps.is_empty() {
                let remedy = format!("move them to `links.{first}`, the first on the medium");
                here.wrong(p, &format!("links.{i}.steps"), "change the rate of a medium", remedy);
            }
            if let Some(wrong) = link.sense.as_ref().and_then(|sense| self.probed(&map, i, sense).err()) {
                here.wrong(p, &format!("links.{i}.sense.at"), wrong.problem, wrong.remedy);
            }
        }
    }

    /// One link from a to b. Its delay lies behind it, as every flow may have its own.
    fn dumbbell(&self) -> Network {
        let link = NetworkLink {
            name: BOTTLENECK.to_string(),
            from: "a".to_string(),
            to: "b".to_string(),
            rate: self.rate(),
            buffer: self.link.shape.buffer.bytes(self.rate()),
            counting: self.link.shape.counting(),
            variation: self.link.variation.clone(),
            delay: Duration::ZERO,
            queue: self.queue.clone(),
            aqm: self.aqm.clone(),
            policy: self.policy.clone(),
            steering: self.link.steering.clone(),
            upstream: Upstream::Off,
            medium: 0,
            medium_rate: self.rate(),
            committed: None,
            expedite: false,
            remarking: Remarking::default(),
            customers: Vec::new(),
            sites: Vec::new(),
            probing: None,
        };
        let route = |(group, flows): (usize, &FlowGroup)| {
            let rtt = flows.rtt.unwrap_or(Rtt::Constant(self.path.rtt));
            let (there, here) = (vec![0], Vec::new());
            let (forward, back, part) = match flows.direction {
                Direction::Forward => (there, here, self.path.forward_delay()),
                Direction::Reverse => (here, there, self.path.reverse_delay()),
            };
            let split = match self.path.rtt {
                // Nothing can be split as nothing: halves.
                Duration::ZERO => Split { part: Duration::from_nanos(1), whole: Duration::from_nanos(2) },
                whole => Split { part, whole },
            };
            let (from, to) = (String::new(), String::new());
            Route { group, from, to, forward, back, rtt, link_delay: Duration::ZERO, split }
        };
        Network { links: vec![link], routes: self.flows.iter().enumerate().map(route).collect() }
    }

    /// The way of flows over links; a problem comes with the key of the flows it is about.
    fn route(&self, map: &Map, group: usize, from: &str, to: &str) -> Result<Route, (String, Wrong)> {
        let flows = &self.flows[group];
        map.check_node(from).map_err(|wrong| ("from".to_string(), wrong))?;
        map.check_node(to).map_err(|wrong| ("to".to_string(), wrong))?;
        if from == to {
            let wrong = Wrong::new("is where the flows begin", "name another node");
            return Err(("to".to_string(), wrong));
        }
        let forward = if flows.via.is_empty() {
            let none =
                || Wrong::new(format!("no links lead there from {from}"), "add links, or name another node");
            map.shortest(from, to).ok_or_else(|| ("to".to_string(), none()))?
        } else {
            map.along(&flows.via, from, to).map_err(|(i, wrong)| (format!("via.{i}"), wrong))?
        };
        let back = map.shortest(to, from).unwrap_or_default();
        let delay =
            |route: &[usize]| route.iter().fold(Duration::ZERO, |sum, link| sum + self.links[*link].delay);
        let link_delay = delay(&forward) + delay(&back);
        let least = if back.is_empty() { link_delay.saturating_mul(2) } else { link_delay };
        let rtt = flows.rtt.unwrap_or(Rtt::Constant(least));
        if rtt.shortest() < link_delay {
            let problem = format!("{} is less than the delay of the links, {link_delay}", rtt.shortest());
            return Err(("rtt".to_string(), Wrong::new(problem, "raise it, or shorten the links")));
        }
        // What is left delays the way back, where it disturbs no queue.
        let split = Split { part: Duration::ZERO, whole: link_delay };
        let (from, to) = (from.to_string(), to.to_string());
        Ok(Route { group, from, to, forward, back, rtt, link_delay, split })
    }

    /// Tells links that are to observe flows whose acknowledgements they cannot see.
    fn check_sight(&self, flows: usize, route: &Route, here: &Here, p: &mut Problems) {
        let blind = |link: &&usize| {
            let link = &self.links[**link];
            link.upstream != Upstream::Off
                && !route.back.iter().any(|back| self.links[*back].from == link.from)
        };
        for number in route.forward.iter().filter(blind) {
            let from = &self.links[*number].from;
            let problem = format!("sees no acknowledgements of flows.{flows}: none come back through {from}");
            let remedy = format!("add links that lead back through {from}, or say \"off\"");
            here.wrong(p, &format!("links.{number}.upstream"), problem, remedy);
        }
    }

    /// Tells flows that cannot reach where they go, and links that cannot hold their packets.
    pub(crate) fn check_routes(&self, here: &Here, p: &mut Problems) {
        let map = Map::new(&self.links);
        let mut largest = vec![0; self.links.len()];
        for (i, flows) in self.flows.iter().enumerate() {
            for (from, to) in self.ends(flows) {
                match self.route(&map, i, &from, &to) {
                    Ok(route) => {
                        self.check_sight(i, &route, here, p);
                        for link in route.forward {
                            largest[link] = self.mtu(flows).max(largest[link]);
                        }
                    }
                    Err((key, wrong)) => {
                        here.wrong(p, &format!("flows.{i}.{key}"), wrong.problem, wrong.remedy);
                        // The other pairs would tell the same.
                        break;
                    }
                }
            }
        }
        if self.network.is_some() {
            // All links are like `[link]`, and those of other rates have as much room.
            let mtu = largest.into_iter().max().unwrap_or(0);
            let rate = self.link.shape.rate_with(&self.link.variation);
            return self.link.shape.check_room(rate, mtu, "link.", here, p);
        }
        for (i, (link, mtu)) in self.links.iter().zip(largest).enumerate() {
            link.shape.check_room(link.known_rate(), mtu, &format!("links.{i}."), here, p);
        }
    }
}
