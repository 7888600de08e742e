//! The flows with the most in flight.

use weir_units::{Bytes, Duration, Time};

/// Flows that are remembered. Those beyond are smaller than these, and none of the largest.
const FLOWS: usize = 16;
/// A flow that was not heard of for so long is over.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// Bytes in flight by flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights {
    flows: [Option<Flight>; FLOWS],
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    flow: u32,
    bytes: Bytes,
    at: Time,
}

impl Flight {
    fn is_current(&self, now: Time) -> bool {
        now.since(self.at) < FORGOTTEN
    }
}

impl Flights {
    /// A flow has so much in flight.
    pub fn note(&mut self, flow: u32, bytes: Bytes, now: Time) {
        let new = Flight { flow, bytes, at: now };
        let known = self.flows.iter_mut().flatten().find(|f| f.flow == flow);
        if let Some(known) = known {
            *known = new;
            return;
        }
        // The smallest makes room; one that is over, and a free place, is smaller than any.
        let size = |f: &Option<Flight>| f.filter(|f| f.is_current(now)).map(|f| f.bytes);
        let place = self.flows.iter_mut().min_by_key(|place| size(place));
        if let Some(place) = place.filter(|place| size(place) < Some(bytes)) {
            *place = Some(new);
        }
    }

    /// How many flows have more in flight than this one; one that is not known has nothing.
    pub fn larger_than(&self, flow: u32, now: Time) -> usize {
        let current = || self.flows.iter().flatten().filter(|f| f.is_current(now));
        let own = current().find(|f| f.flow == flow).map_or(Bytes::ZERO, |f| f.bytes);
        current().filter(|f| f.flow != flow && f.bytes > own).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_ranked_and_those_that_are_over_leave() {
        let now = |s: u64| Time::ZERO + Duration::from_secs(s);
        let mut flights = Flights::default();
        assert_eq!(flights.larger_than(1, now(0)), 0);
        for flow in 0..100u32 {
            flights.note(flow, Bytes::new(u64::from(flow * 37 % 100) * 1000), now(0));
        }
        // 37 * 27 = 999 and 37 * 54 = 1998: the two largest of the hundred.
        assert_eq!((flights.larger_than(27, now(0)), flights.larger_than(54, now(0))), (0, 1));
        assert_eq!(flights.larger_than(0, now(0)), FLOWS);
        flights.note(54, Bytes::new(1_000_000), now(1));
        assert_eq!((flights.larger_than(27, now(1)), flights.larger_than(54, now(1))), (1, 0));
        assert_eq!((flights.larger_than(27, now(2)), flights.larger_than(3, now(3))), (1, 0));
    }
}
