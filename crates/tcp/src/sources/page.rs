//! Pages of objects that are loaded in parallel over one connection, as HTTP/2 and HTTP/3 do.
//!
//! The server lays the objects that were asked for into the stream of its connection in turns. With HTTP/2 a
//! reader gets that stream in order (RFC 9113 section 5), so that a lost packet keeps back all that follows;
//! with HTTP/3 each object is a stream of its own (RFC 9114 section 2), and only what was lost is missing. A
//! request travels with the acknowledgement that leaves when the reader has what it waited for.

use super::exponential;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_units::{Duration, Time};

/// Objects that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageObjects {
    /// How many. At least 1.
    pub count: u32,
    /// Bytes of each. At least 1.
    pub size: u64,
    /// Numbers of earlier entries, from 1, each once, that must be there before these are asked for.
    pub after: Vec<u32>,
    /// Time from their request's arrival at the server to the first byte that may leave.
    pub server: Duration,
}

/// What can be chosen about a reader.
#[derive(Clone, Debug)]
pub struct PageConfig {
    /// The objects of a page.
    pub objects: Vec<PageObjects>,
    /// Bytes of an object in its turn. At least 1.
    pub frame: u64,
    /// Mean time from the end of a page to the request of the next.
    pub think: Duration,
    /// Whether each object is a stream of its own (HTTP/3), or all share one (HTTP/2).
    pub streams: bool,
}

impl PageConfig {
    /// Bytes of a page.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|o| u64::from(o.count) * o.size).sum()
    }

    /// Requests that have to follow each other.
    pub fn depth(&self) -> u64 {
        self.longest(|_| 1)
    }

    /// How long requests that have to follow each other take at least, each a round trip and what the server
    /// takes.
    pub fn waiting(&self, rtt: Duration) -> Duration {
        Duration::from_nanos(self.longest(|objects| (rtt + objects.server).as_nanos()))
    }

    /// The largest sum along entries of which each waits for the one before.
    fn longest(&self, of: impl Fn(&PageObjects) -> u64) -> u64 {
        let mut sums: Vec<u64> = Vec::new();
        for objects in &self.objects {
            let before = objects.after.iter().filter_map(|entry| sums.get((*entry as usize).checked_sub(1)?));
            sums.push(before.max().copied().unwrap_or(0) + of(objects));
        }
        sums.into_iter().max().unwrap_or(0)
    }
}

/// A part of an object in the stream, up to the byte `end` of it.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    end: u64,
    object: u32,
}

/// What travels to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Request {
    /// The objects of an entry.
    Entry(u32),
    /// Nothing more: the page is there.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Thinking(Time),
    Loading,
}

/// A reader of pages, with the server that it reads from.
#[derive(Clone, Debug)]
pub struct Page {
    /// Shared with all readers of the same kind.
    config: Arc<PageConfig>,
    stage: Stage,
    start: Time,
    pages: u64,
    /// Server: bytes given to the connection; of these, bytes laid into the stream.
    written: u64,
    laid: u64,
    /// Objects of which something is left to lay, with how much; the first has its turn, with `turn` left
    /// of it.
    active: VecDeque<(u32, u64)>,
    turn: u64,
    /// Entries that were asked for, with the time at which the server has them.
    serving: Vec<(Time, u32)>,
    chunks: VecDeque<Chunk>,
    /// Where segments begin in the stream: number and byte. Between two of them segments are full.
    anchors: Vec<(u64, u64)>,
    payload: u64,
    /// Reader: bytes that are taken, in order, and segments that were seen, from `base` on.
    taken: u64,
    base: u64,
    seen: VecDeque<bool>,
    /// Number of the first object of each entry, with how many objects of it are missing.
    entries: Vec<(u32, u32)>,
    /// How many entries each entry waits for.
    awaits: Vec<u32>,
    /// Bytes of each object that are missing, with its entry.
    missing: Vec<(u64, u32)>,
    left: u32,
    asked: Vec<Request>,
    /// Requests on their way, with the number of their acknowledgement.
    travelling: VecDeque<(u32, Request)>,
    heard: Vec<Request>,
}

impl Page {
    /// A reader that asks for its first page at `start`, over segments of `payload` bytes.
    pub fn new(config: Arc<PageConfig>, payload: u32, start: Time) -> Page {
        Page {
            config,
            stage: Stage::Thinking(start),
            start,
            pages: 0,
            written: 0,
            laid: 0,
            active: VecDeque::new(),
            turn: 0,
            serving: Vec::new(),
            chunks: VecDeque::new(),
            anchors: Vec::new(),
            payload: payload.max(1).into(),
            taken: 0,
            base: 0,
            seen: VecDeque::new(),
            entries: Vec::new(),
            awaits: Vec::new(),
            missing: Vec::new(),
            left: 0,
            asked: Vec::new(),
            travelling: VecDeque::new(),
            heard: Vec::new(),
        }
    }

    /// When [`Page::poll`] has to be called; `None` while a page is loading and the server has all that was
    /// asked for.
    pub fn next_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Thinking(until) => Some(until),
            Stage::Loading => self.serving.iter().map(|(due, _)| *due).min(),
        }
    }

    /// Whether a page is loading.
    pub fn is_loading(&self) -> bool {
        self.stage == Stage::Loading
    }

    /// Pages loaded so far, when the one that is loading, or was loaded last, was requested, and its bytes.
    pub fn told(&self) -> (u64, Time, u64) {
        (self.pages, self.start, self.config.bytes())
    }

    /// The acknowledgement of this number reached the server; whether [`Page::poll`] has to be called.
    pub fn hears(&mut self, number: u32) -> bool {
        while let Some((at, request)) = self.travelling.front().copied() {
            if (number.wrapping_sub(at) as i32) < 0 {
                break;
            }
            self.travelling.pop_front();
            self.heard.push(request);
        }
        !self.heard.is_empty()
    }

    /// To be called when the time has come, and when something was heard. `segments` have left so far, and
    /// `unsent` bytes wait. Returns the bytes to write now.
    pub fn poll(
        &mut self,
        now: Time,
        segments: u64,
        unsent: u64,
        mut dice: impl FnMut() -> u64,
    ) -> Option<u64> {
        match self.stage {
            Stage::Thinking(until) if now < until => return None,
            Stage::Thinking(_) => {
                self.begin(now);
                self.heard.append(&mut self.asked);
            }
            Stage::Loading => {}
        }
        let mut bytes = 0;
        let heard = std::mem::take(&mut self.heard);
        let is_due = self.serving.iter().any(|(due, _)| *due <= now);
        if !heard.is_empty() || is_due {
            self.lay(self.written - unsent.min(self.written));
            if unsent == 0 {
                self.anchors.push((segments, self.written));
            }
        }
        if is_due {
            bytes += self.serve_due(now);
        }
        for request in &heard {
            match request {
                Request::Entry(entry) => match self.config.objects[*entry as usize].server {
                    Duration::ZERO => bytes += self.serve(*entry),
                    takes => self.serving.push((now + takes, *entry)),
                },
                Request::End => {
                    self.pages += 1;
                    self.stage = Stage::Thinking(now + exponential(self.config.think, dice()));
                }
            }
        }
        // The room is used again.
        self.heard = heard;
        self.heard.clear();
        self.written += bytes;
        (bytes > 0).then_some(bytes)
    }

    /// Makes everything ready for a page, and asks for what needs nothing before it.
    fn begin(&mut self, now: Time) {
        self.start = now;
        self.stage = Stage::Loading;
        self.chunks.clear();
        self.anchors.clear();
        self.missing.clear();
        self.entries.clear();
        self.awaits.clear();
        self.seen.clear();
        (self.taken, self.base) = (self.written, u64::MAX);
        for (number, objects) in self.config.objects.iter().enumerate() {
            self.entries.push((self.missing.len() as u32, objects.count));
            self.awaits.push(objects.after.len() as u32);
            let object = (objects.size, number as u32);
            self.missing.extend(std::iter::repeat_n(object, objects.count as usize));
        }
        self.left = self.missing.len() as u32;
        let first = self.awaits.iter().enumerate().filter(|(_, awaits)| **awaits == 0);
        self.asked.extend(first.map(|(entry, _)| Request::Entry(entry as u32)));
    }

    /// An entry, by its number from 1, is there: what waited for it alone is asked for.
    fn ask_after(&mut self, entry: u32) {
        for (number, objects) in self.config.objects.iter().enumerate() {
            if !objects.after.contains(&entry) {
                continue;
            }
            self.awaits[number] -= 1;
            if self.awaits[number] == 0 {
                self.asked.push(Request::Entry(number as u32));
            }
        }
    }

    /// The server has what it has by now, the earliest first; the bytes of that.
    fn serve_due(&mut self, now: Time) -> u64 {
        let mut bytes = 0;
        self.serving.sort_by_key(|(due, _)| *due);
        while let Some((_, entry)) = self.serving.first().copied().filter(|(due, _)| *due <= now) {
            self.serving.remove(0);
            bytes += self.serve(entry);
        }
        bytes
    }

    /// The server begins to send the objects of an entry; their bytes.
    fn serve(&mut self, entry: u32) -> u64 {
        let &PageObjects { count, size, .. } = &self.config.objects[entry as usize];
        let first = self.entries[entry as usize].0;
        if self.active.is_empty() {
            self.turn = self.config.frame.max(1);
        }
        self.active.extend((first..first + count).map(|object| (object, size)));
        u64::from(count) * size
    }

    /// Lays objects into the stream up to its byte `to`: what has left stays as it is.
    fn lay(&mut self, to: u64) {
        while self.laid < to {
            let Some((object, left)) = self.active.pop_front() else { break };
            let size = self.turn.min(left).min(to - self.laid);
            self.laid += size;
            self.turn -= size;
            match self.chunks.back_mut() {
                Some(last) if last.object == object => last.end = self.laid,
                _ => self.chunks.push_back(Chunk { end: self.laid, object }),
            }
            match (left - size, self.turn) {
                (0, _) => self.turn = self.config.frame.max(1),
                (left, 0) => {
                    self.active.push_back((object, left));
                    self.turn = self.config.frame.max(1);
                }
                (left, _) => self.active.push_front((object, left)),
            }
        }
    }

    /// A segment of `payload` bytes is at the reader, who has `in_order` bytes of the connection without a
    /// hole. Whether it asks for something: the acknowledgement that leaves now has to be told
    /// ([`Page::asks_with`]).
    pub fn arrives(&mut self, segment: u64, payload: u32, in_order: u64) -> bool {
        if self.stage != Stage::Loading {
            return false;
        }
        if self.config.streams {
            self.takes_segment(segment, payload.into());
        } else {
            self.takes_in_order(in_order);
        }
        !self.asked.is_empty()
    }

    /// The requests leave with the acknowledgement of this number.
    pub fn asks_with(&mut self, number: u32) {
        self.travelling.extend(self.asked.drain(..).map(|request| (number, request)));
    }

    fn takes_in_order(&mut self, in_order: u64) {
        self.lay(in_order);
        while self.taken < in_order {
            let Some(chunk) = self.chunks.front().copied() else { break };
            let upto = chunk.end.min(in_order);
            let size = upto - self.taken;
            self.taken = upto;
            if upto == chunk.end {
                self.chunks.pop_front();
            }
            self.takes(chunk.object, size);
        }
    }

    fn takes_segment(&mut self, segment: u64, payload: u64) {
        if self.base == u64::MAX {
            self.base = self.anchors.first().map_or(segment, |anchor| anchor.0);
        }
        let Some(place) = segment.checked_sub(self.base) else { return };
        let place = place as usize;
        if self.seen.len() <= place {
            self.seen.resize(place + 1, false);
        }
        if std::mem::replace(&mut self.seen[place], true) {
            return;
        }
        let after = self.anchors.partition_point(|(number, _)| *number <= segment);
        let Some((number, byte)) = after.checked_sub(1).and_then(|i| self.anchors.get(i)) else { return };
        let mut from = byte + (segment - number) * self.payload;
        let end = from + payload;
        self.lay(end);
        let mut i = self.chunks.partition_point(|chunk| chunk.end <= from);
        while from < end {
            let Some(chunk) = self.chunks.get(i).copied() else { break };
            let upto = chunk.end.min(end);
            self.takes(chunk.object, upto - from);
            from = upto;
            i += 1;
        }
    }

    /// So many bytes of an object are there that were not before.
    fn takes(&mut self, object: u32, bytes: u64) {
        let (missing, entry) = &mut self.missing[object as usize];
        *missing = missing.saturating_sub(bytes);
        if *missing > 0 {
            return;
        }
        let entry = *entry;
        let objects = &mut self.entries[entry as usize].1;
        *objects -= 1;
        if *objects == 0 {
            self.ask_after(entry + 1);
        }
        self.left -= 1;
        if self.left == 0 {
            self.asked.push(Request::End);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: u32 = 1000;

    fn of(count: u32, size: u64, after: &[u32]) -> PageObjects {
        PageObjects { count, size, after: after.to_vec(), server: Duration::ZERO }
    }

    fn config(streams: bool) -> PageConfig {
        let objects = vec![of(1, 1500, &[]), of(2, 3000, &[1]), of(1, 500, &[2])];
        PageConfig { objects, frame: 1000, think: Duration::from_secs(1), streams }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// A page whose document is there: the two objects of the second entry are on their way in six segments.
    fn loading(streams: bool) -> Page {
        let mut page = Page::new(Arc::new(config(streams)), PAYLOAD, at(0));
        assert_eq!(page.poll(at(0), 0, 0, || 1), Some(1500));
        assert!(!page.arrives(0, 1000, 1000) && page.arrives(1, 500, 1500));
        page.asks_with(7);
        assert!(!page.hears(6) && page.hears(7));
        assert_eq!(page.poll(at(10), 2, 0, || 1), Some(6000));
        page
    }

    #[test]
    fn objects_take_turns_and_a_page_ends_with_the_last() {
        for streams in [false, true] {
            let mut page = loading(streams);
            // In turns of 1000 bytes: a b a b a b. Nothing is complete before the fifth.
            for n in 0..5 {
                assert!(!page.arrives(2 + n, 1000, 1500 + 1000 * (n + 1)), "{n}");
            }
            assert!(page.arrives(7, 1000, 7500));
            page.asks_with(8);
            assert!(page.hears(8));
            assert_eq!(page.poll(at(20), 8, 0, || 1), Some(500));
            assert!(page.arrives(8, 500, 8000) && page.is_loading());
            page.asks_with(9);
            assert!(page.hears(10) && page.poll(at(30), 9, 0, || u64::MAX).is_none());
            assert_eq!((page.told(), page.is_loading()), ((1, at(0), 8000), false));
            assert_eq!(page.next_timeout(), Some(at(30)));
            // The next page begins where the stream is.
            assert_eq!(page.poll(at(30), 9, 0, || 1), Some(1500));
            assert!(!page.arrives(9, 1000, 9000) && page.arrives(10, 500, 9500));
        }
        assert_eq!((config(true).depth(), config(true).bytes()), (3, 8000));
    }

    #[test]
    fn a_lost_segment_holds_back_what_follows_it_only_in_one_stream() {
        // The first segment of b is lost; a is there with the fifth.
        let done = |streams: bool| {
            let mut page = loading(streams);
            // In order no more than 2500 bytes are there.
            [2, 4, 5, 6, 7].map(|n| {
                page.arrives(n, 1000, 2500);
                page.missing[1].0
            })
        };
        assert_eq!(done(true), [2000, 1000, 1000, 0, 0]);
        assert_eq!(done(false), [2000; 5]);
        // It comes again: both complete at once.
        let mut page = loading(false);
        assert!(!page.arrives(2, 1000, 2500) && page.arrives(3, 1000, 7500));
        // A second copy says nothing new.
        let mut page = loading(true);
        page.arrives(2, 1000, 2500);
        page.arrives(2, 1000, 2500);
        assert_eq!(page.missing[1].0, 2000);
    }

    #[test]
    fn what_has_left_stays_where_it_is_when_more_is_asked_for() {
        let objects = vec![of(1, 1000, &[]), of(1, 9000, &[]), of(1, 2000, &[1])];
        let config = PageConfig { objects, frame: 1000, think: Duration::ZERO, streams: false };
        let mut page = Page::new(Arc::new(config), PAYLOAD, at(0));
        assert_eq!(page.poll(at(0), 0, 0, || 1), Some(10_000));
        assert!(page.arrives(0, 1000, 1000));
        page.asks_with(1);
        page.hears(1);
        // Four segments have left when the third object is asked for: it has every second turn from then on.
        assert_eq!(page.poll(at(1), 4, 6000, || 1), Some(2000));
        for n in 1..12u64 {
            page.arrives(n, 1000, 1000 * (n + 1));
            let third = page.missing[2].0;
            assert_eq!(
                third,
                if n < 5 {
                    2000
                } else if n < 7 {
                    1000
                } else {
                    0
                },
                "{n}"
            );
        }
        assert_eq!(page.asked, [Request::End]);
    }

    #[test]
    fn an_object_waits_for_all_that_it_names_and_for_the_server() {
        let ms = Duration::from_millis;
        let slow = |server, objects| PageObjects { server, ..objects };
        let objects = vec![
            slow(ms(20), of(1, 1000, &[])),
            of(1, 1000, &[1]),
            slow(ms(5), of(1, 1000, &[1])),
            slow(ms(7), of(1, 1000, &[2, 3])),
        ];
        let config = PageConfig { objects, frame: 1000, think: Duration::ZERO, streams: false };
        // Document, third, fourth: three round trips and all that the server takes for these.
        assert_eq!((config.depth(), config.waiting(ms(10))), (3, ms(62)));
        let mut page = Page::new(Arc::new(config), PAYLOAD, at(0));
        assert_eq!(page.poll(at(0), 0, 0, || 1), None);
        assert_eq!(page.next_timeout(), Some(at(20)));
        assert_eq!((page.poll(at(19), 0, 0, || 1), page.poll(at(20), 0, 0, || 1)), (None, Some(1000)));
        assert_eq!(page.next_timeout(), None);
        assert!(page.arrives(0, 1000, 1000));
        page.asks_with(1);
        assert!(page.hears(1));
        // The second is there at once, the third when the server has it.
        assert_eq!(page.poll(at(30), 1, 0, || 1), Some(1000));
        assert_eq!(page.next_timeout(), Some(at(35)));
        assert!(!page.arrives(1, 1000, 2000));
        assert_eq!(page.poll(at(35), 2, 0, || 1), Some(1000));
        // Only with both there the fourth is asked for.
        assert!(page.arrives(2, 1000, 3000));
        assert_eq!(page.asked, [Request::Entry(3)]);
        page.asks_with(2);
        assert!(page.hears(2));
        assert_eq!((page.poll(at(40), 3, 0, || 1), page.next_timeout()), (None, Some(at(47))));
        assert_eq!(page.poll(at(47), 3, 0, || 1), Some(1000));
        assert!(page.arrives(3, 1000, 4000));
        assert_eq!(page.asked, [Request::End]);
    }
}
