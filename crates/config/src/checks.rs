//! What of a scenario does not go together, and what may not be meant.

use crate::aqm_config::AqmConfig;
use crate::entitlements::Customer;
use crate::errors::quoted;
use crate::experiment::Scenario;
use crate::flows::{Direction, IpVersion};
use crate::limits::{MAX_FLOWS, MAX_LINKS};
use crate::link::{Bottleneck, Upstream};
use crate::measure::MAX_BINS;
use crate::network::BOTTLENECK;
use crate::network_shape::words;
use crate::problems::Problems;
use crate::remarking::Remarking;
use crate::schema::{Check, Here};
use crate::topology::Link;
use crate::traffic::Traffic;
use crate::variation::Variation;
use std::collections::BTreeMap;
use weir_units::{Bytes, Duration};

impl Check for Scenario {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.network.is_some() {
            self.check_network(here, p);
        } else if self.links.is_empty() {
            self.check_link(here, p);
        } else {
            self.check_links(here, p);
        }
        self.check_flows(here, p);
        self.check_record(here, p);
        self.check_measure(here, p);
    }
}

impl Scenario {
    fn check_link(&mut self, here: &Here, p: &mut Problems) {
        let mtu = self.flows.iter().map(|f| self.mtu(f)).max().unwrap_or(self.path.mtu);
        self.link.shape.check_room(self.link.shape.rate_with(&self.link.variation), mtu, "link.", here, p);
        self.check_queue(here, p);
        for (i, flows) in self.flows.iter().enumerate() {
            let keys = [
                ("from", flows.from.is_some()),
                ("to", flows.to.is_some()),
                ("via", !flows.via.is_empty()),
                ("pairs", flows.pairs.is_some()),
            ];
            for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
                let form = if key == "pairs" { "in one line under `[network]`" } else { "under `[[links]]`" };
                let remedy = format!("remove it, or describe the links {form}");
                here.wrong(p, &format!("flows.{i}.{key}"), "does not go with `[link]`", remedy);
            }
        }
    }

    /// Checks the queue of `[link]`.
    fn check_queue(&mut self, here: &Here, p: &mut Problems) {
        if let Some(own) = self.queue.own_aqm() {
            self.aqm = own;
        }
        if let Some(policy) = &mut self.policy {
            policy.check_with(&self.aqm, &self.queue, here, p);
        }
        let link = &self.link;
        if let Some(wrong) = link.steering.wrong_with(self.policy.as_ref(), &link.variation, false) {
            here.wrong(p, "link.steered_by", wrong.problem, wrong.remedy);
        }
    }

    /// Makes the links of a description and checks who goes over them.
    fn check_network(&mut self, here: &Here, p: &mut Problems) {
        self.check_queue(here, p);
        let Some(shape) = &self.network else { return };
        // Without a rate there are no links, which was told.
        let Some(rate) = self.link.shape.rate_with(&self.link.variation) else { return };
        let count = shape.link_count();
        // What network it is was asked for.
        if count == 0 {
            return;
        }
        if count > MAX_LINKS as u64 {
            let problem = format!("describes {count} links");
            return here.wrong(p, "network", problem, format!("give at most {MAX_LINKS}"));
        }
        let like = Link {
            name: String::new(),
            from: String::new(),
            to: String::new(),
            shape: self.link.shape.clone(),
            delay: shape.delay,
            variation: self.link.variation.clone(),
            medium: None,
            committed: None,
            ceil: None,
            expedite: false,
            queue: self.queue.clone(),
            aqm: Some(self.aqm.clone()),
            policy: self.policy.clone(),
            steering: self.link.steering.clone(),
            upstream: Upstream::Off,
            remarking: Remarking::default(),
            customers: Vec::new(),
            sites: Vec::new(),
            sense: None,
        };
        self.links = shape.links(&like, rate);
        for (i, flows) in self.flows.iter().enumerate() {
            let wrong = |p: &mut Problems, key: &str, problem: &str, remedy: String| {
                here.wrong(p, &format!("flows.{i}.{key}"), problem, remedy);
            };
            let suited = shape.suited();
            match flows.pairs {
                Some(pairs) if !suited.contains(&pairs) => {
                    wrong(p, "pairs", "is not of this network", format!("give {}", words(suited)));
                }
                Some(_) if flows.from.is_some() || flows.to.is_some() || !flows.via.is_empty() => {
                    let remedy = "remove it, or `from`, `to` and `via`".to_string();
                    wrong(p, "pairs", "does not go with `from`, `to` and `via`", remedy);
                }
                None if flows.from.is_none() || flows.to.is_none() => {
                    let remedy = format!("add {}, or `from` one node `to` another", words(suited));
                    wrong(p, "pairs", "is missing: nothing says where the flows go", remedy);
                }
                None if flows.direction == Direction::Reverse => {
                    let remedy = "exchange `from` and `to`, and remove it".to_string();
                    wrong(p, "direction", "does not go with `from` and `to`", remedy);
                }
                _ => continue,
            }
            return;
        }
        if self.flow_count() <= u64::from(MAX_FLOWS) {
            self.check_routes(here, p);
        }
    }

    /// Checks several links and takes the first of them for the one that is shown.
    fn check_links(&mut self, here: &Here, p: &mut Problems) {
        if self.links.len() > MAX_LINKS {
            let problem = format!("are {} links", self.links.len());
            return here.wrong(p, "links", problem, format!("give at most {MAX_LINKS}"));
        }
        let mut named = BTreeMap::new();
        for (i, link) in self.links.iter().enumerate() {
            let first = *named.entry(link.name.as_str()).or_insert(i);
            if first != i {
                let problem = format!("{} is the name of `links.{first}` too", quoted(&link.name));
                here.wrong(p, &format!("links.{i}.name"), problem, "give each link a name of its own");
            }
            let tables = self.flows.len();
            let unknown = |customer: &Customer| customer.group as usize >= tables;
            for (at, customer) in link.customers.iter().enumerate().filter(|(_, customer)| unknown(customer))
            {
                let problem = format!("is {}, and there are {tables} tables of `[[flows]]`", customer.group);
                let remedy = "count them from 0 on";
                here.wrong(p, &format!("links.{i}.customers.{at}.group"), problem, remedy);
            }
        }
        for (i, flows) in self.flows.iter().enumerate() {
            if flows.pairs.is_some() {
                let remedy = "say with `from` and `to` where they go";
                here.wrong(p, &format!("flows.{i}.pairs"), "does not go with `[[links]]`", remedy);
            }
            for (key, _) in
                [("from", &flows.from), ("to", &flows.to)].into_iter().filter(|(_, n)| n.is_none())
            {
                let key = format!("flows.{i}.{key}");
                here.wrong(
                    p,
                    &key,
                    "is missing",
                    "with `[[links]]` flows go `from` one node `to` another: add it",
                );
            }
            if flows.direction == Direction::Reverse {
                let remedy = "exchange `from` and `to`, and remove it";
                here.wrong(p, &format!("flows.{i}.direction"), "does not go with `[[links]]`", remedy);
            }
        }
        self.check_routes(here, p);
        self.check_media_and_probes(here, p);
        let first = &self.links[0];
        self.link = Bottleneck {
            shape: first.shape.clone(),
            variation: first.variation.clone(),
            steering: first.steering.clone(),
        };
        self.queue = first.queue.clone();
        self.aqm = first.aqm.clone().unwrap_or_else(AqmConfig::fifo);
        self.policy = first.policy.clone();
    }

    fn check_flows(&self, here: &Here, p: &mut Problems) {
        if self.flow_count() > u64::from(MAX_FLOWS) {
            let problem = format!("are {} flows together", self.flow_count());
            here.wrong(p, "flows", problem, format!("give at most {MAX_FLOWS}"));
        }
        if self.flows.iter().all(|f| f.start >= self.run.duration) {
            let problem = format!("start only after the end of the run, {}", self.run.duration);
            here.wrong(p, "flows", problem, "run longer, or start earlier");
        }
        for (i, flows) in self.flows.iter().enumerate() {
            let (mtu, key) = (self.mtu(flows), if flows.mtu.is_some() { "mtu" } else { "path.mtu" });
            if flows.ip == IpVersion::V6 && mtu < 1280 {
                let problem = format!("needs packets of 1280 bytes for IPv6, and `{key}` is {mtu}");
                let remedy = format!("raise `{key}`, or use IPv4");
                here.wrong(p, &format!("flows.{i}.ip"), problem, remedy);
            }
            let room = Bytes::new(u64::from(mtu - flows.ip.udp_headers()));
            let payload = match flows.traffic() {
                Traffic::Realtime(video) => Some(Bytes::new(video.packet())),
                other => other.datagrams().and_then(|datagrams| datagrams.payload),
            };
            if let Some(packet) = payload.filter(|packet| *packet > room) {
                let of = match flows.traffic() {
                    Traffic::Voice(_) => "voice.packet_time",
                    Traffic::Game(_) => "game.payload",
                    Traffic::Realtime(_) => "realtime.payload",
                    _ => "packet",
                };
                let problem = format!("{packet} and the headers are more than `{key}`, {mtu}");
                let remedy = format!("send at most \"{}B\" in a packet", room.get());
                here.wrong(p, &format!("flows.{i}.{of}"), problem, remedy);
            }
        }
    }

    fn check_measure(&self, here: &Here, p: &mut Problems) {
        let Some(shortest) = self.measure.as_ref().and_then(|m| m.scales(self.run.duration).first().copied())
        else {
            return;
        };
        let bins = self.run.duration.as_nanos() / shortest.as_nanos().max(1);
        if bins.saturating_mul(self.flow_count()) > MAX_BINS {
            let problem =
                format!("{shortest} makes more than {MAX_BINS} counters for {} flows", self.flow_count());
            here.wrong(p, "measure.fairness.0", problem, "begin with a longer scale, or run shorter");
        }
    }

    fn check_record(&self, here: &Here, p: &mut Problems) {
        let Some(record) = &self.record else { return };
        let known = |name: &String| match self.links.is_empty() {
            true => name == BOTTLENECK,
            false => self.links.iter().any(|link| link.name == *name),
        };
        for (i, name) in record.links.iter().enumerate().filter(|(_, name)| !known(name)) {
            let remedy = "name a link of `[[links]]`, or \"bottleneck\" for that of `[link]`";
            here.wrong(p, &format!("record.links.{i}"), format!("there is no link {}", quoted(name)), remedy);
        }
        if record.from >= self.run.duration {
            let problem = format!("{} is after the end of the run, {}", record.from, self.run.duration);
            here.wrong(p, "record.from", problem, "start earlier, or run longer");
        }
    }

    /// Tells of acknowledgements that come back by no link: whether that is meant can only be said by links.
    fn ways_back(&self) -> Vec<String> {
        if self.links.is_empty() {
            return Vec::new();
        }
        let network = self.network();
        let mut told = Vec::new();
        for route in &network.routes {
            let (i, from, to) = (route.group, &route.from, &route.to);
            if self.flows[i].traffic().datagrams().is_some() {
                continue;
            }
            if route.back.is_empty() {
                told.push(format!(
                    "acknowledgements of flows.{i} pass no link: none lead from {to} to {from}. If they are to have queues, \
                     write links that lead back"
                ));
            }
        }
        told
    }

    /// Tells of flows over links without any delay.
    fn round_trips(&self) -> Vec<String> {
        if self.links.is_empty() {
            return Vec::new();
        }
        let mut told = Vec::new();
        for route in self.network().routes {
            let (i, flows) = (route.group, &self.flows[route.group]);
            if flows.traffic().datagrams().is_none()
                && route.rtt.longest() == Duration::ZERO
                && flows.rtt.is_none()
            {
                told.push(format!(
                    "flows.{i} have no round-trip time: their links have no `delay`. Remedy: give the links a `delay`, or the \
                     flows an `rtt`"
                ));
            }
        }
        told.dedup();
        told
    }

    /// What is allowed but may not be what was meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, flows) in self.flows.iter().enumerate() {
            if flows.start >= self.run.duration {
                warnings.push(format!("flows.{i} starts only after the end of the run"));
            } else if flows.stop.is_some_and(|stop| stop > self.run.duration) {
                warnings.push(format!("flows.{i} would stop only after the end of the run"));
            }
        }
        warnings.extend(self.ways_back());
        warnings.extend(self.round_trips());
        let described = self.network.as_ref().map(|_| ("link", &self.link.variation));
        let links = self.links.iter().map(|link| (link.name.as_str(), &link.variation));
        let one = [(BOTTLENECK, &self.link.variation)];
        let varied: Vec<(&str, &Variation)> = match described {
            Some(described) => vec![described],
            None if self.links.is_empty() => one.to_vec(),
            None => links.collect(),
        };
        for (name, variation) in varied {
            warnings.extend(variation.stuck().map(|told| format!("link {name}, steps: {told}")));
        }
        if self.links.is_empty() || self.network.is_some() {
            warnings.extend(self.link.steering.unused_setpoint(self.policy.as_ref(), &self.aqm));
            if self.policy.is_none() {
                let rate = self.link.shape.rate_with(&self.link.variation);
                warnings.extend(self.link.shape.beyond_buffer(rate, &self.aqm));
            }
        }
        for link in self.links.iter().filter(|_| self.network.is_none()) {
            let aqm = link.aqm.as_ref();
            let unused = aqm.and_then(|aqm| link.steering.unused_setpoint(link.policy.as_ref(), aqm));
            let beyond = aqm.filter(|_| link.policy.is_none());
            let beyond = beyond.and_then(|aqm| link.shape.beyond_buffer(link.known_rate(), aqm));
            warnings
                .extend(unused.into_iter().chain(beyond).map(|told| format!("link {}: {told}", link.name)));
        }
        warnings
    }
}
