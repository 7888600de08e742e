//! Real-time video: an encoder whose rate SCReAM chooses (RFC 8298), its packets, and the reports of the host
//! that shows it (RFC 8888). A frame with a lost packet is lost: nothing is sent again.

mod history;
mod scream;

pub use scream::{Scream, ScreamConfig};

use super::uniform;
use crate::Segment;
use scream::Heard;
use std::collections::VecDeque;
use weir_sense::{Came, Recent};
use weir_units::{Duration, Ecn, Time};

/// What can be chosen about real-time video.
#[derive(Clone, Debug)]
pub struct RealtimeConfig {
    /// Time from one frame to the next.
    pub frame: Duration,
    /// Standard deviation of the size of a frame as a share of its mean: the sizes have a Laplace
    /// distribution (RFC 8593, section 5.3).
    pub spread: f64,
    /// Bytes of video in a packet at the most.
    pub payload: u32,
    /// Frames that have waited this long in the sending host are discarded (RFC 8298, section 4.1.3).
    pub give_up: Duration,
    /// The congestion control.
    pub scream: ScreamConfig,
    /// The ECN field of packets.
    pub ecn: Ecn,
}

/// Bytes of an RTP header (RFC 3550, section 5.1).
const RTP: u32 = 12;
/// Frames are between these shares of the mean.
const SMALLEST: f64 = 0.25;
const LARGEST: f64 = 2.0;
/// With nothing acknowledged for this long, a packet leaves each time it passes again, window or not: of an
/// outage no report tells, and the RFC does not say how it ends.
const SILENCE: Duration = Duration::from_millis(500);
/// Reports that the next one repeats (RFC 8888, section 3: they may overlap).
const REPEATED: u32 = 3;
/// A frame that has not arrived when the run ends is lost if it is older than this.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// A frame: when it was made, and when all of it had arrived; `None` if it never does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// When it was made.
    pub made: Time,
    /// When its last packet arrived.
    pub arrived: Option<Time>,
    /// Bytes of video.
    pub bytes: u32,
}

/// A report on its way back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// Its number, from 0.
    pub number: u32,
    /// Packets that it tells of.
    pub packets: u32,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    made: Time,
    bytes: u32,
    /// Bytes that have not left, and packets that have not arrived.
    unsent: u32,
    missing: u32,
    discarded: bool,
}

impl Frame {
    fn fate(&self, arrived: Option<Time>) -> Fate {
        Fate { made: self.made, arrived, bytes: self.bytes }
    }
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    /// Bytes of all packets up to this one.
    total: u64,
    frame: u64,
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    seq: u64,
    at: Time,
    marked: bool,
}

/// Both ends of real-time video.
#[derive(Clone, Debug)]
pub struct Realtime {
    config: RealtimeConfig,
    scream: Scream,
    next_frame: Time,
    next_packet: Time,
    /// Frames that are not yet judged; the first has the number `first_frame`.
    frames: VecDeque<Frame>,
    first_frame: u64,
    /// Number of the frame that leaves next.
    leaving: u64,
    waiting: u64,
    /// Packets from the first that is not acknowledged, with the number `acked`, on.
    sent: VecDeque<Sent>,
    acked: u64,
    acked_bytes: u64,
    sent_bytes: u64,
    /// When something was acknowledged last, or sent in spite of the window.
    heard: Time,
    viewer: Viewer,
}

/// The host that shows the video.
#[derive(Clone, Debug)]
struct Viewer {
    /// Numbers of the packets that came.
    numbers: Recent,
    /// What arrived, of reports from `oldest` on and for the next one.
    arrivals: VecDeque<Arrival>,
    /// Of the reports from `oldest` on, how many arrivals are theirs and when they left.
    reports: VecDeque<(u32, Time)>,
    oldest: u32,
    /// Arrivals of the reports before, the newest first.
    before: [u32; REPEATED as usize],
    /// Arrivals and bytes that no report tells yet.
    untold: u32,
    bytes: u64,
    last: Time,
    due: Option<Time>,
    /// Rate of the media as the viewer sees it, in bit/s.
    rate: f64,
}

impl Viewer {
    /// RFC 8298, section 4.2.2.
    fn interval(&self) -> Duration {
        let per_second = (self.rate / 10_000.0).clamp(2.5, 50.0);
        Duration::from_secs(1).mul_f64(1.0 / per_second)
    }
}

impl Realtime {
    /// Begins at `start`.
    pub fn new(config: RealtimeConfig, start: Time) -> Realtime {
        let scream = Scream::new(&config.scream, config.payload + RTP, start);
        let viewer = Viewer {
            numbers: Recent::default(),
            arrivals: VecDeque::new(),
            reports: VecDeque::new(),
            oldest: 0,
            before: [0; REPEATED as usize],
            untold: 0,
            bytes: 0,
            last: start,
            due: None,
            rate: config.scream.rate.0,
        };
        Realtime {
            scream,
            next_frame: start,
            next_packet: start,
            frames: VecDeque::new(),
            first_frame: 0,
            leaving: 0,
            waiting: 0,
            sent: VecDeque::new(),
            acked: 0,
            acked_bytes: 0,
            sent_bytes: 0,
            heard: start,
            viewer,
            config,
        }
    }

    /// The congestion control.
    pub fn scream(&self) -> &Scream {
        &self.scream
    }

    fn in_flight(&self) -> u64 {
        self.sent_bytes - self.acked_bytes
    }

    /// The frame that leaves, and the size of its next packet.
    fn packet(&self) -> Option<u32> {
        let frame = self.frames.get((self.leaving - self.first_frame) as usize)?;
        Some(frame.unsent.min(self.config.payload) + RTP)
    }

    /// When the sending side wants to be called.
    pub fn next_timeout(&self) -> Time {
        let next = self.next_frame.min(self.scream.next_adjustment());
        let Some(size) = self.packet() else { return next };
        let free = self.scream.lets_out(self.in_flight(), size);
        next.min(if free { self.next_packet } else { self.heard + SILENCE })
    }

    /// The packet that leaves now, if any. To be called again until there is none.
    pub fn poll(&mut self, now: Time, mut bits: impl FnMut() -> u64) -> Option<Segment> {
        while self.next_frame <= now {
            self.makes_frame(self.next_frame, bits());
            self.next_frame += self.config.frame;
        }
        self.discards(now);
        if self.scream.next_adjustment() <= now {
            self.scream.adjusts_rate(now, self.waiting);
        }
        let size = self.packet()?;
        let in_flight = self.in_flight();
        if self.scream.lets_out(in_flight, size) {
            if self.next_packet > now {
                return None;
            }
        } else if self.heard + SILENCE > now {
            return None;
        } else {
            self.heard = now;
        }
        let payload = size - RTP;
        let frame = &mut self.frames[(self.leaving - self.first_frame) as usize];
        frame.unsent -= payload;
        self.waiting -= u64::from(payload);
        self.sent_bytes += u64::from(size);
        let seq = self.acked + self.sent.len() as u64;
        self.sent.push_back(Sent { at: now, total: self.sent_bytes, frame: self.leaving });
        self.leaving += u64::from(frame.unsent == 0);
        self.scream.on_sent(now, size, self.in_flight());
        self.next_packet = now + self.scream.pace(size);
        let ecn = self.config.ecn;
        Some(Segment { seq, sent: now, payload: size, ecn, retransmission: false, cwr: false, spin: false })
    }

    fn makes_frame(&mut self, at: Time, bits: u64) {
        // The quantile of a Laplace distribution of that deviation.
        let v = uniform(bits) - 0.5;
        let laplace = -libm::log(1.0 - 2.0 * v.abs().min(0.5 - 1e-12)) * v.signum();
        let factor =
            (1.0 + self.config.spread * laplace / core::f64::consts::SQRT_2).clamp(SMALLEST, LARGEST);
        let bytes = self.scream.target_bitrate() / 8.0 * self.config.frame.as_secs_f64() * factor;
        let bytes = (bytes as u32).max(1);
        let missing = bytes.div_ceil(self.config.payload);
        self.frames.push_back(Frame { made: at, bytes, unsent: bytes, missing, discarded: false });
        self.waiting += u64::from(bytes);
        self.scream.on_frame(u64::from(bytes));
    }

    /// Frames that waited too long are not sent, or not to their end.
    fn discards(&mut self, now: Time) {
        while let Some(frame) = self.frames.get_mut((self.leaving - self.first_frame) as usize) {
            if now.since(frame.made) < self.config.give_up {
                return;
            }
            self.waiting -= u64::from(frame.unsent);
            (frame.unsent, frame.discarded) = (0, true);
            self.leaving += 1;
        }
    }

    /// A packet arrives. A frame before its own is taken for complete or lost, and each frame that is one of
    /// these is told. A packet that was overtaken by others of its frame can complete it; to the congestion
    /// control it is lost, as it is told in no report.
    pub fn arrives(&mut self, at: Time, segment: &Segment, mut judge: impl FnMut(Fate)) {
        let Some(sent) = segment.seq.checked_sub(self.acked).and_then(|i| self.sent.get(i as usize)) else {
            return;
        };
        let came = self.viewer.numbers.note(segment.seq);
        if matches!(came, Came::Again | Came::Forgotten) {
            return;
        }
        while self.first_frame < sent.frame
            && let Some(frame) = self.frames.pop_front()
        {
            self.first_frame += 1;
            judge(frame.fate(None));
        }
        if let Some(frame) = self.frames.front_mut().filter(|_| self.first_frame == sent.frame) {
            frame.missing -= 1;
            if frame.missing == 0 {
                judge(frame.fate(Some(at)));
                self.frames.pop_front();
                self.first_frame += 1;
            }
        }
        if came == Came::Overtaken {
            return;
        }
        let viewer = &mut self.viewer;
        viewer.arrivals.push_back(Arrival { seq: segment.seq, at, marked: segment.ecn == Ecn::Ce });
        viewer.untold += 1;
        viewer.bytes += u64::from(segment.payload);
        let due = (viewer.last + viewer.interval()).max(at);
        viewer.due.get_or_insert(due);
    }

    /// When the next report is due; `None` while there is nothing to report.
    pub fn report_due(&self) -> Option<Time> {
        self.viewer.due
    }

    /// The report that leaves at `at`. It tells of what the three before told, too, so that these may be
    /// lost.
    pub fn report(&mut self, at: Time) -> Told {
        let viewer = &mut self.viewer;
        let length = at.since(viewer.last).as_secs_f64().max(1e-3);
        let rate = viewer.bytes as f64 * 8.0 / length;
        viewer.rate += (rate - viewer.rate) * length.min(1.0);
        viewer.reports.push_back((viewer.untold, at));
        let number = viewer.oldest + viewer.reports.len() as u32 - 1;
        let packets = viewer.before.iter().sum::<u32>() + viewer.untold;
        viewer.before.rotate_right(1);
        (viewer.before[0], viewer.untold, viewer.bytes) = (viewer.untold, 0, 0);
        (viewer.last, viewer.due) = (at, None);
        Told { number, packets }
    }

    /// The report of this number comes.
    pub fn on_report(&mut self, now: Time, number: u32) {
        let viewer = &mut self.viewer;
        if number < viewer.oldest {
            return;
        }
        let mut heard = Heard::default();
        let (mut next, mut newest) = (self.acked, None);
        let mut left = now;
        for report in viewer.oldest..=number {
            let Some((packets, at)) = viewer.reports.pop_front() else { break };
            left = at;
            for arrival in viewer.arrivals.drain(..packets as usize) {
                // Older reports than those that are repeated are lost with what they told.
                if report + REPEATED < number {
                    continue;
                }
                heard.lost |= arrival.seq > next;
                heard.marked |= arrival.marked;
                next = arrival.seq + 1;
                let index = (arrival.seq - self.acked) as usize;
                let before = index.checked_sub(1).map_or(self.acked_bytes, |i| self.sent[i].total);
                heard.received += self.sent[index].total - before;
                newest = Some(arrival);
            }
        }
        viewer.oldest = number + 1;
        let Some(newest) = newest else { return };
        let packet = self.sent[(newest.seq - self.acked) as usize];
        heard.one_way = newest.at.since(packet.at);
        heard.rtt = now.since(packet.at).saturating_sub(left.since(newest.at));
        heard.newly_acked = packet.total - self.acked_bytes;
        self.sent.drain(..(next - self.acked) as usize);
        (self.acked, self.acked_bytes, self.heard) = (next, packet.total, now);
        heard.in_flight = self.in_flight();
        self.scream.on_report(now, &heard);
    }

    /// The run ends: what is left and can be told to be lost.
    pub fn ends(&mut self, at: Time, mut judge: impl FnMut(Fate)) {
        for frame in self.frames.drain(..) {
            if frame.discarded || at.since(frame.made) > GIVEN_UP {
                judge(frame.fate(None));
            }
        }
    }
}

#[cfg(test)]
mod tests;
