//! Answers that were given, for requests that come again (TS 29.244 section 6.4): the same octets go out, and
//! nothing is done twice.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;
use weir_units::{Duration, Time};

/// How long an answer is kept: as long as a peer sends a request again with what is usual, three times within
/// some seconds.
const KEPT: Duration = Duration::from_secs(20);

/// A request: who sent it, its number, and a digest of what it says. A peer that starts again counts from the
/// beginning; what it says then differs.
type Key = (SocketAddr, u32, u64);

/// Answers by their requests, the oldest first to go.
#[derive(Debug)]
pub struct Answers {
    by_request: HashMap<Key, Box<[u8]>>,
    /// How many requests with the same number are kept.
    by_number: HashMap<(SocketAddr, u32), u32>,
    order: VecDeque<(Time, Key)>,
    most: usize,
    bytes: usize,
    bytes_max: usize,
}

impl Answers {
    /// Keeps at most `most` with `bytes_max` octets, but for the last.
    pub fn new(most: usize, bytes_max: usize) -> Answers {
        let (by_request, by_number) = (HashMap::new(), HashMap::new());
        Answers { by_request, by_number, order: VecDeque::new(), most, bytes: 0, bytes_max }
    }

    /// What identifies a request.
    pub fn key(from: SocketAddr, sequence: u32, datagram: &[u8]) -> Key {
        let mut digest = DefaultHasher::new();
        datagram.hash(&mut digest);
        (from, sequence, digest.finish())
    }

    /// The answer to a request that was there before.
    pub fn find(&self, key: &Key) -> Option<&[u8]> {
        self.by_request.get(key).map(|answer| &**answer)
    }

    /// Whether another request of late bore the same number.
    pub fn is_reused(&self, (from, sequence, _): &Key) -> bool {
        self.by_number.contains_key(&(*from, *sequence))
    }

    /// Keeps the answer to a request that was not there before.
    pub fn keep(&mut self, now: Time, key: Key, answer: &[u8]) {
        while self.order.front().is_some_and(|(since, _)| self.is_over(now, *since)) {
            self.forget();
        }
        if self.by_request.insert(key, answer.into()).is_none() {
            self.order.push_back((now, key));
            *self.by_number.entry((key.0, key.1)).or_default() += 1;
            self.bytes += answer.len();
        }
    }

    fn is_over(&self, now: Time, since: Time) -> bool {
        now.since(since) > KEPT || self.order.len() >= self.most || self.bytes > self.bytes_max
    }

    fn forget(&mut self) {
        if let Some((_, key)) = self.order.pop_front()
            && let Some(answer) = self.by_request.remove(&key)
        {
            self.bytes -= answer.len();
            let number = (key.0, key.1);
            if let Some(count) = self.by_number.get_mut(&number) {
                *count -= 1;
                if *count == 0 {
                    self.by_number.remove(&number);
                }
            }
        }
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.by_request.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_a_while_and_not_more_than_there_is_room_for() {
        let mut answers = Answers::new(3, 1 << 20);
        let from = "192.0.2.1:8805".parse().unwrap();
        let key = |n: u32| Answers::key(from, n, &n.to_be_bytes());
        for n in 0..5 {
            answers.keep(Time::ZERO, key(n), &[n as u8; 4]);
        }
        assert_eq!((answers.len(), answers.bytes), (3, 12));
        assert_eq!(answers.find(&key(1)), None);
        assert_eq!(answers.find(&key(4)), Some(&[4; 4][..]));
        let other = Answers::key(from, 4, b"something else");
        assert!(answers.find(&other).is_none() && answers.is_reused(&other) && !answers.is_reused(&key(1)));
        answers.keep(Time::ZERO + KEPT + Duration::from_secs(1), key(9), &[]);
        assert_eq!((answers.len(), answers.by_number.len()), (1, 1));
    }
}
