//! What the queue of a recording goes through.

use weir_units::{Duration, Rate};

/// What decides about chance in a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Luck {
    /// Any number.
    Fair,
    /// Numbers of the last 256th only: what is signalled then is not signalled by chance.
    High,
}

/// Packets that arrive alike, in one or more trains.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Rate of the link.
    pub rate: Rate,
    /// Time without arrivals before each train.
    pub pause: Duration,
    /// Trains of the phase.
    pub trains: u64,
    /// Packets of a train.
    pub packets: u64,
    /// Least time between two arrivals; at random it is up to twice that.
    pub gap: Duration,
    /// Packets for which there is room.
    pub room: usize,
    /// One packet of so many has an ECN field, with all its code points in turn.
    pub ecn_every: u64,
    /// What the dice show.
    pub luck: Luck,
}

/// Phases one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What happens.
    pub phases: &'static [Phase],
    /// Whether the algorithm is told round trips too.
    pub sensed: bool,
    /// From this line on there is room for no more than `SHORT_ROOM` packets.
    pub short_from: usize,
    /// It ends with this line at the latest.
    pub lines: usize,
}

/// Room of a buffer that became short.
pub const SHORT_ROOM: usize = 8;

/// Overload by a half at 1 Mbit/s, without an end.
const PHASE: Phase = Phase {
    rate: Rate::from_mbps(1),
    pause: Duration::ZERO,
    trains: 1,
    packets: u64::MAX,
    gap: Duration::from_micros(4000),
    room: usize::MAX,
    ecn_every: 3,
    luck: Luck::Fair,
};

/// Overload for 0.7 s, a pause until the queue is empty, and overload again, at the end of a short buffer.
pub const SHORT: Plan = Plan {
    sensed: false,
    short_from: 300,
    lines: 400,
    phases: &[Phase { packets: 120, ..PHASE }, Phase { pause: Duration::from_secs(2), ..PHASE }],
};

/// The same with round trips.
pub const SENSED: Plan = Plan { sensed: true, ..SHORT };

const MIXED: Phase = Phase { ecn_every: 2, ..PHASE };

/// What a queue meets: a burst into an empty one, overload, trains between which it becomes short, about as
/// much as leaves, a short buffer, dice that hardly ever hit, trains that overflow and then leave, a burst
/// after a long pause, a link that is four times as fast and then slow again.
pub const LOADED: Plan = Plan {
    sensed: false,
    short_from: usize::MAX,
    lines: usize::MAX,
    phases: &[
        Phase { packets: 60, gap: Duration::from_micros(1500), room: 50, ..MIXED },
        Phase { packets: 30, gap: Duration::from_micros(4500), ..MIXED },
        Phase {
            pause: Duration::from_millis(70),
            trains: 7,
            packets: 8,
            gap: Duration::from_millis(1),
            ..MIXED
        },
        Phase { packets: 45, gap: Duration::from_micros(6400), ..MIXED },
        Phase { packets: 40, gap: Duration::from_millis(3), room: 10, ..MIXED },
        Phase { packets: 55, gap: Duration::from_micros(4500), luck: Luck::High, ..MIXED },
        Phase {
            pause: Duration::from_millis(150),
            trains: 5,
            packets: 8,
            gap: Duration::from_micros(300),
            room: 5,
            ..MIXED
        },
        Phase { pause: Duration::from_millis(3000), packets: 40, gap: Duration::from_micros(2500), ..MIXED },
        Phase {
            rate: Rate::from_mbps(4),
            packets: 40,
            gap: Duration::from_micros(1200),
            ecn_every: 1,
            ..MIXED
        },
        Phase {
            rate: Rate::from_mbps(4),
            pause: Duration::from_millis(8),
            trains: 8,
            packets: 3,
            gap: Duration::from_micros(500),
            ecn_every: 1,
            ..MIXED
        },
        Phase {
            pause: Duration::from_millis(120),
            trains: 5,
            packets: 6,
            gap: Duration::from_micros(500),
            ..MIXED
        },
        Phase { pause: Duration::from_millis(400), packets: 24, gap: Duration::from_millis(4), ..MIXED },
    ],
};

const SLOW_RATE: Phase = Phase { rate: Rate::from_bps(100_000), gap: Duration::from_millis(40), ..MIXED };

/// For laws that move once in half a second: a link on which that is the time of four packets. Overload for
/// long, trains that empty the queue between, one packet at a time, overload again, about as much as leaves,
/// a short buffer, a link that is twice as fast.
pub const SLOW: Plan = Plan {
    sensed: false,
    short_from: usize::MAX,
    lines: usize::MAX,
    phases: &[
        Phase { packets: 190, ..SLOW_RATE },
        Phase {
            pause: Duration::from_millis(380),
            trains: 20,
            packets: 5,
            gap: Duration::from_millis(20),
            ..SLOW_RATE
        },
        Phase { packets: 55, gap: Duration::from_millis(500), ..SLOW_RATE },
        Phase { packets: 130, ..SLOW_RATE },
        Phase { packets: 80, gap: Duration::from_millis(63), ..SLOW_RATE },
        Phase { packets: 30, gap: Duration::from_millis(30), room: 4, ..SLOW_RATE },
        Phase { rate: Rate::from_bps(200_000), packets: 80, gap: Duration::from_millis(27), ..SLOW_RATE },
    ],
};
