//! What runs on top of a connection, or sends without one.

use crate::dice::Dice;
use std::sync::Arc;
use weir_config::{Datagrams, OBJECT_SHAPE, Timing};
use weir_tcp::sources::{Datagram, DatagramConfig, OnOff, Pareto, Periodic, Spacing, Web, WebConfig};
use weir_tcp::{Segment, Sender};
use weir_units::{Ecn, Rate, Time};

/// An application that does not always have data.
pub enum Application {
    /// Loads pages.
    Web(Reader),
    /// Makes data at a rate.
    Limited(Periodic),
}

/// A reader of pages with its dice.
pub struct Reader {
    web: Web,
    dice: Dice,
}

/// What readers of such pages have in common.
pub fn pages(web: &weir_config::Web) -> Arc<WebConfig> {
    let size = Pareto { alpha: OBJECT_SHAPE, min: web.smallest_object(), max: web.largest_object() };
    Arc::new(WebConfig { objects: web.objects, size, think: web.think })
}

impl Application {
    /// A reader that requests its first page at `start`.
    pub fn web(pages: Arc<WebConfig>, start: Time, dice: Dice) -> Application {
        Application::Web(Reader { web: Web::new(pages, start), dice })
    }

    /// Data at `rate`, written in full segments of `payload` bytes as long as they come often enough.
    pub fn limited(rate: Rate, payload: u32, start: Time) -> Application {
        Application::Limited(Periodic::new(rate, payload, start))
    }

    /// When it wants to act; `None` while it waits for its connection.
    pub fn next(&self) -> Option<Time> {
        match self {
            Application::Web(reader) => reader.web.next_timeout(),
            Application::Limited(writer) => Some(writer.next_timeout()),
        }
    }

    /// Pages loaded so far, and when the one that was requested last was requested, with its bytes.
    pub fn pages(&self) -> Option<(u64, Time, u64)> {
        let Application::Web(reader) = self else { return None };
        let (since, bytes) = reader.web.page();
        Some((reader.web.pages(), since, bytes))
    }

    /// When the page was requested that is loading now.
    pub fn loading_since(&self) -> Option<Time> {
        let Application::Web(reader) = self else { return None };
        reader.web.is_loading().then(|| reader.web.page().0)
    }

    /// The bytes that it writes now, if any.
    pub fn act(&mut self, now: Time, sender: &Sender) -> Option<u64> {
        match self {
            Application::Web(reader) => {
                let Reader { web, dice } = reader;
                web.poll(now, sender.is_done(), || dice.bits())
            }
            Application::Limited(writer) => writer.poll(now, sender.surplus()),
        }
    }
}

/// Sends datagrams whatever happens to them.
pub struct DatagramSender {
    source: Datagram,
    dice: Dice,
    payload: u32,
    ecn: Ecn,
}

impl DatagramSender {
    /// A sender that begins at `start`; `largest` is the payload where none is given.
    pub fn new(datagrams: &Datagrams, largest: u32, ecn: Ecn, start: Time, mut dice: Dice) -> DatagramSender {
        let payload = datagrams.payload.map_or(largest, |bytes| bytes.get() as u32);
        let (spacing, on_off) = match datagrams.timing {
            Timing::Cbr => (Spacing::Constant, OnOff::Always),
            Timing::Poisson => (Spacing::Exponential, OnOff::Always),
            Timing::OnOff { on, off } => (Spacing::Constant, OnOff::Exponential { on, off }),
        };
        let config = DatagramConfig { rate: datagrams.rate, size: payload, spacing, on_off };
        let source = Datagram::new(&config, start, || dice.bits());
        DatagramSender { source, dice, payload, ecn }
    }

    /// When the next one leaves.
    pub fn next(&self) -> Time {
        self.source.next()
    }

    /// The datagram that leaves now.
    pub fn send(&mut self, now: Time) -> Segment {
        let seq = self.source.sent();
        self.source.advance(|| self.dice.bits());
        let Self { payload, ecn, .. } = *self;
        Segment { seq, sent: now, payload, ecn, retransmission: false, cwr: false, spin: false }
    }
}
