//! What a queue of many FIFOs holds, all of them together.

use weir_aqm::View;
use weir_units::{Bytes, Duration, NANOS_PER_SEC, Rate};

/// The queue as a whole.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    pub backlog: Bytes,
    pub packets: u32,
    rate: Rate,
    nanos_per_byte: f64,
}

impl Sum {
    /// Nothing, before a link of this rate.
    pub fn new(rate: Rate) -> Sum {
        let mut sum = Sum { backlog: Bytes::ZERO, packets: 0, rate, nanos_per_byte: 0.0 };
        sum.set_rate(rate);
        sum
    }

    /// The link's rate changed.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        let bytes_per_second = rate.as_bps() as f64 / 8.0;
        self.nanos_per_byte = if rate == Rate::ZERO { 0.0 } else { NANOS_PER_SEC as f64 / bytes_per_second };
    }

    /// The link's rate; zero if it is not known.
    #[inline]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    #[inline]
    pub fn add(&mut self, len: Bytes) {
        self.backlog += len;
        self.packets += 1;
    }

    #[inline]
    pub fn remove(&mut self, len: Bytes) {
        self.backlog -= len;
        self.packets -= 1;
    }

    /// What each of so many that have something to send gets of the rate.
    #[inline]
    pub fn share(&self, active: u32) -> Rate {
        Rate::from_bps(self.rate.as_bps() / u64::from(active.max(1)))
    }

    /// Its delay is the time that everything takes at the link's rate.
    #[inline]
    pub fn view(&self) -> View {
        let delay = Duration::from_nanos((self.backlog.get() as f64 * self.nanos_per_byte) as u64);
        View { backlog: self.backlog, packets: self.packets, delay, rate: self.rate }
    }
}
