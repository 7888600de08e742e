//! What flows send.

use crate::applications::{Game, Page, Realtime, Video, Voice};
use crate::schema::{Check, or, within};
use weir_units::{Bytes, Duration, Rate};

/// What a flow sends.
#[derive(Clone, PartialEq, Debug)]
pub enum Traffic {
    /// As much as TCP can, from start to stop.
    Bulk,
    /// As much as the application has, which makes data at this rate.
    Limited(Rate),
    /// That many bytes over TCP, once or again and again.
    Transfers {
        /// Size of one transfer.
        size: Bytes,
        /// Time from the start of one to the start of the next; `None` for a single transfer.
        every: Option<Duration>,
        /// Time from the end of one to the start of the next; `None` if the end of one starts none.
        pause: Option<Duration>,
    },
    /// Pages of several objects, with time to read them.
    Web(Web),
    /// Datagrams, whatever happens to them.
    Unresponsive(Datagrams),
    /// One way of a call.
    Voice(Voice),
    /// One way of a game.
    Game(Game),
    /// Segments of video at rates that follow the buffer.
    Video(Video),
    /// Pages of objects that are loaded in parallel.
    Page(Page),
    /// Video over datagrams at a rate that follows the network.
    Realtime(Realtime),
}

impl Traffic {
    /// The datagrams that are sent without congestion control, of traffic that is such.
    pub fn datagrams(&self) -> Option<Datagrams> {
        let paced = |payload: u64, interval: Duration| {
            let bits_per_ns = u128::from(payload) * 8 * 1_000_000_000;
            let rate = Rate::from_bps((bits_per_ns / u128::from(interval.as_nanos().max(1))) as u64);
            Some(Datagrams { rate, payload: Some(Bytes::new(payload)), timing: Timing::Cbr })
        };
        match self {
            Traffic::Unresponsive(datagrams) => Some(*datagrams),
            Traffic::Voice(voice) => paced(voice.payload(), voice.packet_time),
            Traffic::Game(game) => paced(game.payload(), game.interval()),
            Traffic::Bulk | Traffic::Limited(_) | Traffic::Transfers { .. } => None,
            Traffic::Web(_) | Traffic::Video(_) | Traffic::Page(_) | Traffic::Realtime(_) => None,
        }
    }

    /// Whether it goes over a transport with a congestion control; real-time video brings its own.
    pub fn is_transported(&self) -> bool {
        self.datagrams().is_none() && !matches!(self, Traffic::Realtime(_))
    }
}

choices! {
    /// When datagrams are sent.
    pub enum UdpPattern {
        /// At equal distances.
        Cbr = "cbr",
        /// At exponentially distributed distances.
        Poisson = "poisson",
        /// At equal distances for an exponentially distributed time, then nothing for another.
        OnOff = "onoff",
    }
}

/// Datagrams that are sent whatever happens.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Datagrams {
    /// How much of their payload is sent per second, while there is sending.
    pub rate: Rate,
    /// Payload of each; `None` for what fits into the largest IP packet of the flow.
    pub payload: Option<Bytes>,
    /// When they are sent.
    pub timing: Timing,
}

/// When datagrams are sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Timing {
    /// At equal distances.
    Cbr,
    /// At exponentially distributed distances.
    Poisson,
    /// At equal distances for a time, then nothing for another, both exponentially distributed.
    OnOff {
        /// Mean time of sending.
        on: Duration,
        /// Mean time of silence.
        off: Duration,
    },
}

/// Shape of the bounded Pareto distribution of [`Web`]'s objects: the smaller, the heavier the tail.
pub const OBJECT_SHAPE: f64 = 1.2;
/// The largest of [`Web`]'s objects divided by the smallest.
pub const OBJECT_SPREAD: f64 = 1000.0;
/// Mean size of the objects divided by the smallest. With shape a and spread r the mean of the distribution
/// is `a / (a - 1) * (1 - r^(1 - a)) / (1 - r^-a)` times the smallest.
pub const OBJECT_MEAN: f64 = 4.493_996_982_098_51;

section! {
    /// Pages of several objects that are loaded one page after the other.
    pub struct Web {
        /// Objects of a page. They follow each other on the connection of the flow.
        objects: u32 = or(10, within(1, 1000));
        /// Mean size of an object. Sizes have a bounded Pareto distribution of shape 1.2, the largest a
        /// thousand times the smallest.
        object_size: Bytes = or(Bytes::new(30_000), within(Bytes::new(100), Bytes::new(1_000_000_000)));
        /// Mean time from the end of a page to the start of the next, exponentially distributed.
        think: Duration = or(Duration::from_secs(2), within(Duration::ZERO, Duration::from_secs(3600)));
    }
}

impl Check for Web {}

// The macro derives what every table needs; a page is small enough to be copied.
impl Copy for Web {}

impl Web {
    /// The smallest object, in bytes and parts of them.
    pub fn smallest_object(&self) -> f64 {
        self.object_size.get() as f64 / OBJECT_MEAN
    }

    /// The largest object, in bytes and parts of them.
    pub fn largest_object(&self) -> f64 {
        self.smallest_object() * OBJECT_SPREAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_objects_is_that_of_their_distribution() {
        let (a, r) = (OBJECT_SHAPE, OBJECT_SPREAD);
        let mean = a / (a - 1.0) * (1.0 - r.powf(1.0 - a)) / (1.0 - r.powf(-a));
        assert!((mean / OBJECT_MEAN - 1.0).abs() < 1e-12, "{mean:.16}");
    }
}
