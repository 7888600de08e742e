//! Flows that are alike: what they send, when, and from where to where.

use crate::applications::{Game, Page, Realtime, Video, Voice};
use crate::end_host::EndHost;
use crate::errors::Wrong;
use crate::limits::{MAX_DURATION, MAX_FLOWS, MAX_LINKS};
use crate::names::{NAME, name_allowed, word};
use crate::problems::Problems;
use crate::schema::{
    Arm, Check, Flat, Given, Here, Key, OptionalTable, Printer, Range, Rule, Scalar, absent, list, or, such,
    within, wrong_type,
};
use crate::table_doc::TableDoc;
use crate::traffic::{Datagrams, Timing, Traffic, UdpPattern, Web};
use crate::tree::Node;
use weir_tcp::congestion::USUAL;
use weir_tcp::{Congestion, EcnMode};
use weir_units::{Bytes, Duration, Rate};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const LONGEST_RTT: Duration = Duration::from_secs(10);
const SLOW: Rate = Rate::from_bps(1_000);
const FAST: Rate = Rate::from_bps(1_000_000_000_000);

choices! {
    /// Version of the Internet protocol.
    pub enum IpVersion {
        /// IPv4.
        V4 = "4",
        /// IPv6.
        V6 = "6",
    }
}

impl IpVersion {
    /// Bytes of the IP header without options and of the UDP header.
    pub fn udp_headers(self) -> u32 {
        match self {
            IpVersion::V4 => 28,
            IpVersion::V6 => 48,
        }
    }
}

choices! {
    /// Which way the data of a flow goes.
    pub enum Direction {
        /// From a to b, through the managed queue.
        Forward = "forward",
        /// From b to a, so that the managed queue sees the acknowledgements.
        Reverse = "reverse",
    }
}

choices! {
    /// Pairs of nodes between which flows go.
    pub enum Pairs {
        /// Of a dumbbell: each host on the left and the one opposite.
        Each = "each",
        /// Of a parking lot: its beginning and its end.
        Long = "long",
        /// Of a parking lot: beginning and end of each link.
        Cross = "cross",
        /// Of a tree: the root and each leaf.
        Leaves = "leaves",
    }
}

choices! {
    /// The transport protocol of flows that react to congestion.
    pub enum Protocol {
        /// TCP.
        Tcp = "tcp",
        /// QUIC-like: encrypted, so that the network sees no sequence numbers, but the spin bit (RFC 9000
        /// section 17.4).
        Quic = "quic",
    }
}

choices! {
    /// How a packet is to be treated (DiffServ).
    pub enum Class {
        /// Managed by the algorithm, as most traffic is.
        Assured = "af",
        /// Expedited past it, where a link does that.
        Expedited = "ef",
        /// Non-queue-building (RFC 9956): beside what builds a queue, where a queue does that.
        NonQueueBuilding = "nqb",
    }
}

/// Round-trip time of flows without any queue.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Rtt {
    /// The same for all.
    Constant(Duration),
    /// Drawn for each flow, uniformly between the two.
    Uniform(Duration, Duration),
}

impl Rtt {
    /// The shortest there can be.
    pub fn shortest(self) -> Duration {
        match self {
            Rtt::Constant(rtt) | Rtt::Uniform(rtt, _) => rtt,
        }
    }

    /// The longest there can be.
    pub fn longest(self) -> Duration {
        match self {
            Rtt::Constant(rtt) | Rtt::Uniform(_, rtt) => rtt,
        }
    }

    fn allowed(&self) -> bool {
        self.shortest() <= self.longest() && self.longest() <= LONGEST_RTT
    }
}

impl Scalar for Rtt {
    fn kind() -> String {
        "a duration such as \"20ms\" or two, such as [\"20ms\", \"100ms\"]".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        match node {
            Node::Text(_) => Duration::read(node).map(Rtt::Constant),
            Node::List(items) => match items.as_slice() {
                [from, to] => Ok(Rtt::Uniform(Duration::read(&from.node)?, Duration::read(&to.node)?)),
                _ => Err(wrong_type::<Self>(node)),
            },
            _ => Err(wrong_type::<Self>(node)),
        }
    }
    fn show(&self) -> String {
        match self {
            Rtt::Constant(rtt) => rtt.to_string(),
            Rtt::Uniform(from, to) => format!("{from} .. {to}"),
        }
    }
    fn literal(&self) -> String {
        match self {
            Rtt::Constant(rtt) => rtt.literal(),
            Rtt::Uniform(from, to) => format!("[{}, {}]", from.literal(), to.literal()),
        }
    }
}

/// The congestion control of flows that have none.
const NO_CONGESTION: &str = "none";

section! {
    /// Flows that are alike.
    pub struct FlowGroup {
        /// How many.
        count: u32 = or(1, within(1, MAX_FLOWS));
        /// Congestion control, by its name in the kernel, such as "cubic", "reno" or "bbr"; "none" with
        /// `udp_rate`.
        congestion: String = or(USUAL.to_string(), such(WORD, |t: &String| word(t, 15))) => [Simulator, Row];
        /// Transport protocol: "tcp", or "quic" for one that shows the network nothing but a spin bit.
        protocol: Protocol = or(Protocol::Tcp, Range::Any) => [Simulator];
        /// Whether connections of QUIC set the spin bit. Each end has it off in one of sixteen at least (RFC
        /// 9000 section 17.4); it is random then.
        spin: bool = or(true, Range::Any) => [Simulator];
        /// Whether the flows use ECN. "dctcp" and "prague" are Reno without it, as in Linux; the lab has them
        /// with it only.
        ecn: EcnUse = EcnRule => [Simulator, Row];
        /// When they start, after the start of the run.
        start: Duration = or(Duration::ZERO, within(Duration::ZERO, MAX_DURATION)) => [Simulator, Row];
        /// The flows of this table start at random within this time after `start`, uniformly distributed.
        start_spread: Duration = or(Duration::ZERO, within(Duration::ZERO, MAX_DURATION)) => [Simulator, Modems];
        /// When they stop, after the start of the run.
        stop: Option<Duration> = absent("end of the run", within(Duration::ZERO, MAX_DURATION)) => [Simulator, Row];
        /// Size of a transfer; without it, flows send as much as they can.
        transfer: Option<Bytes> = absent("no end", within(Bytes::new(1), Bytes::new(1_000_000_000_000)));
        /// A new transfer starts each time this has passed; needs `transfer`.
        every: Option<Duration> = absent("a single transfer", within(MILLISECOND, MAX_DURATION)) => [Simulator, Row];
        /// The next transfer starts this long after the last was complete; needs `transfer`.
        pause: Option<Duration> = absent("a single transfer", within(Duration::ZERO, MAX_DURATION)) => [Simulator, Modems];
        /// Class of the packets: "ef" for a few that must not wait, where a link expedites them; "nqb" for
        /// those of senders that build no queue, where a queue has `nqb`. Acknowledgements have the class of
        /// the data.
        class: Class = or(Class::Assured, Range::Any) => [Simulator, Modems];
        /// Rate at which the application makes data, where that limits it.
        app_rate: Option<Rate> = absent("as much as TCP can", within(SLOW, FAST)) => [Simulator];
        /// Version of IP.
        ip: IpVersion = or(IpVersion::V4, Range::Any);
        /// Which way the data goes: "forward" from a to b through the managed queue, or "reverse". With
        /// `[[links]]` `from` and `to` say it; with `pairs` it turns them around.
        direction: Direction = or(Direction::Forward, Range::Any);
        /// With `[[links]]` or `[network]`: the node that sends.
        from: Option<String> = absent("no `[[links]]`", such(NAME, |t: &String| name_allowed(t)));
        /// With `[[links]]` or `[network]`: the node that receives.
        to: Option<String> = absent("no `[[links]]`", such(NAME, |t: &String| name_allowed(t)));
        /// With `[network]`: between which of its nodes, `count` flows for each pair: "each" of a dumbbell
        /// from the hosts on the left, `l1` to `r1` and so on; "long" of a parking lot from its beginning to
        /// its end, "cross" over each single link; "leaves" of a tree from `root` to each leaf. `direction =
        /// "reverse"` exchanges the nodes of each pair. Without it `from` and `to` name two nodes.
        pairs: Option<Pairs> = absent("`from` and `to`", Range::Any) => [Simulator];
        /// With `[[links]]`: the names of the links from `from` to `to` in their order. Without it the route
        /// has as few links as possible; of several such, the one whose links come first in the file.
        via: Vec<String> = list("fewest links", MAX_LINKS, such(NAME, |t: &String| name_allowed(t))) => [Simulator, Row];
        /// Round-trip time without any queue: one for all, or two between which that of each flow is drawn,
        /// uniformly. It is split between the directions as that of `[path]`. With `[[links]]` it is at least
        /// the delay of the links there and back, and the way back takes what is left. Where it is not given,
        /// it is the delay of the links there and back, or twice that there if no links lead back.
        rtt: Option<Rtt> = absent("`path.rtt`, or that of the links", such("0ns .. 10s, the shorter first", Rtt::allowed));
        /// Largest IP packet of these flows.
        mtu: Option<u32> = absent("`path.mtu`; 1500 with `[[links]]`", within(576, 9000)).like(1500) => [Simulator, Row];
        /// Rate of datagrams that are sent whatever happens, instead of TCP.
        udp_rate: Option<Rate> = absent("TCP", within(SLOW, FAST));
        /// When the datagrams are sent: "cbr" at equal distances, "poisson" at exponentially distributed
        /// ones, "onoff" at equal distances for a time and then not at all for another; needs `udp_rate`.
        udp_pattern: Option<UdpPattern> = absent("\"cbr\"", Range::Any).like(UdpPattern::Cbr) => [Simulator];
        /// With "onoff", the mean time of sending, exponentially distributed. The rate then is `udp_rate`.
        on: Option<Duration> = absent("no \"onoff\"", within(MILLISECOND, HOUR)) => [Simulator];
        /// With "onoff", the mean time of silence, exponentially distributed.
        off: Option<Duration> = absent("no \"onoff\"", within(MILLISECOND, HOUR)) => [Simulator];
        /// Payload of a datagram; needs `udp_rate`.
        packet: Option<Bytes> = absent("what fits", within(Bytes::new(16), Bytes::new(8972))) => [Simulator, Modems];
        /// Switches of the end hosts.
        host: EndHost = Flat;
        /// Pages of several objects instead of endless data.
        web: Option<Web> = OptionalTable => [Simulator];
        /// One way of a call over UDP, with delay, jitter, loss and MOS by the E-model (ITU-T G.107) in the
        /// results.
        voice: Option<Voice> = OptionalTable => [Simulator];
        /// One way of a game over UDP, with delay, jitter and loss in the results.
        game: Option<Game> = OptionalTable => [Simulator];
        /// A player of video that adapts its rate, with rate, switches and stalls in the results.
        video: Option<Video> = OptionalTable => [Simulator];
        /// Pages of parallel objects over one connection, with their completion times in the results.
        page: Option<Page> = OptionalTable => [Simulator];
        /// One way of real-time video over UDP whose rate SCReAM (RFC 8298) adapts, with rate, delay of
        /// frames, loss and freezes in the results.
        realtime: Option<Realtime> = OptionalTable => [Simulator];
    }
}

/// Whether flows use ECN, and whether the file says so.
#[derive(Clone, Copy, Debug)]
pub enum EcnUse {
    /// As the file says.
    Given(bool),
    /// As is usual for the congestion control.
    Usual(bool),
}

impl EcnUse {
    /// Whether they use it.
    pub fn is_on(self) -> bool {
        let (EcnUse::Given(on) | EcnUse::Usual(on)) = self;
        on
    }
}

/// Equal are two that do the same.
impl PartialEq for EcnUse {
    fn eq(&self, other: &EcnUse) -> bool {
        self.is_on() == other.is_on()
    }
}

/// Reads a flag whose default follows from `congestion`, which is known when the table is checked.
struct EcnRule;

fn ecn_flag() -> impl Rule<Option<bool>> {
    let made_for_it = weir_tcp::congestion::names().iter().filter(|name| is_made_for_ecn(name));
    let quoted: Vec<String> = made_for_it.map(|name| format!("\"{name}\"")).collect();
    absent(format!("`true` with {}, else `false`", quoted.join(" or ")), Range::Any)
}

impl Rule<EcnUse> for EcnRule {
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<EcnUse> {
        Some(ecn_flag().read(key, here, p)?.map_or(EcnUse::Usual(false), EcnUse::Given))
    }
    fn print_value(&self, key: &Key, value: &EcnUse, out: &mut Printer) {
        // In a sweep other congestion controls may have the other default.
        let is_swept = out.in_sweep();
        let value = Some(value.is_on()).filter(|_| matches!(value, EcnUse::Given(_)) || !is_swept);
        ecn_flag().print_value(key, &value, out);
    }
    fn collect_given(&self, key: &Key, value: &EcnUse, given: &mut Given) {
        if value.is_on() {
            given.add(key);
        }
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        ecn_flag().describe(key, at, tables);
    }
}

/// Names of congestion controls in Linux have at most 15 bytes (`TCP_CA_NAME_MAX`).
const WORD: &str = "a word of at most 15 letters, digits, `_` or `-`";

impl Check for FlowGroup {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if let Some(stop) = self.stop.filter(|stop| *stop <= self.start) {
            let problem = format!("{stop} is not after `start`, {}", self.start);
            here.wrong(p, "stop", problem, "stop later, or start earlier");
        } else if let Some(stop) = self.stop.filter(|stop| *stop <= self.start + self.start_spread) {
            let problem = format!("{} lets flows start only after `stop`, {stop}", self.start_spread);
            here.wrong(p, "start_spread", problem, "stop later, or spread less");
        }
        if self.every.is_some() && self.transfer.is_none() {
            here.wrong(p, "every", "repeats nothing", "give the size of a `transfer` too, such as \"64MB\"");
        }
        if self.pause.is_some() && self.transfer.is_none() {
            here.wrong(
                p,
                "pause",
                "is between nothing",
                "give the size of a `transfer` too, such as \"5MB\"",
            );
        }
        if self.pause.is_some() && self.every.is_some() {
            here.wrong(p, "pause", "does not go with `every`", "remove one of the two");
        }
        self.check_one_kind(here, p);
        if let Some(key) = self.datagrams_by() {
            self.check_unresponsive(key, here, p);
        } else {
            self.check_responsive(here, p);
        }
        if let EcnUse::Usual(on) = &mut self.ecn {
            *on = is_made_for_ecn(&self.congestion);
        }
    }
}

fn is_made_for_ecn(congestion: &str) -> bool {
    Congestion::by_name(congestion).is_some_and(|control| control.ecn() != EcnMode::Off)
}

impl FlowGroup {
    /// The keys that were given and that this arm does not play.
    pub fn unplayed(&self, arm: Arm) -> Vec<String> {
        Given::of(self, &|key| !key.arms.contains(&arm))
    }

    /// Tells flows that are to send two things at once.
    fn check_one_kind(&self, here: &Here, p: &mut Problems) {
        let kinds = [
            ("transfer", self.transfer.is_some()),
            ("app_rate", self.app_rate.is_some()),
            ("web", self.web.is_some()),
            ("voice", self.voice.is_some()),
            ("game", self.game.is_some()),
            ("video", self.video.is_some()),
            ("page", self.page.is_some()),
            ("realtime", self.realtime.is_some()),
        ];
        let given: Vec<&str> = kinds.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect();
        for pair in given.windows(2) {
            let remedy = "remove one of the two, or make two `[[flows]]` tables";
            here.wrong(p, pair[1], format!("does not go with `{}`", pair[0]), remedy);
        }
        if self.udp_rate.is_some() {
            for key in given.iter().filter(|key| **key != "transfer") {
                here.wrong(p, key, "does not go with `udp_rate`", "remove one of the two");
            }
        }
    }

    fn check_responsive(&self, here: &Here, p: &mut Problems) {
        if self.protocol == Protocol::Quic && self.host.handshake {
            here.wrong(p, "handshake", "is that of TCP, and `protocol` is \"quic\"", "remove one of the two");
        }
        if self.protocol == Protocol::Tcp && !self.spin {
            here.wrong(
                p,
                "spin",
                "is that of QUIC, and `protocol` is \"tcp\"",
                "remove it, or set `protocol = \"quic\"`",
            );
        }
        if self.congestion == NO_CONGESTION {
            let remedy = format!("name one, such as \"{USUAL}\", or give an `udp_rate`");
            here.wrong(p, "congestion", "cannot be \"none\" for TCP", remedy);
        }
        for key in self.pattern_keys() {
            here.wrong(p, key, "is about datagrams, and there are none", "give an `udp_rate`, or remove it");
        }
    }

    /// The keys that say when datagrams leave and how large they are, of those that are given.
    fn pattern_keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        let keys = [
            ("udp_pattern", self.udp_pattern.is_some()),
            ("on", self.on.is_some()),
            ("off", self.off.is_some()),
            ("packet", self.packet.is_some()),
        ];
        keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)
    }

    /// The key that makes the flows send datagrams, if one does.
    fn datagrams_by(&self) -> Option<&'static str> {
        let keys = [
            ("udp_rate", self.udp_rate.is_some()),
            ("voice", self.voice.is_some()),
            ("game", self.game.is_some()),
            ("realtime", self.realtime.is_some()),
        ];
        keys.into_iter().find(|(_, given)| *given).map(|(key, _)| key)
    }

    fn check_unresponsive(&mut self, by: &'static str, here: &Here, p: &mut Problems) {
        if !here.table.has("congestion") {
            self.congestion = NO_CONGESTION.to_string();
        }
        if self.congestion != NO_CONGESTION {
            let remedy = match by {
                "realtime" => "remove one of the two: real-time video has SCReAM",
                _ => "remove one of the two: datagrams have no congestion control",
            };
            here.wrong(p, by, "does not go with `congestion`", remedy);
        }
        if by != "udp_rate" {
            self.check_no_pattern(by, here, p);
        }
        if self.udp_rate.is_some() && self.transfer.is_some() {
            let remedy = "remove one of the two, and say with `stop` when it ends";
            here.wrong(p, "udp_rate", "does not go with `transfer`", remedy);
        }
        let quic = (self.protocol == Protocol::Quic).then(|| "protocol".to_string());
        let spin = (!self.spin).then(|| "spin".to_string());
        for key in self.host.changed().into_iter().chain(quic).chain(spin) {
            here.wrong(p, &key, "says nothing about datagrams", format!("remove it, or `{by}`"));
        }
        if by == "udp_rate" {
            self.check_on_off(here, p);
        }
    }

    /// Tells keys of datagrams whose sizes and times an application says by itself.
    fn check_no_pattern(&self, by: &str, here: &Here, p: &mut Problems) {
        for key in self.pattern_keys() {
            here.wrong(
                p,
                key,
                format!("does not go with `{by}`"),
                "remove it: the application says what it sends",
            );
        }
    }

    fn check_on_off(&self, here: &Here, p: &mut Problems) {
        let on_off = self.udp_pattern == Some(UdpPattern::OnOff);
        for (key, given) in [("on", self.on.is_some()), ("off", self.off.is_some())] {
            if on_off && !given {
                let remedy = "add it, a duration such as \"500ms\"";
                here.wrong(p, key, "is missing for `udp_pattern = \"onoff\"`", remedy);
            }
            if given && !on_off {
                let remedy = "write `udp_pattern = \"onoff\"`, or remove it";
                here.wrong(p, key, "needs a pattern of sending and silence", remedy);
            }
        }
    }

    /// Whether the congestion control is made for ECN and these flows do without it.
    pub fn lacks_ecn(&self) -> bool {
        !self.ecn.is_on() && is_made_for_ecn(&self.congestion)
    }

    /// What these flows send.
    pub fn traffic(&self) -> Traffic {
        if let Some(rate) = self.udp_rate {
            return Traffic::Unresponsive(Datagrams { rate, payload: self.packet, timing: self.timing() });
        }
        if let Some(size) = self.transfer {
            return Traffic::Transfers { size, every: self.every, pause: self.pause };
        }
        let several = [
            self.app_rate.map(Traffic::Limited),
            self.web.map(Traffic::Web),
            self.voice.map(Traffic::Voice),
            self.game.map(Traffic::Game),
            self.video.clone().map(Traffic::Video),
            self.page.clone().map(Traffic::Page),
            self.realtime.map(Traffic::Realtime),
        ];
        several.into_iter().flatten().next().unwrap_or(Traffic::Bulk)
    }

    fn timing(&self) -> Timing {
        match (self.udp_pattern, self.on, self.off) {
            (Some(UdpPattern::Poisson), _, _) => Timing::Poisson,
            (Some(UdpPattern::OnOff), Some(on), Some(off)) => Timing::OnOff { on, off },
            _ => Timing::Cbr,
        }
    }
}
