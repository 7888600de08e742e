//! Several links between named nodes, and the ways that flows take over them.

use crate::aqm_config::AqmConfig;
use crate::entitlements::{Customer, Site};
use crate::errors::{Wrong, quoted};
use crate::limits::{FASTEST, SLOWEST};
use crate::link::{LinkConfig, Shaped, Upstream};
use crate::names::{NAME, name_allowed};
use crate::near::nearest;
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::{Algorithm, QueueConfig};
use crate::remarking::Remarking;
use crate::schema::{
    Check, Flat, Here, OPTIONAL_TABLES, OneTable, OptionalTable, Range, absent, or, required, such, within,
};
use crate::sense::Sense;
use crate::steering::{SteeredBy, Steering};
use crate::variation::Variation;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use weir_aqm::Needs;
use weir_queue::EACH_USER;
use weir_units::{Duration, Rate};

section! {
    /// A link in one direction between two nodes.
    pub struct Link {
        /// Name of the link, by which results, `via` and `[record]` call it.
        name: String = required(such(NAME, |t: &String| name_allowed(t)));
        /// The node where it begins.
        from: String = required(such(NAME, |t: &String| name_allowed(t)));
        /// The node where it ends.
        to: String = required(such(NAME, |t: &String| name_allowed(t)));
        /// Rate, room and byte accounting.
        shape: LinkConfig = Shaped;
        /// Time from its beginning to its end, behind the queue.
        delay: Duration = or(Duration::ZERO, within(Duration::ZERO, Duration::from_secs(10)));
        /// How it differs from a link of constant rate that loses nothing.
        variation: Variation = Flat;
        /// The medium that the link shares with all others that name the same one: they take turns, packet by
        /// packet, as modems on a cable and phones in a radio cell do. `rate` or `trace` is that of the
        /// medium and the same for all; `steps` are those of the first. With `wifi` they contend for it, with
        /// `grants` they share what is granted.
        medium: Option<String> = absent("one of its own", such(NAME, |t: &String| name_allowed(t)));
        /// Rate that the link has of its medium whatever the others send, which makes it a class of a
        /// hierarchical token bucket (tc-htb(8)) instead of one that takes turns: below this rate it goes
        /// first, and above it borrows what the others leave, in proportion to the committed rates.
        committed: Option<Rate> = absent("the links take turns", within(SLOWEST, FASTEST)) => [Simulator, Modems];
        /// Most that the link sends, with what it borrows: the rate of its queue.
        ceil: Option<Rate> = absent("the rate of the medium", within(SLOWEST, FASTEST)) => [Simulator, Modems];
        /// Whether packets of class "ef" have a lane of their own, which is served first and bypasses the
        /// algorithm.
        expedite: bool = or(false, Range::Any) => [Simulator, Modems];
        /// How packets wait at the beginning of the link.
        queue: QueueConfig = OneTable;
        /// The algorithm at the beginning of the link. Without it, packets are discarded when `buffer` is
        /// full.
        aqm: Option<AqmConfig> = Algorithm;
        /// The policy; its presence turns steering on.
        policy: Option<PolicyConfig> = OptionalTable;
        /// What steers its queue.
        steering: Steering = Flat;
        /// What the link learns of the bottlenecks behind it from the packets that pass: "off" nothing;
        /// "inform" measures round-trip times and bytes in flight behind it and tells its algorithm, which
        /// `vaqm` needs, each user's where `queue.discipline` is "user"; "follow" in addition lowers its own
        /// rate to that of the bottleneck, or with "user" that of each user to that of the user's bottleneck;
        /// "follow_largest" does so by the article's rule, from the largest rate at which no queue stood
        /// there.
        /// Acknowledgements must come back through the node where it begins.
        upstream: Upstream = or(Upstream::Off, Range::Any);
        /// What becomes of the DSCP of packets.
        remarking: Remarking = Flat;
        /// What users are entitled to, where `queue.discipline` is "user". Users without an entry are held to
        /// no rate.
        customers: Vec<Customer> = OPTIONAL_TABLES => [Simulator];
        /// What customers share on their way, such as a tower or a cabinet.
        sites: Vec<Site> = OPTIONAL_TABLES => [Simulator];
        /// Probes; their presence turns sensing on.
        sense: Option<Sense> = OptionalTable;
    }
}

impl Check for Link {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        self.aqm = self.queue.own_aqm().or(self.aqm.take());
        if self.from == self.to {
            let problem = format!("is {}, where the link begins", quoted(&self.to));
            here.wrong(p, "to", problem, "a link leads from one node to another: name another one");
        }
        self.check_upstream(here, p);
        self.check_class(here, p);
        self.check_customers(here, p);
        match (&self.aqm, &mut self.policy) {
            (None, Some(_)) => {
                let remedy = "name an algorithm in `aqm`, or remove the `policy` table";
                here.wrong(p, "policy", "has nothing to steer without an algorithm", remedy);
            }
            (Some(aqm), Some(policy)) => policy.check_with(aqm, &self.queue, here, p),
            _ => {}
        }
        if let Some(wrong) =
            self.steering.wrong_with(self.policy.as_ref(), &self.variation, self.medium.is_some())
        {
            here.wrong(p, "steered_by", wrong.problem, wrong.remedy);
        }
        if self.sense.is_some() && self.aqm.is_none() {
            let like = weir_aqm::names_needing(Needs::Probes).next().unwrap_or(weir_aqm::UNMANAGED);
            let remedy =
                format!("name an algorithm that uses samples, such as `aqm = {{ name = \"{like}\" }}`");
            here.wrong(p, "sense", "has nobody to tell without an algorithm", remedy);
        }
        if let Some(sense) = &self.sense {
            let fixed =
                self.moved_by().or((self.steering.steered_by == SteeredBy::Poll).then_some("steered_by"));
            sense.rate.check_with(self.known_rate(), fixed, "sense", here, p);
        }
    }
}

impl Link {
    /// Tells a rate that is to follow two masters, and an algorithm that is to be told two kinds of round
    /// trips.
    fn check_upstream(&self, here: &Here, p: &mut Problems) {
        if self.upstream != Upstream::Off && self.sense.is_some() {
            let problem = "tells the algorithm of round trips, and `sense` of others";
            here.wrong(p, "upstream", problem, "remove the `sense` table, or say \"off\"");
        }
        if !self.upstream.follows() {
            return;
        }
        let Some(other) = self.moved_by().or(self.policy.is_some().then_some("policy")) else { return };
        let remedy = format!("remove `{other}`, or say \"inform\"");
        here.wrong(p, "upstream", format!("moves the rate and does not go with `{other}`"), remedy);
    }

    /// The key by which something else says when the link sends.
    fn moved_by(&self) -> Option<&'static str> {
        match () {
            () if self.medium.is_some() => Some("medium"),
            () if self.variation.trace.is_some() => Some("trace"),
            () if !self.variation.steps.is_empty() => Some("steps"),
            () => self.variation.turns(),
        }
    }

    /// Tells rates of a class that do not go with each other or with the link.
    fn check_class(&self, here: &Here, p: &mut Problems) {
        let Some(committed) = self.committed else {
            if self.ceil.is_some() {
                let remedy = "give the `committed` rate too, or a smaller `rate` instead";
                here.wrong(p, "ceil", "bounds what is borrowed, and the link borrows nothing", remedy);
            }
            return;
        };
        if self.medium.is_none() {
            let remedy = "name the `medium` that others share, or remove it";
            here.wrong(p, "committed", "is a share of a medium, and the link has one of its own", remedy);
        }
        if self.variation.trace.is_some() || !self.variation.steps.is_empty() {
            let remedy = "give the medium a constant `rate`";
            here.wrong(p, "committed", "does not go with a rate that changes", remedy);
        }
        if let Some(turns) = self.variation.turns() {
            let problem =
                format!("does not go with `{turns}`, which gives the links of a medium their turns");
            here.wrong(p, "committed", problem, "remove one of the two");
        }
        if self.ceil.is_some_and(|ceil| ceil < committed) {
            here.wrong(p, "ceil", "lies below `committed`", "raise it, or lower `committed`");
        }
        if self.upstream.follows() {
            let remedy = "remove `committed`, or say \"inform\"";
            here.wrong(p, "upstream", "moves the rate and does not go with `committed`", remedy);
        }
    }

    /// Tells customers that do not go with the link or with each other.
    fn check_customers(&self, here: &Here, p: &mut Problems) {
        for (at, site) in self.sites.iter().enumerate() {
            if let Some(first) = self.sites[..at].iter().position(|other| other.name == site.name) {
                let problem = format!("{} is the name of site {first} already", quoted(&site.name));
                here.wrong(p, &format!("sites.{at}.name"), problem, "give each site a name of its own");
            }
        }
        if self.customers.is_empty() {
            if !self.sites.is_empty() {
                here.wrong(
                    p,
                    "sites",
                    "hold customers to their rates, and there are none",
                    "add `customers`",
                );
            }
            return;
        }
        let Some(key) = self.queue.user_key() else {
            let remedy = format!("say `queue.discipline = \"{EACH_USER}\"`, or remove them");
            return here.wrong(p, "customers", "need a queue for each user", remedy);
        };
        let other = match () {
            () if self.upstream.follows() => Some("upstream"),
            () if self.medium.is_some() => Some("medium"),
            () => self.variation.turns(),
        };
        if let Some(other) = other {
            let problem = format!("do not go with `{other}`, which says when the link sends");
            here.wrong(p, "customers", problem, "remove one of the two");
        }
        for (at, customer) in self.customers.iter().enumerate() {
            let mut wrong = |key: &str, problem: String, remedy: String| {
                here.wrong(p, &format!("customers.{at}.{key}"), problem, remedy);
            };
            if let Some(first) = self.customers[..at].iter().position(|other| other.group == customer.group) {
                wrong("group", format!("is that of customer {first} already"), "name it once".into());
            }
            let known = || self.sites.iter().map(|site| site.name.as_str());
            if let Some(site) = customer.site.as_deref().filter(|site| known().all(|name| name != *site)) {
                let meant = nearest(site, known());
                let meant = meant.map_or(String::new(), |meant| format!("did you mean {}? ", quoted(meant)));
                wrong("site", format!("{} is no site", quoted(site)), format!("{meant}add it to `sites`"));
            }
            // Who is forgotten has no debt.
            let refill = customer.rate.map(|rate| rate.time_for(customer.terms.burst));
            if let Some(time) = refill.filter(|time| *time > key.idle) {
                wrong(
                    "burst",
                    format!(
                        "is sent at the rate in {time}, and a user is forgotten after {}, who could send it again",
                        key.idle
                    ),
                    "give a smaller one, or a longer `queue.idle`".into(),
                );
            }
            if customer.terms.target.is_some() && self.policy.is_some() {
                let problem = "does not go with `policy`, which moves the set points of all";
                let remedy = "remove one of the two, or say `target_max`";
                wrong("target", problem.into(), remedy.into());
            }
            let (policy, aqm) = (self.policy.as_ref(), self.aqm.as_ref());
            let polled = self.steering.polls().and(customer.terms.policy.over(&PolicyConfig::default()));
            if let Some((key, problem, remedy)) =
                customer.terms.policy.wrong_in(policy, aqm, &self.queue, ("rate", customer.rate))
            {
                wrong(key, problem, remedy);
            } else if polled.is_some() {
                let problem = "is held packet by packet, and counters steer this queue";
                wrong("target_max", problem.into(), "say `steered_by = \"packet\"`".into());
            }
        }
    }

    /// The rate of its queue: most of what it can have of its medium.
    pub fn queue_rate(&self) -> Rate {
        self.ceil.map_or(self.rate(), |ceil| ceil.min(self.rate()))
    }

    /// The rate, or that of the trace on average.
    pub fn rate(&self) -> Rate {
        self.known_rate().expect("a link with neither rate nor trace is refused when it is read")
    }

    pub(crate) fn known_rate(&self) -> Option<Rate> {
        self.shape.rate_with(&self.variation)
    }
}

/// The nodes and which links begin there. Links that are wrong in themselves were refused before.
pub(crate) struct Map<'a> {
    links: &'a [Link],
    /// The numbers of the nodes.
    nodes: BTreeMap<&'a str, u32>,
    /// Of each node the links that begin there, each with the node where it ends.
    out: Vec<Vec<(usize, u32)>>,
    /// Of each link the node where it begins.
    begins: Vec<u32>,
    /// How far the last search came: routes of a large network often begin at the same node.
    last: RefCell<Option<Search>>,
}

/// A search for nodes, breadth first, that can be gone on with.
struct Search {
    from: u32,
    /// Of each node the link by which it was reached first.
    reached: Vec<Option<usize>>,
    waiting: VecDeque<u32>,
}

impl<'a> Map<'a> {
    pub fn new(links: &'a [Link]) -> Map<'a> {
        let mut map = Map {
            links,
            nodes: BTreeMap::new(),
            out: Vec::new(),
            begins: Vec::new(),
            last: RefCell::new(None),
        };
        for (i, link) in links.iter().enumerate() {
            let (from, to) = (map.node(&link.from), map.node(&link.to));
            map.out[from as usize].push((i, to));
            map.begins.push(from);
        }
        map
    }

    /// The number of a node, which is new if the name is.
    fn node(&mut self, name: &'a str) -> u32 {
        let number = *self.nodes.entry(name).or_insert(self.out.len() as u32);
        if number as usize == self.out.len() {
            self.out.push(Vec::new());
        }
        number
    }

    /// Tells a name that is no node.
    pub fn check_node(&self, name: &str) -> Result<(), Wrong> {
        if self.nodes.contains_key(name) {
            return Ok(());
        }
        Err(Wrong::new(format!("no link begins or ends at {}", quoted(name)), self.hint(name, &self.names())))
    }

    fn names(&self) -> Vec<&'a str> {
        self.nodes.keys().copied().collect()
    }

    fn hint(&self, name: &str, names: &[&str]) -> String {
        const MOST: usize = 10;
        if let Some(near) = nearest(name, names.iter().copied()) {
            return format!("did you mean {}?", quoted(near));
        }
        let more = if names.len() > MOST { ", …" } else { "" };
        format!("there are {}{more}", names[..names.len().min(MOST)].join(", "))
    }

    /// The route of fewest links; of several such, the one whose links come first in the file.
    pub fn shortest(&self, from: &str, to: &str) -> Option<Vec<usize>> {
        let (from, to) = (*self.nodes.get(from)?, *self.nodes.get(to)?);
        let mut last = self.last.borrow_mut();
        let search = match &mut *last {
            Some(search) if search.from == from => search,
            other => other.insert(Search {
                from,
                reached: vec![None; self.out.len()],
                waiting: VecDeque::from([from]),
            }),
        };
        // Nodes are left in the order in which they were reached, and links in the order of the file, so that
        // the first way to a node is also the one that comes first among the ways of its length.
        while to != from && search.reached[to as usize].is_none() {
            let node = search.waiting.pop_front()?;
            for (link, next) in &self.out[node as usize] {
                if *next != from && search.reached[*next as usize].is_none() {
                    search.reached[*next as usize] = Some(*link);
                    search.waiting.push_back(*next);
                }
            }
        }
        let mut route = Vec::new();
        let mut node = to;
        while node != from {
            let link = search.reached[node as usize]?;
            route.push(link);
            node = self.begins[link];
        }
        route.reverse();
        Some(route)
    }

    /// The route over named links; a problem comes with the number of the name it is about.
    pub fn along(&self, via: &[String], from: &str, to: &str) -> Result<Vec<usize>, (usize, Wrong)> {
        let by_name: BTreeMap<&str, usize> =
            self.links.iter().enumerate().rev().map(|(i, link)| (link.name.as_str(), i)).collect();
        let mut route: Vec<usize> = Vec::new();
        let mut visited = vec![from];
        for (i, name) in via.iter().enumerate() {
            let wrong = |problem: String, remedy: String| Err((i, Wrong::new(problem, remedy)));
            let Some(number) = by_name.get(name.as_str()) else {
                let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
                return wrong(format!("there is no link {}", quoted(name)), self.hint(name, &names));
            };
            let (link, here) = (&self.links[*number], *visited.last().expect("it starts with one"));
            if link.from != here {
                let problem = format!("link {name} begins at {}, not at {here}", link.from);
                return wrong(
                    problem,
                    "name the links in their order, each beginning where the last one ends".into(),
                );
            }
            if visited.contains(&link.to.as_str()) {
                let problem = format!("link {name} leads back to {}", link.to);
                return wrong(problem, "a route visits each node once: leave the loop out".into());
            }
            visited.push(&link.to);
            route.push(*number);
        }
        let end = *visited.last().expect("it starts with one");
        if end != to {
            let problem = format!("the route ends at {end}, not at {to}");
            return Err((via.len().saturating_sub(1), Wrong::new(problem, "add the links that are missing")));
        }
        Ok(route)
    }
}
