//! Messages about queueing disciplines and classes.

use crate::attribute::{Nested, Raw, attributes, fixed, split, write_all};
use crate::handle::Handle;
use crate::kinds::{Kind, Options, Xstats};
use netlink_packet_core::{NLA_TYPE_MASK, NetlinkBuffer};
use weir_units::Duration;

/// Length of a netlink message's header.
pub(crate) const HEADER: usize = 16;
/// Length of `struct tcmsg`.
const TCMSG: usize = 20;

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// A queueing discipline.
    Discipline,
    /// A class of one.
    Class,
}

/// What a message says or asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It is there, or shall be made or changed.
    New,
    /// It is gone, or shall be removed.
    Delete,
    /// It is asked for.
    Get,
}

/// A message of rtnetlink about a queueing discipline or a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// About what.
    pub subject: Subject,
    /// What is said or asked.
    pub action: Action,
    /// Flags of netlink.
    pub flags: u16,
    /// Number of the request.
    pub sequence: u32,
    /// Who asked.
    pub port: u32,
    /// Family; zero.
    pub family: u8,
    /// Number of the interface.
    pub interface: i32,
    /// Its handle; of a class its name.
    pub handle: Handle,
    /// Where it is attached.
    pub parent: Handle,
    /// Reference count of a discipline; of a class the handle of the discipline below.
    pub info: u32,
    /// Everything else, in the order in which it came.
    pub attributes: Vec<TcAttribute>,
}

/// An attribute of a [`Message`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TcAttribute {
    /// The kind.
    Kind(Kind),
    /// Its options.
    Options(Options),
    /// Counters of the first version.
    Stats(LegacyStats),
    /// Statistics of the kind, of the first version.
    Xstats(Xstats),
    /// Counters and statistics.
    Stats2(Nested<StatAttribute>),
    /// Whether the interface does the work.
    HwOffload(u8),
    /// Block of filters on what arrives.
    IngressBlock(u32),
    /// Block of filters on what leaves.
    EgressBlock(u32),
    /// What the kernel thinks of what was asked, in words.
    Warning(String),
    /// Everything else, as it came.
    Other(Raw),
}

attributes! {
    /// Counters that all kinds have (`TCA_STATS2`).
    Stat {
        /// What left.
        Basic(Basic) = 1,
        /// Rates, if they are estimated.
        RateEstimate(Rates32) = 2,
        /// What waits and was dropped.
        Queue(QueueStats) = 3,
        /// Rates, if they are estimated.
        RateEstimate64(Rates64) = 5,
        /// Padding.
        Padding(Vec<u8>) = 6,
        /// What left by the interface's own work.
        BasicHardware(Basic) = 7,
        /// Packets that left.
        Packets64(u64) = 8,
    }
}

/// A counter, or the statistics that only one kind has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatAttribute {
    /// A counter.
    Of(Stat),
    /// Statistics of the kind (`TCA_STATS_APP`).
    App(Xstats),
}

fixed! {
    /// What left (`struct gnet_stats_basic`).
    Basic {
        bytes: u64,
        packets: u32,
        padding: u32,
    }
}

fixed! {
    /// Rates (`struct gnet_stats_rate_est`), in bytes and packets per second.
    Rates32 {
        bytes: u32,
        packets: u32,
    }
}

fixed! {
    /// Rates (`struct gnet_stats_rate_est64`), in bytes and packets per second.
    Rates64 {
        bytes: u64,
        packets: u64,
    }
}

fixed! {
    /// What waits and was dropped (`struct gnet_stats_queue`).
    QueueStats {
        /// Packets that wait.
        qlen: u32,
        /// Bytes that wait.
        backlog: u32,
        drops: u32,
        requeues: u32,
        overlimits: u32,
    }
}

fixed! {
    /// Counters of the first version (`struct tc_stats`).
    LegacyStats {
        bytes: u64,
        packets: u32,
        drops: u32,
        overlimits: u32,
        bps: u32,
        pps: u32,
        qlen: u32,
        backlog: u32,
        padding: u32,
    }
}

macro_rules! whole {
    ($($type:ty),*) => {$(
        impl crate::attribute::Value for $type {
            fn read(flags: u16, mut bytes: &[u8]) -> Option<Self> {
                let value = <$type as crate::attribute::Fixed>::take(&mut bytes)?;
                (flags == 0 && bytes.is_empty()).then_some(value)
            }

            fn write(&self, out: &mut Vec<u8>) {
                crate::attribute::Fixed::put(self, out);
            }
        }
    )*};
}

whole!(Basic, Rates32, Rates64, QueueStats, LegacyStats);

/// `TCA_STATS_APP`.
const APP: u16 = 4;

/// Types of the attributes of a message (`TCA_KIND` and so on).
mod types {
    pub const KIND: u16 = 1;
    pub const OPTIONS: u16 = 2;
    pub const STATS: u16 = 3;
    pub const XSTATS: u16 = 4;
    pub const STATS2: u16 = 7;
    pub const HW_OFFLOAD: u16 = 12;
    pub const INGRESS_BLOCK: u16 = 13;
    pub const EGRESS_BLOCK: u16 = 14;
    pub const WARNING: u16 = 16;
}

impl StatAttribute {
    fn read(kind: Option<&Kind>, attribute: u16, bytes: &[u8]) -> StatAttribute {
        if attribute & NLA_TYPE_MASK == APP {
            return StatAttribute::App(Xstats::read(kind, APP, attribute & !NLA_TYPE_MASK, bytes));
        }
        StatAttribute::Of(crate::attribute::Attribute::read(attribute, bytes))
    }
}

/// Written like every other; read with the knowledge of the kind.
impl crate::attribute::Attribute for StatAttribute {
    fn read(attribute: u16, bytes: &[u8]) -> Self {
        StatAttribute::read(None, attribute, bytes)
    }

    fn kind(&self) -> u16 {
        match self {
            StatAttribute::Of(stat) => stat.kind(),
            StatAttribute::App(xstats) => xstats.kind(APP),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            StatAttribute::Of(stat) => stat.write(out),
            StatAttribute::App(xstats) => xstats.write(out),
        }
    }
}

impl TcAttribute {
    fn read(kind: Option<&Kind>, attribute: u16, bytes: &[u8]) -> TcAttribute {
        use crate::attribute::Value;
        let flags = attribute & !NLA_TYPE_MASK;
        let known = match attribute & NLA_TYPE_MASK {
            types::KIND => String::read(flags, bytes).map(|name| TcAttribute::Kind(Kind::of(&name))),
            types::OPTIONS => Some(TcAttribute::Options(Options::read(kind, types::OPTIONS, flags, bytes))),
            types::STATS => Value::read(flags, bytes).map(TcAttribute::Stats),
            types::XSTATS => Some(TcAttribute::Xstats(Xstats::read(kind, types::XSTATS, flags, bytes))),
            types::STATS2 => Nested::<Raw>::read_with(flags, bytes, |attribute, bytes| {
                StatAttribute::read(kind, attribute, bytes)
            })
            .map(TcAttribute::Stats2),
            types::HW_OFFLOAD => Value::read(flags, bytes).map(TcAttribute::HwOffload),
            types::INGRESS_BLOCK => Value::read(flags, bytes).map(TcAttribute::IngressBlock),
            types::EGRESS_BLOCK => Value::read(flags, bytes).map(TcAttribute::EgressBlock),
            types::WARNING => Value::read(flags, bytes).map(TcAttribute::Warning),
            _ => None,
        };
        known.unwrap_or_else(|| TcAttribute::Other(Raw { kind: attribute, bytes: bytes.to_vec() }))
    }
}

impl Nested<Raw> {
    fn read_with<A>(flags: u16, bytes: &[u8], read: impl Fn(u16, &[u8]) -> A) -> Option<Nested<A>> {
        if flags & !netlink_packet_core::NLA_F_NESTED != 0 {
            return None;
        }
        let items = split(bytes)?.into_iter().map(|(attribute, value)| read(attribute, value)).collect();
        Some(Nested { flagged: flags != 0, items })
    }
}

impl crate::attribute::Attribute for TcAttribute {
    fn read(attribute: u16, bytes: &[u8]) -> Self {
        TcAttribute::read(None, attribute, bytes)
    }

    fn kind(&self) -> u16 {
        use crate::attribute::Value;
        match self {
            TcAttribute::Kind(_) => types::KIND,
            TcAttribute::Options(options) => options.kind(types::OPTIONS),
            TcAttribute::Stats(_) => types::STATS,
            TcAttribute::Xstats(xstats) => xstats.kind(types::XSTATS),
            TcAttribute::Stats2(all) => types::STATS2 | all.flags(),
            TcAttribute::HwOffload(_) => types::HW_OFFLOAD,
            TcAttribute::IngressBlock(_) => types::INGRESS_BLOCK,
            TcAttribute::EgressBlock(_) => types::EGRESS_BLOCK,
            TcAttribute::Warning(_) => types::WARNING,
            TcAttribute::Other(raw) => raw.kind,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        use crate::attribute::Value;
        match self {
            TcAttribute::Kind(kind) => {
                out.extend_from_slice(kind.name().as_bytes());
                out.push(0);
            }
            TcAttribute::Options(options) => options.write(out),
            TcAttribute::Stats(stats) => stats.write(out),
            TcAttribute::Xstats(xstats) => xstats.write(out),
            TcAttribute::Stats2(all) => Value::write(all, out),
            TcAttribute::HwOffload(value) => value.write(out),
            TcAttribute::IngressBlock(value) | TcAttribute::EgressBlock(value) => value.write(out),
            TcAttribute::Warning(text) => text.write(out),
            TcAttribute::Other(raw) => out.extend_from_slice(&raw.bytes),
        }
    }
}

/// Why bytes are no message about queues.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the message says, or than it must have.
    #[error("{0} bytes are too few for a message about a queueing discipline")]
    Short(usize),
    /// Something else of rtnetlink.
    #[error("a netlink message of type {0} is not about queueing disciplines or classes")]
    Type(u16),
    /// A length or padding inside is wrong.
    #[error("an attribute of the message has a wrong length or padding")]
    Attributes,
}

const TYPES: [(u16, Subject, Action); 6] = [
    (36, Subject::Discipline, Action::New),
    (37, Subject::Discipline, Action::Delete),
    (38, Subject::Discipline, Action::Get),
    (40, Subject::Class, Action::New),
    (41, Subject::Class, Action::Delete),
    (42, Subject::Class, Action::Get),
];

impl Message {
    /// A question or an order about something of an interface, without attributes.
    pub fn new(subject: Subject, action: Action, interface: i32) -> Message {
        Message {
            subject,
            action,
            flags: 0,
            sequence: 0,
            port: 0,
            family: 0,
            interface,
            handle: Handle::NONE,
            parent: Handle::NONE,
            info: 0,
            attributes: Vec::new(),
        }
    }

    /// Reads one message, which takes all of `bytes`. What it takes is written again as it was.
    pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
        let short = DecodeError::Short(bytes.len());
        let buffer = NetlinkBuffer::new_checked(bytes).map_err(|_| short.clone())?;
        let message_type = buffer.message_type();
        let (_, subject, action) =
            TYPES.into_iter().find(|t| t.0 == message_type).ok_or(DecodeError::Type(message_type))?;
        if buffer.length() as usize != bytes.len() || bytes.len() < HEADER + TCMSG {
            return Err(short);
        }
        let word = |at: usize| {
            let at = HEADER + at;
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[HEADER + 1..HEADER + 4] != [0; 3] {
            return Err(DecodeError::Attributes);
        }
        let raw = split(&bytes[HEADER + TCMSG..]).ok_or(DecodeError::Attributes)?;
        let named = raw.iter().find(|(attribute, _)| *attribute == types::KIND);
        let kind =
            named.and_then(|(_, name)| name.strip_suffix(&[0])).and_then(|name| str::from_utf8(name).ok());
        let kind = kind.map(Kind::of);
        Ok(Message {
            subject,
            action,
            flags: buffer.flags(),
            sequence: buffer.sequence_number(),
            port: buffer.port_number(),
            family: bytes[HEADER],
            interface: word(4) as i32,
            handle: Handle(word(8)),
            parent: Handle(word(12)),
            info: word(16),
            attributes: raw
                .into_iter()
                .map(|(a, value)| TcAttribute::read(kind.as_ref(), a, value))
                .collect(),
        })
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let message_type = TYPES
            .into_iter()
            .find(|t| (t.1, t.2) == (self.subject, self.action))
            .expect("every pair is there")
            .0;
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&message_type.to_ne_bytes());
        out.extend_from_slice(&self.flags.to_ne_bytes());
        out.extend_from_slice(&self.sequence.to_ne_bytes());
        out.extend_from_slice(&self.port.to_ne_bytes());
        out.extend_from_slice(&[self.family, 0, 0, 0]);
        for word in [self.interface as u32, self.handle.0, self.parent.0, self.info] {
            out.extend_from_slice(&word.to_ne_bytes());
        }
        write_all(&self.attributes, out);
        let length = (out.len() - start) as u32;
        out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    /// The kind, if it is told.
    pub fn kind(&self) -> Option<&Kind> {
        self.attributes.iter().find_map(|a| if let TcAttribute::Kind(kind) = a { Some(kind) } else { None })
    }

    /// The options, if they are told.
    pub fn options(&self) -> Option<&Options> {
        self.attributes.iter().find_map(|a| if let TcAttribute::Options(o) = a { Some(o) } else { None })
    }

    fn stats(&self) -> impl Iterator<Item = &StatAttribute> {
        let lists = self
            .attributes
            .iter()
            .filter_map(|a| if let TcAttribute::Stats2(s) = a { Some(s) } else { None });
        lists.flat_map(|list| list.iter())
    }

    /// The statistics that only this kind has, if they are told.
    pub fn xstats(&self) -> Option<&Xstats> {
        self.stats()
            .find_map(|s| if let StatAttribute::App(xstats) = s { Some(xstats) } else { None })
            .or_else(|| {
                self.attributes
                    .iter()
                    .find_map(|a| if let TcAttribute::Xstats(x) = a { Some(x) } else { None })
            })
    }

    /// The counters that every kind has, with marks and delays of those that tell them.
    pub fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for stat in self.stats() {
            match stat {
                StatAttribute::Of(Stat::Basic(basic)) => {
                    all.bytes = basic.bytes;
                    all.packets = all.packets.max(u64::from(basic.packets));
                }
                StatAttribute::Of(Stat::Packets64(packets)) => all.packets = *packets,
                StatAttribute::Of(Stat::Queue(queue)) => {
                    all.drops = queue.drops;
                    all.overlimits = queue.overlimits;
                    all.requeues = queue.requeues;
                    (all.waiting_packets, all.waiting_bytes) = (queue.qlen, queue.backlog);
                }
                _ => {}
            }
        }
        if let Some(xstats) = self.xstats() {
            (all.marks, all.shed) = xstats.marks_and_shed();
            all.delay = xstats.delay();
        }
        all
    }
}

/// The counters of a discipline or class. Those of 32 bits wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped, for whatever reason.
    pub drops: u32,
    /// Of those, the ones on which the AQM did not decide, where the kind tells: for lack of room, and of
    /// CAKE acknowledgements that its filter took out.
    pub shed: u32,
    /// Packets marked by the AQM, where the kind tells.
    pub marks: u32,
    /// How often a shaper had to wait, or a limit was met.
    pub overlimits: u32,
    /// Packets that the interface gave back.
    pub requeues: u32,
    /// Packets that wait.
    pub waiting_packets: u32,
    /// Bytes that wait.
    pub waiting_bytes: u32,
    /// The delay that the kind tells: CoDel's of the last packet, PIE's estimate.
    pub delay: Option<Duration>,
}

impl Xstats {
    /// Packets that the AQM marked, and packets dropped on which it did not decide.
    fn marks_and_shed(&self) -> (u32, u32) {
        use crate::kinds::{CakeStat, CakeTin, CakeTinStat, FqCodelXstats};
        match self {
            Xstats::Codel(x) => (x.ecn_mark.wrapping_add(x.ce_mark), x.drop_overlimit),
            Xstats::FqCodel(FqCodelXstats::Totals(x, _)) => {
                (x.ecn_mark.wrapping_add(x.ce_mark), x.drop_overlimit)
            }
            Xstats::Pie(x) => (x.ecn_mark, x.overlimit),
            Xstats::FqPie(x) => (x.ecn_mark, x.overlimit.wrapping_add(x.overmemory)),
            Xstats::DualPi2(x) => (x.ecn_mark, 0),
            Xstats::Red(x) => (x.marked, x.pdrop.wrapping_add(x.other)),
            Xstats::Cake(x) | Xstats::CakeMq(x) => {
                let tins =
                    x.iter().filter_map(|s| if let CakeStat::Tins(tins) = s { Some(tins) } else { None });
                let stats = tins.flat_map(|tins| tins.iter()).filter_map(|tin| match tin {
                    CakeTin::Tin(_, stats) => Some(stats),
                    CakeTin::Other(_) => None,
                });
                // Acknowledgements that its filter takes out are counted as drops, too.
                let counts = stats.flat_map(|stats| stats.iter()).map(|stat| match stat {
                    CakeTinStat::EcnMarkedPackets(marks) => (*marks, 0),
                    CakeTinStat::AcksDroppedPackets(acks) => (0, *acks),
                    _ => (0, 0),
                });
                counts.fold((0, 0), |(marks, shed): (u32, u32), (more, acks)| {
                    (marks.wrapping_add(more), shed.wrapping_add(acks))
                })
            }
            _ => (0, 0),
        }
    }

    /// The delay that the kind tells of the whole queue.
    fn delay(&self) -> Option<Duration> {
        let micros = match self {
            Xstats::Codel(x) => x.ldelay,
            Xstats::Pie(x) => x.delay,
            Xstats::DualPi2(x) => x.delay_c.max(x.delay_l),
            _ => return None,
        };
        Some(Duration::from_micros(u64::from(micros)))
    }
}
