//! Peers of the configuration, and who of them is associated.

use crate::message::NodeId;
use std::net::IpAddr;
use weir_units::{NANOS_PER_SEC, Time};

/// Octets of a usual request: an establishment with two rules each way has less.
const OCTETS_PER_REQUEST: usize = 1024;
/// Requests that may come at once however low the rate is: the longest datagram is within them.
const BURST_MIN: u64 = 64;

/// A peer of the configuration.
#[derive(Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Whether and how it is associated.
    pub association: Option<Association>,
    /// The peer whose other address this is, as far as it showed.
    pub holder: Option<usize>,
    /// Requests that it may still send, in billionths.
    allowance: u64,
    since: Time,
}

/// An association.
#[derive(Clone, Debug)]
pub struct Association {
    /// Who the peer says it is.
    pub node: NodeId,
    /// When it started, in the form of its own.
    pub recovery: u32,
    /// When it was last heard.
    pub heard: Time,
    /// When it is next asked whether it is there.
    pub beat_due: Time,
    /// Whether it was kept over a restart of this function, and the peer was not heard since.
    pub restored: bool,
    /// When it was last asked that before its time, as it said that it had started again.
    pub doubted: Option<Time>,
}

impl Peer {
    /// A peer that was not heard yet.
    pub fn new(address: IpAddr) -> Peer {
        Peer { address, association: None, holder: None, allowance: u64::MAX, since: Time::ZERO }
    }

    /// Whether a request of so many octets is within `rate_max` in a second; a tenth of a second's may come
    /// at once. A long one counts as one for each kilobyte that it begins, as it is as much work.
    pub fn may_ask(&mut self, now: Time, rate_max: u64, octets: usize) -> bool {
        let cost = (octets.div_ceil(OCTETS_PER_REQUEST).max(1) as u64) * NANOS_PER_SEC;
        let passed = now.since(self.since).as_nanos().min(NANOS_PER_SEC);
        self.since = now;
        let most = (rate_max / 10).max(BURST_MIN) * NANOS_PER_SEC;
        self.allowance = self.allowance.saturating_add(passed * rate_max).min(most);
        let has = self.allowance >= cost;
        if has {
            self.allowance -= cost;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Duration;

    #[test]
    fn a_peer_may_ask_as_often_as_it_may() {
        let mut peer = Peer::new("192.0.2.1".parse().unwrap());
        let mut passed = 0;
        for ms in 0..2000 {
            let now = Time::ZERO + Duration::from_millis(ms);
            passed += (0..3).filter(|_| peer.may_ask(now, 1000, 500)).count();
        }
        assert!((2000..=2101).contains(&passed), "{passed}");
    }

    #[test]
    fn long_requests_count_for_several_and_the_longest_gets_through() {
        let mut peer = Peer::new("192.0.2.1".parse().unwrap());
        let now = |ms| Time::ZERO + Duration::from_millis(ms);
        assert!(peer.may_ask(now(0), 1, 65_507) && !peer.may_ask(now(0), 1, 1));
        assert!(peer.may_ask(now(10_000), 1000, 64 << 10) && peer.may_ask(now(10_000), 1000, 36 << 10));
        assert!(!peer.may_ask(now(10_000), 1000, 1));
    }
}
