//! What a link is: rate, room for waiting packets, byte accounting; and a managed direction of it.

use crate::aqm_config::AqmConfig;
use crate::errors::{Place, Wrong, quoted};
use crate::limits::{FASTEST, SLOWEST};
use crate::media::FULL;
use crate::overhead::Overhead;
use crate::policy_config::PolicyConfig;
use crate::problems::Problems;
use crate::queue_config::{Algorithm, QueueConfig};
use crate::remarking::Remarking;
use crate::schema::{
    Check, Flat, Given, Here, Key, OneTable, OptionalTable, Printer, Range, Rule, Scalar, Section, absent,
    or, such, within, wrong_type,
};
use crate::steering::Steering;
use crate::table_doc::TableDoc;
use crate::trace::Trace;
use crate::tree::{Node, Table, quote};
use crate::variation::Variation;
use weir_aqm::UNMANAGED;
use weir_queue::{EACH_FLOW, EACH_USER};
use weir_sense::bottleneck::FollowLaw;
use weir_units::{Bytes, Duration, Rate, parse_bytes, parse_duration};

choices! {
    /// Which bytes of a packet count for rates and utilization.
    pub enum Accounting {
        /// All the time a packet takes on an Ethernet line: IP packet + 38 bytes (header, checksum, preamble,
        /// gap).
        Line = "line",
        /// The Ethernet frame as a host sees it: IP packet + 14 bytes.
        Frame = "frame",
        /// The IP packet alone.
        Ip = "ip",
    }
}

impl Accounting {
    /// Bytes that count in addition to the IP packet.
    pub fn overhead(self) -> Bytes {
        Bytes::new(match self {
            Accounting::Line => 38,
            Accounting::Frame => 14,
            Accounting::Ip => 0,
        })
    }
}

/// How a link counts the bytes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counting {
    /// As the interfaces of this machine see it.
    Frame(Accounting),
    /// As the link behind them does.
    Link(Overhead),
}

impl Counting {
    /// What an IP packet of so many bytes counts.
    #[inline]
    pub fn of_ip(self, ip: u32) -> Bytes {
        match self {
            Counting::Frame(accounting) => Bytes::new(u64::from(ip)) + accounting.overhead(),
            Counting::Link(overhead) => overhead.size(ip),
        }
    }
}

impl std::fmt::Display for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Counting::Frame(accounting) => accounting.fmt(f),
            Counting::Link(overhead) => overhead.fmt(f),
        }
    }
}

choices! {
    /// What a link learns of the bottlenecks behind it, from the packets that pass.
    pub enum Upstream {
        /// Nothing.
        Off = "off",
        /// Round-trip times and bytes in flight behind it; its algorithm is told.
        Inform = "inform",
        /// The same, and its rate follows the bottleneck, so that packets wait here and not there.
        Follow = "follow",
        /// The same by the rule of the article on virtual AQM.
        FollowLargest = "follow_largest",
    }
}

impl Upstream {
    /// How the rate is found that follows a bottleneck; `None` where none does.
    pub fn law(self) -> Option<FollowLaw> {
        match self {
            Upstream::Off | Upstream::Inform => None,
            Upstream::Follow => Some(FollowLaw::Delivered),
            Upstream::FollowLargest => Some(FollowLaw::Largest),
        }
    }

    /// Whether the rate follows a bottleneck.
    pub fn follows(self) -> bool {
        self.law().is_some()
    }
}

/// Room for waiting packets.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub enum Buffer {
    /// As much as the link sends in that time.
    Time(Duration),
    /// That many bytes, by the link's accounting.
    Bytes(Bytes),
}

impl Buffer {
    /// The room in bytes on a link of that rate.
    pub fn bytes(self, rate: Rate) -> Bytes {
        match self {
            Buffer::Time(time) => rate.bytes_in(time),
            Buffer::Bytes(bytes) => bytes,
        }
    }

    pub(crate) fn allowed(&self) -> bool {
        match self {
            Buffer::Time(t) => (Duration::from_micros(1)..=Duration::from_secs(60)).contains(t),
            Buffer::Bytes(b) => (Bytes::new(64)..=Bytes::new(100_000_000_000)).contains(b),
        }
    }
}

impl Scalar for Buffer {
    fn kind() -> String {
        "a duration such as \"100ms\" or an amount of data such as \"12.5MB\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        let Node::Text(text) = node else { return Err(wrong_type::<Self>(node)) };
        let time = match parse_duration(text) {
            Ok(time) => return Ok(Buffer::Time(time)),
            Err(error) => error,
        };
        parse_bytes(text).map(Buffer::Bytes).map_err(|bytes| {
            if time.is_out_of_range() || bytes.is_out_of_range() {
                return Wrong::out_of_range(&quoted(text), format!("write {}", Self::kind()));
            }
            let problem = format!("{} is neither a duration nor an amount of data", quoted(text));
            Wrong::new(problem, format!("write {}", Self::kind()))
        })
    }
    fn show(&self) -> String {
        match self {
            Buffer::Time(time) => time.to_string(),
            Buffer::Bytes(bytes) => bytes.to_string(),
        }
    }
    fn literal(&self) -> String {
        quote(&self.show())
    }
}

section! {
    /// A link: how fast it is, how much can wait for it, which bytes count.
    pub struct LinkConfig {
        /// Rate of the link.
        rate: Option<Rate> = absent("not shaped", within(SLOWEST, FASTEST));
        /// Room for waiting packets, as the time they take at the link's rate or in bytes.
        buffer: Buffer = or(
            Buffer::Time(Duration::from_millis(100)),
            such("1us .. 60s or 64B .. 100GB", Buffer::allowed),
        );
        /// Which bytes of a packet count for rates and utilization: "line" adds 38 bytes to the IP packet
        /// (all that takes time on an Ethernet line), "frame" adds 14, "ip" none.
        accounting: Accounting = or(Accounting::Line, Range::Any);
        /// What the link behind adds to each IP packet, in the words of tc-cake(8); it then counts in place
        /// of `accounting`, for rates, the buffer and utilization. A technology: conservative, ethernet,
        /// docsis, pppoe-ptm, bridged-ptm, pppoa-vcmux, pppoa-llc, pppoe-vcmux, pppoe-llcsnap, bridged-vcmux,
        /// bridged-llcsnap, ipoa-vcmux, ipoa-llcsnap. Beside it or alone: `overhead N` and `mpu N` in bytes,
        /// `atm`, `ptm` or `noatm`, `ether-vlan` for each VLAN tag. VLAN tags that packets bear here do not
        /// count.
        overhead: Option<Overhead> = absent("counted by `accounting`", Range::Any);
    }
}

impl Check for LinkConfig {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.overhead.is_some() && self.accounting != Accounting::Line {
            let problem = format!("is \"{}\", and `overhead` says what counts", self.accounting);
            here.wrong(p, "accounting", problem, "leave one of the two out");
        }
    }
}

impl LinkConfig {
    /// How the bytes of a packet count.
    pub fn counting(&self) -> Counting {
        self.overhead.map_or(Counting::Frame(self.accounting), Counting::Link)
    }

    /// The room for waiting packets in bytes; `None` when the link is not shaped and has no queue.
    pub fn buffer_bytes(&self) -> Option<Bytes> {
        self.rate.map(|rate| self.buffer.bytes(rate))
    }

    /// The rate, or that of the trace on average, or what the radio carries alone.
    pub(crate) fn rate_with(&self, variation: &Variation) -> Option<Rate> {
        let of_radio = || variation.wifi.as_ref().map(|wifi| wifi.capacity(self.counting().of_ip(FULL)));
        self.rate.or_else(|| variation.trace().map(Trace::average_rate)).or_else(of_radio)
    }

    /// Warns of a set point, written for the algorithm of a scenario, that the queue has no room for.
    pub(crate) fn beyond_buffer(&self, rate: Option<Rate>, aqm: &AqmConfig) -> Option<String> {
        let rate = rate.filter(|rate| *rate > Rate::ZERO)?;
        // The limit of tail drop may be beyond the buffer: then that is the limit.
        if aqm.name == UNMANAGED {
            return None;
        }
        let (key, delay) = aqm.own_queue_setpoint()?;
        beyond(&key, delay, rate.time_for(self.buffer.bytes(rate)))
    }

    /// Tells a buffer that cannot hold one packet of `mtu` bytes at a rate.
    pub(crate) fn check_room(&self, rate: Option<Rate>, mtu: u32, path: &str, here: &Here, p: &mut Problems) {
        let packet = self.counting().of_ip(mtu);
        if let Some(room) = rate.map(|rate| self.buffer.bytes(rate)).filter(|room| *room < packet) {
            let problem = format!("{} holds {} bytes, less than one packet", self.buffer.show(), room.get());
            let remedy = format!("give at least \"{}B\"", packet.get());
            here.wrong(p, &format!("{path}buffer"), problem, remedy);
        }
    }
}

/// The shape of a link that must have one: between real ports the rate may be absent, in an experiment not.
pub(crate) struct Shaped;

impl Rule<LinkConfig> for Shaped {
    fn names(&self, key: &Key) -> Vec<&'static str> {
        Rule::<LinkConfig>::names(&Flat, key)
    }
    fn read(&self, key: &Key, here: &Here, p: &mut Problems) -> Option<LinkConfig> {
        match (here.table.has("rate"), here.table.has("trace"), here.table.has("wifi")) {
            (false, false, false) => here.wrong(p, "rate", "is missing", format!("add it, {}", Rate::kind())),
            (true, true, _) => {
                let remedy = "remove one of the two: a trace says itself how fast the link is";
                here.wrong(p, "trace", "does not go with `rate`", remedy);
            }
            (true, _, true) => {
                let remedy = "remove one of the two: `wifi.phy_rate` says how fast the link is";
                here.wrong(p, "wifi", "does not go with `rate`", remedy);
            }
            (_, _, true) if here.table.has("overhead") => {
                let remedy = "remove one of the two: a radio adds its own";
                here.wrong(p, "overhead", "does not go with `wifi`", remedy);
            }
            _ => {}
        }
        Flat.read(key, here, p)
    }
    fn print_value(&self, key: &Key, value: &LinkConfig, out: &mut Printer) {
        Flat.print_value(key, value, out);
    }
    fn collect_given(&self, key: &Key, value: &LinkConfig, given: &mut Given) {
        Flat.collect_given(key, value, given);
    }
    fn describe(&self, key: &Key, at: usize, tables: &mut Vec<TableDoc>) {
        Rule::<LinkConfig>::describe(&Flat, key, at, tables);
        let rows = tables[at].rows.iter_mut();
        rows.filter(|row| row.name == "rate")
            .for_each(|row| row.default = "required without `trace` or `wifi`".to_string());
    }
}

section! {
    /// The link of a file with one.
    pub struct Bottleneck {
        /// Rate, room and byte accounting.
        shape: LinkConfig = Shaped;
        /// How it differs from a link of constant rate that loses nothing.
        variation: Variation = Flat;
        /// What steers its queue.
        steering: Steering = Flat;
    }
}

impl Check for Bottleneck {}

section! {
    /// One direction of a link between two ports: delay line, shaper, algorithm and policy.
    pub struct Channel {
        /// The link.
        link: LinkConfig = Flat;
        /// Delay that every packet gets in addition, behind the queue.
        delay: Duration = or(Duration::ZERO, within(Duration::ZERO, Duration::from_secs(10)));
        /// Transmission time, lost while the host did not run, that the shaper makes up for. More keeps the
        /// rate exact on a disturbed host, less keeps bursts short.
        catch_up: Duration = or(Duration::from_millis(5), within(Duration::ZERO, Duration::from_secs(1)));
        /// How packets wait.
        queue: QueueConfig = OneTable;
        /// The algorithm; needed where a rate is given. Without a rate it manages what waits for the port.
        aqm: Option<AqmConfig> = Algorithm;
        /// The policy; its presence turns steering on.
        policy: Option<PolicyConfig> = OptionalTable;
        /// What the direction learns of the bottlenecks behind it from the packets that pass: "off" nothing;
        /// "inform" measures round-trip times and bytes in flight behind it and tells its algorithm, which
        /// `vaqm` needs, each user's where `queue.discipline` is "user"; "follow" in addition lowers its own
        /// rate to that of the bottleneck, or with "user" that of each user to that of the user's bottleneck;
        /// "follow_largest" does so by the article's rule, from the largest rate at which no queue stood
        /// there.
        /// Acknowledgements must come back through the other direction.
        upstream: Upstream = or(Upstream::Off, Range::Any);
        /// What becomes of the DSCP of packets.
        remarking: Remarking = Flat;
    }
}

/// Warns of a queue that is to grow longer than there is room for.
fn beyond(key: &str, delay: Duration, room: Duration) -> Option<String> {
    (delay > room).then(|| {
        format!(
            "`{key}` is {delay}, and the buffer is full after {room}: packets are discarded for lack of room before \
             the queue is that long. Remedy: a larger `buffer`, or a lower `{key}`"
        )
    })
}

/// Ports have no known packet size before they run; this one fits every Ethernet link.
const PORT_MTU: u32 = 1500;

impl Check for Channel {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        self.aqm = self.queue.own_aqm().or(self.aqm.take());
        self.link.check_room(self.link.rate, PORT_MTU, "", here, p);
        match (&self.aqm, &mut self.policy, self.link.rate) {
            (None, _, Some(_)) => {
                let remedy = format!("name one of {}", weir_aqm::names().join(", "));
                here.wrong(p, "aqm.name", "is missing: a shaped direction needs an algorithm", remedy);
            }
            (Some(_), Some(_), None) => {
                let problem = "is missing: utilization is a share of it, so a policy needs one";
                here.wrong(p, "rate", problem, "give a rate, or remove the `policy` table");
            }
            // Without a rate the port is the bottleneck, and its queue is managed.
            (Some(_), None, None) => {}
            (None, Some(_), None) => {
                let problem = "has nothing to steer without a rate and an algorithm";
                here.wrong(p, "policy", problem, "give both, or remove the `policy` table");
            }
            (Some(aqm), Some(policy), Some(_)) => policy.check_with(aqm, &self.queue, here, p),
            _ => {}
        }
        self.check_follow(here, p);
    }
}

impl Channel {
    /// Tells what does not go with a rate that follows a bottleneck.
    fn check_follow(&self, here: &Here, p: &mut Problems) {
        if !self.upstream.follows() {
            return;
        }
        if self.policy.is_some() {
            let remedy = "remove `policy`, or say \"inform\"";
            here.wrong(p, "upstream", "moves the rate and does not go with `policy`", remedy);
        }
        if self.aqm.is_none() && self.link.rate.is_none() {
            let remedy = format!("name one of {}", weir_aqm::names().join(", "));
            here.wrong(
                p,
                "aqm.name",
                "is missing: packets wait here where the rate follows a bottleneck",
                remedy,
            );
        }
    }

    /// What is allowed but may not be what was meant.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let unused = self.policy.as_ref().zip(self.aqm.as_ref());
        let unused = unused.and_then(|(policy, aqm)| policy.unused_setpoint(aqm));
        let single = (self.upstream.follows() && self.queue == QueueConfig::default()).then(|| {
            format!(
                "`upstream` is \"{}\", and all packets that wait here for the rate of the bottleneck wait in one \
                 queue: a flow that fills it delays the others. Remedy: `queue.discipline = \"{EACH_FLOW}\"` for one \
                 bottleneck, \"{EACH_USER}\" for one behind each user",
                self.upstream
            )
        });
        unused.into_iter().chain(self.beyond_buffer()).chain(single).collect()
    }

    /// Warns of a queue that is to grow longer than there is room for.
    fn beyond_buffer(&self) -> Option<String> {
        let rate = self.link.rate?;
        let room = rate.time_for(self.link.buffer.bytes(rate));
        let (key, delay) = match (&self.policy, &self.aqm) {
            (Some(policy), _) => ("policy.target_max".to_string(), policy.policy().target_max),
            (None, Some(aqm)) => aqm.own_queue_setpoint()?,
            (None, None) => return None,
        };
        beyond(&key, delay, room)
    }

    /// A direction that is neither shaped nor delayed.
    pub fn unshaped() -> Channel {
        let table = Table::absent(Place::File);
        let here = Here { table: &table, path: String::new() };
        let read = <Channel as Section>::read_fields(&here, &mut Problems::new(""));
        read.expect("every key of a direction has a default")
    }
}
