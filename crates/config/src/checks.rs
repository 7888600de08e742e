//! What of a scenario does not go together, and what may not be meant.

use crate::aqm_config::AqmConfig;
use crate::errors::quoted;
use crate::experiment::Scenario;
use crate::flows::{Direction, IpVersion};
use crate::limits::{MAX_FLOWS, MAX_LINKS};
use crate::link::Bottleneck;
use crate::measure::MAX_BINS;
use crate::network::BOTTLENECK;
use crate::problems::Problems;
use crate::schema::{Check, Here};
use crate::traffic::Traffic;
use std::collections::BTreeMap;
use weir_units::Bytes;

impl Check for Scenario {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.links.is_empty() {
            if let Some(own) = self.queue.own_aqm() {
                self.aqm = own;
            }
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
    fn check_link(&self, here: &Here, p: &mut Problems) {
        let mtu = self.flows.iter().map(|f| self.mtu(f)).max().unwrap_or(self.path.mtu);
        self.link.shape.check_room(self.link.shape.rate_with(&self.link.variation), mtu, "link.", here, p);
        if let Some(policy) = &self.policy {
            policy.check_with(&self.aqm, &self.queue, here, p);
        }
        let link = &self.link;
        if let Some(wrong) = link.steering.wrong_with(self.policy.as_ref(), &link.variation, false) {
            here.wrong(p, "link.steered_by", wrong.problem, wrong.remedy);
        }
        for (i, flows) in self.flows.iter().enumerate() {
            let keys =
                [("from", flows.from.is_some()), ("to", flows.to.is_some()), ("via", !flows.via.is_empty())];
            for (key, _) in keys.into_iter().filter(|(_, given)| *given) {
                let remedy = "remove it, or describe the links under `[[links]]`";
                here.wrong(p, &format!("flows.{i}.{key}"), "does not go with `[link]`", remedy);
            }
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
        }
        for (i, flows) in self.flows.iter().enumerate() {
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
            if let Some(packet) = flows.packet.filter(|packet| *packet > room) {
                let problem = format!("{packet} and the headers are more than `{key}`, {mtu}");
                here.wrong(
                    p,
                    &format!("flows.{i}.packet"),
                    problem,
                    format!("give at most \"{}B\"", room.get()),
                );
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
        for (i, (flows, route)) in self.flows.iter().zip(&network.routes).enumerate() {
            if matches!(flows.traffic(), Traffic::Unresponsive(_)) {
                continue;
            }
            let (from, to) =
                (flows.from.as_deref().unwrap_or_default(), flows.to.as_deref().unwrap_or_default());
            if route.back.is_empty() {
                told.push(format!(
                    "acknowledgements of flows.{i} pass no link: none lead from {to} to {from}. If they are to have queues, \
                     write links that lead back"
                ));
            }
        }
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
        for link in self.network().links {
            warnings.extend(link.variation.stuck().map(|told| format!("link {}, steps: {told}", link.name)));
        }
        if self.links.is_empty() {
            warnings.extend(self.link.steering.unused_setpoint(self.policy.as_ref(), &self.aqm));
        }
        for link in &self.links {
            let aqm = link.aqm.as_ref();
            let unused = aqm.and_then(|aqm| link.steering.unused_setpoint(link.policy.as_ref(), aqm));
            warnings.extend(unused.map(|warning| format!("link {}: {warning}", link.name)));
        }
        warnings
    }
}
