//! What happened, in numbers.

use super::cause::Cause;
use std::collections::BTreeMap;

/// What was received, done and refused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Datagrams that came in.
    pub received: u64,
    /// From others than peers of the configuration; they get no answer.
    pub strangers: u64,
    /// Above the rate that a peer may ask at.
    pub over_rate: u64,
    /// Messages whose octets do not fit: cut off, of lengths that do not agree, of another version. Requests
    /// among them are refused where they can be.
    pub malformed: u64,
    /// Messages of a kind that is not known, or answers to nothing; they get no answer.
    pub unexpected: u64,
    /// Elements of requests that are not known here, of vendors and of later releases: they are passed over.
    pub ignored: u64,
    /// Requests that came again and got the same answer.
    pub repeated: u64,
    /// Requests with the number of another one of late that said something else; each is done by itself.
    pub reused: u64,
    /// Requests that were done.
    pub accepted: u64,
    /// Requests that were refused, by the number of the cause.
    pub refused: BTreeMap<u8, u64>,
    /// Sessions that were established.
    pub established: u64,
    /// Sessions that were modified.
    pub modified: u64,
    /// Sessions that ended, for whatever reason.
    pub removed: u64,
    /// Reports that were sent.
    pub reports: u64,
    /// Error indications that were not reported, as their tunnel was reported just before.
    pub reports_hushed: u64,
    /// Times of start that are older than one that was heard, as of messages that come late or are forged.
    pub stale: u64,
    /// Reports that were not sent, because too many wait for an answer, or never answered.
    pub reports_lost: u64,
}

impl Counts {
    /// Notes the outcome of a request.
    pub(super) fn note(&mut self, cause: Cause) {
        match cause {
            Cause::Accepted => self.accepted += 1,
            other => *self.refused.entry(other as u8).or_default() += 1,
        }
    }

    /// All requests that were refused.
    pub fn refused_all(&self) -> u64 {
        self.refused.values().sum()
    }
}
