//! Timers that are put off far more often than they expire.

use crate::event::TimerSlot;
use crate::service::NEVER;
use weir_units::{Duration, Time};

/// Beyond this a time is likely to be put off before it comes.
const SOON: Duration = Duration::from_millis(2);

/// When an endpoint is to be called, with at most one event waiting for each hand.
///
/// A time that moves later leaves the event where it is: when it comes, the endpoint is asked again. Only a
/// time that moves before both hands costs a new event. Retransmission timeouts, which move with each
/// acknowledgement, so cost a few events per second, and paced segments one each.
#[derive(Clone, Copy, Debug)]
pub struct Alarm {
    /// When the events come; [`NEVER`] without one.
    near: Time,
    far: Time,
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm { near: NEVER, far: NEVER }
    }
}

impl Alarm {
    /// The endpoint wants to be called at `due`: which hand needs an event then, if any.
    #[inline]
    pub fn want(&mut self, now: Time, due: Time) -> Option<TimerSlot> {
        if self.far <= due || self.near <= due {
            return None;
        }
        if self.far == NEVER && due.since(now) > SOON {
            self.far = due;
            return Some(TimerSlot::Far);
        }
        self.near = due;
        Some(TimerSlot::Near)
    }

    /// An event came: whether it is the one that was waited for.
    #[inline]
    pub fn rings(&mut self, hand: TimerSlot, now: Time) -> bool {
        let slot = match hand {
            TimerSlot::Near => &mut self.near,
            TimerSlot::Far => &mut self.far,
        };
        let due = *slot == now;
        if due {
            *slot = NEVER;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Time {
        Time::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn a_time_that_moves_later_costs_nothing() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.want(us(0), us(200_000)), Some(TimerSlot::Far));
        for t in 1..1000 {
            assert_eq!(alarm.want(us(t), us(200_000 + t)), None);
        }
        // Paced segments in between take the other hand, one event each.
        assert_eq!(alarm.want(us(1000), us(1100)), Some(TimerSlot::Near));
        assert!(alarm.rings(TimerSlot::Near, us(1100)));
        assert_eq!(alarm.want(us(1100), us(1200)), Some(TimerSlot::Near));
        // One that moves earlier makes the event before it void.
        assert_eq!(alarm.want(us(1100), us(1150)), Some(TimerSlot::Near));
        assert!(alarm.rings(TimerSlot::Near, us(1150)));
        assert!(!alarm.rings(TimerSlot::Near, us(1200)));
        assert!(alarm.rings(TimerSlot::Far, us(200_000)));
        assert!(!alarm.rings(TimerSlot::Far, us(200_000)));
    }
}
