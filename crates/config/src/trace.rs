//! Traces of links whose rate varies from moment to moment, in the format of Mahimahi.
//!
//! A trace is a text of whole numbers, one on a line: the milliseconds after the start at which the link may
//! send [`OPPORTUNITY`] bytes (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC
//! 2015, section 3.2). A number that stands twice means two opportunities. The trace repeats, and the last
//! number is its period.

use crate::errors::{Errors, Place, Wrong, quoted};
use crate::limits::{FASTEST, SLOWEST};
use std::path::Path;
use std::sync::Arc;
use weir_units::{Bytes, Duration, Rate, Time};

/// Largest trace file that is read.
pub const MAX_TRACE_BYTES: usize = 32 << 20;

/// Longest period of a trace, as long as the longest run.
pub const MAX_TRACE_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// What a link may send at one opportunity, by its byte accounting.
pub const OPPORTUNITY: Bytes = Bytes::new(1500);

const MAX_MILLISECONDS: u64 = MAX_TRACE_PERIOD.as_nanos() / 1_000_000;
const REMEDY: &str = "write on each line the milliseconds at which 1500 bytes may be sent, such as 12";

/// When a link may send, over and over. Clones share the content.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// The milliseconds at which there are opportunities, rising.
    slots: Arc<[Slot]>,
}

/// The opportunities of one millisecond. Eight bytes, as large traces have millions of them.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Slot {
    millisecond: u32,
    /// How many there are in the period up to it, its own among them. The file's size bounds it.
    by: u32,
}

impl Trace {
    /// The text of a file that it can be read from.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let mut left = self.opportunities_in_period();
        for (at, count) in self.opportunities() {
            let line = format!("{}\n", at.as_nanos() / 1_000_000);
            text.push_str(&line.repeat(count as usize));
            left = left.saturating_sub(u64::from(count));
            if left == 0 {
                break;
            }
        }
        text
    }

    /// Reads a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Trace, Errors> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let text = crate::file::read(path, MAX_TRACE_BYTES)
            .map_err(|wrong| Errors::of_file(&name, &Place::File, wrong))?;
        Trace::parse(&name, &text)
    }

    /// Reads a text; `file` is the name in messages.
    pub fn parse(file: &str, text: &[u8]) -> Result<Trace, Errors> {
        if text.len() > MAX_TRACE_BYTES {
            let problem = format!("has more than {MAX_TRACE_BYTES} bytes");
            let wrong = Wrong::new(problem, "shorten it: a trace repeats by itself");
            return Err(Errors::of_file(file, &Place::File, wrong));
        }
        // A line ends with its line feed, so that the last one has nothing behind it.
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return Err(Errors::of_file(file, &Place::File, Wrong::new("is empty", REMEDY)));
        }
        let mut slots: Vec<Slot> = Vec::new();
        let mut last = 0;
        for (line, number) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let millisecond =
                next(number, last).map_err(|wrong| Errors::of_file(file, &Place::Line(line), wrong))?;
            match slots.last_mut() {
                Some(slot) if slot.millisecond == millisecond => slot.by += 1,
                before => {
                    let by = before.map_or(0, |slot| slot.by) + 1;
                    slots.push(Slot { millisecond, by });
                }
            }
            last = millisecond;
        }
        let trace = Trace { slots: slots.into() };
        trace.check().map_err(|wrong| Errors::of_file(file, &Place::File, wrong))?;
        Ok(trace)
    }

    fn check(&self) -> Result<(), Wrong> {
        if self.period() == Duration::ZERO {
            let remedy = "end it with the milliseconds after which it repeats, such as 1000";
            return Err(Wrong::new("ends at 0 ms and so has no period", remedy));
        }
        let rate = self.average_rate();
        if !(SLOWEST..=FASTEST).contains(&rate) {
            let remedy = format!("a link has {SLOWEST} .. {FASTEST}: change the number of opportunities");
            return Err(Wrong::new(format!("gives {rate} on average"), remedy));
        }
        Ok(())
    }

    /// After how long the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.slots.last().map_or(0, |slot| u64::from(slot.millisecond)))
    }

    /// How many opportunities there are in a period.
    pub fn opportunities_in_period(&self) -> u64 {
        self.slots.last().map_or(0, |slot| u64::from(slot.by))
    }

    /// How many opportunities there are from the start up to a moment, those at that moment too.
    pub fn opportunities_by(&self, after: Duration) -> u64 {
        let period = self.period().as_nanos().max(1);
        let (laps, rest) = (after.as_nanos() / period, after.as_nanos() % period);
        let begun = self.slots.partition_point(|slot| u64::from(slot.millisecond) * 1_000_000 <= rest);
        let within = begun.checked_sub(1).map_or(0, |last| u64::from(self.slots[last].by));
        laps * self.opportunities_in_period() + within
    }

    /// The rate over whole periods, rounded down to a whole bit per second.
    pub fn average_rate(&self) -> Rate {
        // The file's size bounds the product: 16 million opportunities are less than 2^58 bit ms/s.
        let bits = self.opportunities_in_period() * OPPORTUNITY.get() * 8 * 1000;
        Rate::from_bps(bits / (self.period().as_nanos() / 1_000_000).max(1))
    }

    /// All opportunities from the start on: how long after it, and how many at once. It never ends.
    pub fn opportunities(&self) -> Opportunities {
        Opportunities { trace: self.clone(), next: 0, begin: Duration::ZERO }
    }
}

/// The opportunities of a trace one after the other; see [`Trace::opportunities`].
#[derive(Clone, Debug)]
pub struct Opportunities {
    trace: Trace,
    next: usize,
    /// Start of the period.
    begin: Duration,
}

impl Opportunities {
    /// Goes on to the first opportunity that is as long after the start, or longer; it does not go back.
    fn skip_to(&mut self, after: Duration) {
        let period = self.trace.period();
        // An opportunity at the very end of a period is that period's.
        let laps = after.as_nanos().saturating_sub(1) / period.as_nanos().max(1);
        let begin = period.saturating_mul(laps);
        if begin > self.begin {
            (self.begin, self.next) = (begin, 0);
        }
        let (begin, rest) = (self.begin, &self.trace.slots[self.next..]);
        let is_before = |slot: &Slot| begin + Duration::from_millis(u64::from(slot.millisecond)) < after;
        self.next += rest.partition_point(is_before);
        self.wrap();
    }

    fn wrap(&mut self) {
        if self.next == self.trace.slots.len() {
            self.next = 0;
            self.begin += self.trace.period();
        }
    }
}

impl Iterator for Opportunities {
    type Item = (Duration, u32);

    fn next(&mut self) -> Option<(Duration, u32)> {
        let slot = self.trace.slots[self.next];
        let before = self.next.checked_sub(1).map_or(0, |last| self.trace.slots[last].by);
        let at = self.begin + Duration::from_millis(u64::from(slot.millisecond));
        self.next += 1;
        self.wrap();
        Some((at, slot.by - before))
    }
}

/// A link that sends up to [`OPPORTUNITY`] at each opportunity of a trace, by its byte accounting.
///
/// What a packet leaves of an opportunity serves the next packet, if one waits at that moment; otherwise it
/// is lost. A packet that is larger than what is left is sent in parts and leaves with the last of them, as
/// in Mahimahi.
#[derive(Clone, Debug)]
pub struct TraceLink {
    opportunities: Opportunities,
    rate: Rate,
    start: Time,
    /// The opportunity in use, and what is left of it.
    at: Time,
    left: u64,
}

impl TraceLink {
    /// A link whose trace is at its beginning at `origin`, in use from `now` on.
    pub fn new(trace: &Trace, origin: Time, now: Time) -> TraceLink {
        let period = trace.period();
        let laps = origin.since(now).as_nanos().div_ceil(period.as_nanos().max(1));
        let start = origin - period.saturating_mul(laps);
        let (opportunities, rate) = (trace.opportunities(), trace.average_rate());
        let mut link = TraceLink { opportunities, rate, start, at: start, left: 0 };
        link.skip_to(now);
        link
    }

    /// The rate over whole periods.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    fn step(&mut self) {
        // It repeats without end.
        if let Some((offset, count)) = self.opportunities.next() {
            self.at = self.start + offset;
            self.left = u64::from(count) * OPPORTUNITY.get();
        }
    }

    /// Opportunities before `time` are lost.
    pub fn skip_to(&mut self, time: Time) {
        if self.at < time {
            self.opportunities.skip_to(time.since(self.start));
            self.step();
        }
    }

    /// The first opportunity at `now` or later that has something left: then a transmission can begin.
    pub fn free_at(&mut self, now: Time) -> Time {
        if self.left == 0 {
            self.step();
        }
        self.skip_to(now);
        self.at
    }

    /// Sends a packet from the opportunity in use on; returns when the last of it leaves.
    pub fn send(&mut self, len: Bytes) -> Time {
        let mut wanted = len.get();
        while wanted > self.left {
            wanted -= self.left;
            self.step();
        }
        self.left -= wanted;
        self.at
    }
}

/// The number on a line, which may not lie before that of the line above.
fn next(line: &[u8], last: u32) -> Result<u32, Wrong> {
    let line = line.trim_ascii();
    let shown = || quoted(&String::from_utf8_lossy(&line[..line.len().min(200)]));
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if line.strip_prefix(b"-").is_some_and(digits) {
        return Err(Wrong::new(format!("{} lies before the start", shown()), REMEDY));
    }
    if !digits(line) {
        return Err(Wrong::new(format!("{} is no whole number of milliseconds", shown()), REMEDY));
    }
    // What does not fit into the type is too late as well.
    let number = line.iter().try_fold(0u64, |n, d| n.checked_mul(10)?.checked_add(u64::from(d - b'0')));
    let number = number.filter(|n| *n <= MAX_MILLISECONDS).and_then(|n| u32::try_from(n).ok());
    match number {
        None => {
            let problem = format!("{} is more than {MAX_MILLISECONDS}, a day", shown());
            Err(Wrong::new(problem, "shorten the trace: it repeats by itself"))
        }
        Some(number) if number < last => {
            let remedy = "sort the numbers: each line is as late as the one above, or later";
            Err(Wrong::new(format!("{number} comes after {last}"), remedy))
        }
        Some(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &[u8]) -> String {
        Trace::parse("t", text).unwrap_err().to_string()
    }

    #[test]
    fn a_trace_repeats_with_its_last_number_as_period() {
        let trace = Trace::parse("t", b"0\n0\n3\r\n5\n5").unwrap();
        assert_eq!((trace.period(), trace.opportunities_in_period()), (Duration::from_millis(5), 5));
        // Five packets of 12 000 bits in 5 ms.
        assert_eq!(trace.average_rate(), Rate::from_mbps(12));
        let ms: Vec<(u64, u32)> =
            trace.opportunities().take(7).map(|(at, n)| (at.as_nanos() / 1_000_000, n)).collect();
        assert_eq!(ms, [(0, 2), (3, 1), (5, 2), (5, 2), (8, 1), (10, 2), (10, 2)]);
    }

    fn ms(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_link_sends_1500_bytes_at_each_opportunity_and_packets_leave_with_their_last_part() {
        let trace = Trace::parse("t", b"1\n1\n4\n10\n").unwrap();
        let mut link = TraceLink::new(&trace, Time::ZERO, Time::ZERO);
        // Two small packets share an opportunity; a third begins in what is left of it and ends in the next,
        // which is at the same time. What the fourth begins with there it ends 3 ms later.
        for (arrived, len, begins, leaves) in [
            (0, 600, 1, 1),
            (0, 600, 1, 1),
            (0, 1700, 1, 1),
            (0, 1500, 1, 4),
            (5, 100, 10, 10),
            (10, 1400, 10, 10),
            (10, 1500, 11, 11),
        ] {
            assert_eq!(link.free_at(ms(arrived)), ms(begins), "{len} bytes of {arrived} ms");
            assert_eq!(link.send(Bytes::new(len)), ms(leaves), "{len} bytes of {arrived} ms");
        }
        assert_eq!(link.free_at(ms(1_000_003)), ms(1_000_004), "a pause costs what was not used");
        assert_eq!(link.send(Bytes::new(4500)), ms(1_000_011), "a packet of three opportunities");
    }

    #[test]
    fn a_link_can_be_in_use_before_its_trace_begins() {
        let trace = Trace::parse("t", b"1\n1\n4\n10\n").unwrap();
        let mut link = TraceLink::new(&trace, ms(1003), ms(985));
        assert_eq!(link.free_at(ms(985)), ms(987));
        assert_eq!(link.free_at(ms(1003)), ms(1003));
        assert_eq!(link.send(Bytes::new(1500)), ms(1003));
        assert_eq!(link.free_at(ms(1003)), ms(1004));
    }

    #[test]
    fn skipping_finds_what_going_one_by_one_finds() {
        let trace = Trace::parse("t", b"0\n0\n3\n5\n5\n9\n").unwrap();
        for from in 0..40 {
            for to in from..60 {
                let after = Duration::from_millis(to);
                let mut skipping = trace.opportunities();
                skipping.skip_to(Duration::from_millis(from));
                skipping.skip_to(after);
                let expected = trace.opportunities().find(|(at, _)| *at >= after);
                assert_eq!(skipping.next(), expected, "{from} {to}");
            }
        }
    }

    #[test]
    fn what_is_no_trace_is_told_with_its_line() {
        assert_eq!(told(b""), format!("t: is empty; {REMEDY}"));
        assert_eq!(told(b"\n"), format!("t: is empty; {REMEDY}"));
        assert_eq!(
            told(b"1\nx\xff\n"),
            format!("t:2: \"x\u{fffd}\" is no whole number of milliseconds; {REMEDY}")
        );
        assert_eq!(told(b"1\n\n2\n"), format!("t:2: \"\" is no whole number of milliseconds; {REMEDY}"));
        assert_eq!(told(b"+1\n"), format!("t:1: \"+1\" is no whole number of milliseconds; {REMEDY}"));
        assert_eq!(told(b"1.5\n"), format!("t:1: \"1.5\" is no whole number of milliseconds; {REMEDY}"));
        assert_eq!(told(b"1\n-2\n"), format!("t:2: \"-2\" lies before the start; {REMEDY}"));
        assert_eq!(
            told(b"7\n5\n"),
            "t:2: 5 comes after 7; sort the numbers: each line is as late as the one above, or later"
        );
        for large in ["86400001", "4294967296", "99999999999999999999999"] {
            assert_eq!(
                told(large.as_bytes()),
                format!(
                    "t:1: \"{large}\" is more than 86400000, a day; shorten the trace: it repeats by itself"
                )
            );
        }
        assert_eq!(
            told(b"0\n0\n"),
            "t: ends at 0 ms and so has no period; end it with the milliseconds after which it repeats, such as 1000"
        );
        assert!(told(b"86400000\n").starts_with("t: gives 0bit/s on average; a link has 1kbit/s .. 1Tbit/s"));
        assert!(Trace::parse("t", b"12000\n").is_ok());
    }

    #[test]
    fn a_trace_is_bounded() {
        let mut text = b"1\n".repeat(MAX_TRACE_BYTES / 2 - 6);
        text.extend_from_slice(b"86400000\n");
        text.resize(MAX_TRACE_BYTES, b'\n');
        assert!(told(&text).contains("is no whole number"));
        text.push(b'\n');
        assert_eq!(told(&text), "t: has more than 33554432 bytes; shorten it: a trace repeats by itself");
        assert!(Trace::load(std::env::temp_dir()).unwrap_err().to_string().contains("not a regular file"));
        assert!(Trace::load("/nonexistent").unwrap_err().to_string().contains("cannot be read"));
    }
}
