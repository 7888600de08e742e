//! What a host remembers of its connections to another one after they have ended (RFC 9040 section 4,
//! temporal sharing).
//!
//! Without it every transfer begins with a slow start that ends where it overruns the path. Linux keeps the
//! threshold of slow start for each destination unless told otherwise (`tcp_no_metrics_save`, and since 5.6
//! `tcp_no_ssthresh_metrics_save`, which is on).

use crate::{SenderInfo, State};

/// What is remembered of the connections to one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathMemory {
    ssthresh: Option<u32>,
}

impl PathMemory {
    /// Slow-start threshold of the next connection; `None` as long as nothing is known.
    pub fn ssthresh(&self) -> Option<u32> {
        self.ssthresh
    }

    /// A connection ended. What it says is worth most in congestion avoidance: the path carried its window.
    /// One that ended in slow start or while it repaired losses found no new limit, and can only raise
    /// the one that is known.
    pub fn learn(&mut self, ended: &SenderInfo) {
        let half = ended.cwnd / 2;
        match ended.ssthresh {
            Some(s) if ended.cwnd > s && ended.state == State::Open => self.ssthresh = Some(s.max(half)),
            reached => {
                let at_least = reached.unwrap_or(half);
                self.ssthresh = self.ssthresh.map(|known| known.max(at_least));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Congestion, Sender, SenderConfig};
    use weir_units::Time;

    fn ended(cwnd: u32, ssthresh: Option<u32>, state: State) -> SenderInfo {
        let reno = Congestion::by_name("reno").unwrap();
        let info = Sender::new(&SenderConfig::default(), reno, Time::ZERO).info();
        SenderInfo { cwnd, ssthresh, state, ..info }
    }

    #[test]
    fn only_congestion_avoidance_finds_a_threshold_and_the_rest_can_raise_it() {
        let mut memory = PathMemory::default();
        memory.learn(&ended(400, None, State::Open));
        memory.learn(&ended(10, Some(20), State::Recovery));
        assert_eq!(memory.ssthresh(), None);
        memory.learn(&ended(30, Some(20), State::Open));
        assert_eq!(memory.ssthresh(), Some(20));
        memory.learn(&ended(60, Some(20), State::Open));
        assert_eq!(memory.ssthresh(), Some(30));
        memory.learn(&ended(20, Some(12), State::Open));
        assert_eq!(memory.ssthresh(), Some(12));
        memory.learn(&ended(10, Some(25), State::Recovery));
        memory.learn(&ended(40, None, State::Open));
        assert_eq!(memory.ssthresh(), Some(25));
    }

    #[test]
    fn a_connection_begins_with_what_is_remembered() {
        let config = SenderConfig { ssthresh: Some(25), ..SenderConfig::default() };
        let of = |name| Sender::new(&config, Congestion::by_name(name).unwrap(), Time::ZERO).info().ssthresh;
        assert_eq!((of("cubic"), of("bbr")), (Some(25), None), "BBR has a model instead");
    }
}
