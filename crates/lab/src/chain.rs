//! A scenario with several links as boxes in a row, each of them a link there and a link back.
//!
//! All flows must take the same way, and come back by one. Where the two ways meet a node, they meet in the
//! row: what lies between two such nodes stands side by side, so that a link which observes sees the
//! acknowledgements when they have passed everything behind it.

use crate::error::{Error, Result};
use crate::netns::BOXES_MAX;
use weir_config::{
    Accounting, Buffer, Channel, Counting, LinkConfig, Network, NetworkLink, Route, Rtt, Scenario,
};
use weir_dataplane::{DirectionSetup, Impairments};
use weir_measure::Settled;
use weir_units::Duration;

/// One box: the numbers of the links that it plays, from the sender to the receiver and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BoxLinks {
    /// From the sender to the receiver.
    pub there: Option<usize>,
    /// From the receiver to the sender.
    pub back: Option<usize>,
}

/// A row of boxes.
#[derive(Clone, Debug)]
pub struct Chain {
    network: Network,
    /// Of each link, the spans that are told by themselves.
    settled: Vec<Vec<Settled>>,
    /// From the sender to the receiver.
    pub places: Vec<BoxLinks>,
    /// Beside the delays of the links, behind the last one on each way.
    extra: [Duration; 2],
    /// The round-trip time without queues.
    pub rtt: Duration,
}

impl Chain {
    /// The row of a scenario with `[[links]]`; refuses one whose links are no row.
    pub fn of(scenario: &Scenario) -> Result<Chain> {
        let network = scenario.network();
        let first = &network.routes[0];
        let same = |route: &Route| {
            route.forward == first.forward && route.back == first.back && route.rtt == first.rtt
        };
        if let Some(other) = network.routes.iter().position(|route| !same(route)) {
            return Err(Error::invalid(
                format!("in the lab all flows take one way, and `flows.{other}` goes another than `flows.0`"),
                "use `weir sim`, or give all flows the same `from`, `to` and `rtt`",
            ));
        }
        let Rtt::Constant(rtt) = first.rtt else {
            let what = "the lab knows one round-trip time, and `flows.0.rtt` is a range";
            return Err(Error::invalid(what, "use `weir sim`, or give one time"));
        };
        let extra = first.extra_delay(rtt);
        let places = places(&network, &first.forward, &first.back);
        if places.len() > BOXES_MAX as usize {
            let what = format!("{} links in a row are more than the lab can play", places.len());
            return Err(Error::invalid(what, format!("use `weir sim`, or at most {BOXES_MAX}")));
        }
        let settled = scenario.settled();
        Ok(Chain { settled, places, extra: [extra.forward, extra.back], rtt, network })
    }

    /// The two directions of a box.
    pub fn directions(&self, number: usize, catch_up: Duration) -> [DirectionSetup; 2] {
        let BoxLinks { there, back } = self.places[number];
        let last_there = self.places.iter().rev().find_map(|place| place.there);
        let last_back = self.places.iter().find_map(|place| place.back);
        let ends_there = there.is_some() && there == last_there;
        let ends_back = if last_back.is_some() { back == last_back } else { number == 0 };
        let extra = |ends: bool, delay: Duration| if ends { delay } else { Duration::ZERO };
        [
            self.direction(there, extra(ends_there, self.extra[0]), catch_up),
            self.direction(back, extra(ends_back, self.extra[1]), catch_up),
        ]
    }

    fn direction(&self, link: Option<usize>, extra: Duration, catch_up: Duration) -> DirectionSetup {
        match link.map(|number| (&self.network.links[number], &self.settled[number])) {
            None => DirectionSetup::new("way", Channel { delay: extra, ..Channel::unshaped() }),
            Some((link, settled)) => DirectionSetup {
                settled: settled.clone(),
                impairments: Some(Impairments { variation: link.variation.clone() }),
                ..DirectionSetup::new(&link.name, channel(link, extra, catch_up))
            },
        }
    }

    /// Names of all links, in the order of the file.
    pub fn names(&self) -> Vec<&str> {
        self.network.links.iter().map(|link| link.name.as_str()).collect()
    }

    /// The links that data passes.
    pub fn forward(&self) -> impl Iterator<Item = &NetworkLink> {
        self.places.iter().filter_map(|place| place.there).map(|number| &self.network.links[number])
    }
}

fn channel(link: &NetworkLink, extra: Duration, catch_up: Duration) -> Channel {
    let follows_trace = link.variation.trace().is_some();
    let (accounting, overhead) = match link.counting {
        Counting::Frame(accounting) => (accounting, None),
        Counting::Link(overhead) => (Accounting::Line, Some(overhead)),
    };
    Channel {
        link: LinkConfig {
            rate: (!follows_trace).then_some(link.rate),
            buffer: Buffer::Bytes(link.buffer),
            accounting,
            overhead,
        },
        delay: link.delay + extra,
        catch_up,
        queue: link.queue.clone(),
        aqm: Some(link.aqm.clone()),
        policy: link.policy.clone(),
        upstream: link.upstream,
        remarking: link.remarking.clone(),
    }
}

/// Puts both ways side by side between the nodes that they have in common.
fn places(network: &Network, forward: &[usize], back: &[usize]) -> Vec<BoxLinks> {
    let links = &network.links;
    let mut places = Vec::new();
    let (mut there, mut here) = (forward.iter().copied().peekable(), back.iter().rev().copied().peekable());
    while there.peek().is_some() || here.peek().is_some() {
        let mut segment: [Vec<usize>; 2] = Default::default();
        // As far as the next node of the way there that the way back passes too.
        for number in there.by_ref() {
            segment[0].push(number);
            let node = &links[number].to;
            if back.iter().any(|other| links[*other].from == *node) {
                let meets = |number: &usize| links[*number].from == *node;
                for number in here.by_ref() {
                    segment[1].push(number);
                    if meets(&number) {
                        break;
                    }
                }
                break;
            }
        }
        if there.peek().is_none() {
            segment[1].extend(&mut here);
        }
        let [ways, returns] = segment;
        let length = ways.len().max(returns.len());
        // Whoever observes stands at the near end: all links of the way back lie behind it, where there are
        // fewer.
        let near = length - returns.len();
        let back = |i: usize| i.checked_sub(near).and_then(|i| returns.get(i)).copied();
        places.extend((0..length).map(|i| BoxLinks { there: ways.get(i).copied(), back: back(i) }));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(flows: &str) -> Scenario {
        let link = |name: &str, from: &str, to: &str, more: &str| {
            format!(
                "[[links]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"10Mbit/s\"\n{more}\n"
            )
        };
        let text = [
            "title = \"x\"\n".to_string(),
            link("sense", "core", "cell", "aqm = { name = \"codel\" }\nupstream = \"follow\""),
            link("radio", "cell", "phone", "delay = \"20ms\"\njitter = \"8ms\"\nbuffer = \"1s\""),
            link("up", "phone", "antenna", "delay = \"20ms\""),
            link("backhaul", "antenna", "core", ""),
            link("from_server", "server", "core", "delay = \"4ms\""),
            link("to_server", "core", "server", ""),
            flows.to_string(),
            "[run]\nduration = \"5s\"\n".to_string(),
        ];
        Scenario::parse("x", &text.concat()).unwrap_or_else(|e| panic!("{e}"))
    }

    const ONE: &str = "[[flows]]\nfrom = \"server\"\nto = \"phone\"\nrtt = \"50ms\"\n";

    #[test]
    fn ways_there_and_back_stand_side_by_side_between_common_nodes() {
        let chain = Chain::of(&scenario(ONE)).unwrap();
        let names = chain.names();
        let name = |number: Option<usize>| number.map_or("-", |number| names[number]);
        let row: Vec<_> = chain.places.iter().map(|place| (name(place.there), name(place.back))).collect();
        assert_eq!(row, [("from_server", "to_server"), ("sense", "backhaul"), ("radio", "up")]);
        assert_eq!(
            chain.forward().map(|link| link.name.as_str()).collect::<Vec<_>>(),
            ["from_server", "sense", "radio"]
        );
    }

    #[test]
    fn a_way_back_of_fewer_links_lies_behind_who_observes() {
        let short = scenario(ONE);
        let mut links = short.links.clone();
        links.retain(|link| link.name != "backhaul");
        links.iter_mut().find(|link| link.name == "up").unwrap().to = "core".into();
        let chain = Chain::of(&Scenario { links, ..short }).unwrap();
        let names = chain.names();
        let back: Vec<_> = chain.places.iter().map(|place| place.back.map(|number| names[number])).collect();
        assert_eq!(back, [Some("to_server"), None, Some("up")]);
    }

    #[test]
    fn a_box_has_what_the_file_says_of_its_links() {
        let chain = Chain::of(&scenario(ONE)).unwrap();
        let ms = Duration::from_millis;
        let boxes: Vec<_> = (0..3).map(|n| chain.directions(n, ms(5))).collect();
        let delays: Vec<_> =
            boxes.iter().map(|pair| pair.clone().map(|direction| direction.channel.delay)).collect();
        // Links have 44 ms together; the rest of 50 ms delays the way back.
        assert_eq!(delays, [[ms(4), ms(6)], [ms(0), ms(0)], [ms(20), ms(20)]]);
        let radio = &boxes[2][0];
        assert_eq!(
            (radio.name.as_str(), radio.channel.link.buffer),
            ("radio", Buffer::Bytes(weir_units::Bytes::new(1_250_000)))
        );
        assert_eq!(radio.impairments.as_ref().unwrap().variation.jitter, ms(8));
        assert_eq!(boxes[1][0].channel.upstream, weir_config::Upstream::Follow);
        assert_eq!(chain.rtt, ms(50));
    }

    #[test]
    fn flows_that_go_different_ways_are_refused() {
        let told = |flows: &str| Chain::of(&scenario(flows)).unwrap_err().to_string();
        let other = format!("{ONE}[[flows]]\nfrom = \"server\"\nto = \"antenna\"\n");
        assert!(told(&other).contains("`flows.1` goes another than `flows.0`"), "{}", told(&other));
        let range = ONE.replace("\"50ms\"", "[\"50ms\", \"60ms\"]");
        assert!(told(&range).contains("`flows.0.rtt` is a range"), "{}", told(&range));
    }
}
