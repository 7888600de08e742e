//! Applications whose results are what a user notices: voice, games, video, pages of parallel objects.

use crate::errors::Wrong;
use crate::from_file::FromFile;
use crate::page_file::{DescribedPage, PageObject};
use crate::problems::Problems;
use crate::schema::{Check, Here, Range, Scalar, absent, list, or, such, within, wrong_type};
use crate::tree::Node;
use weir_aqm::Share;
use weir_units::{Bytes, Duration, Rate, parse_bytes};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const FASTEST: Rate = Rate::from_bps(1_000_000_000);

choices! {
    /// How speech is coded, with what concealment of lost packets.
    pub enum Codec {
        /// G.711 with packet-loss concealment (its Appendix I).
        G711 = "g711",
        /// G.711 that plays silence for what is lost.
        G711Bare = "g711_bare",
        /// G.729 Annex A with voice activity detection, 8 kbit/s.
        G729 = "g729a",
        /// GSM enhanced full rate, 12.2 kbit/s.
        GsmEfr = "gsm_efr",
    }
}

/// What ITU-T G.113 (Appendix I, tables I.1 and I.4) says of a codec, and how it makes packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CodecFacts {
    /// Rate of the coded speech.
    pub rate: Rate,
    /// Length of a frame; packets hold whole ones.
    pub frame: Duration,
    /// How far it looks ahead of a frame.
    pub ahead: Duration,
    /// Equipment impairment factor `Ie`.
    pub ie: f64,
    /// Packet-loss robustness factor `Bpl`.
    pub bpl: f64,
}

impl Codec {
    /// What is published of it.
    pub fn facts(self) -> CodecFacts {
        let (bps, frame_ms, ahead_ms, ie, bpl) = match self {
            Codec::G711 => (64_000, 10, 0, 0.0, 25.1),
            Codec::G711Bare => (64_000, 10, 0, 0.0, 4.3),
            Codec::G729 => (8_000, 10, 5, 11.0, 19.0),
            Codec::GsmEfr => (12_200, 20, 0, 5.0, 10.0),
        };
        let ms = Duration::from_millis;
        CodecFacts { rate: Rate::from_bps(bps), frame: ms(frame_ms), ahead: ms(ahead_ms), ie, bpl }
    }
}

section! {
    /// One way of a call: packets of speech at equal distances.
    pub struct Voice {
        /// The codec: "g711" conceals lost packets, "g711_bare" does not; "g729a", "gsm_efr". Opus has no
        /// factors of the narrow-band E-model.
        codec: Codec = or(Codec::G711, Range::Any);
        /// Speech in a packet, whole frames of the codec: 160 bytes of G.711 in 20 ms.
        packet_time: Duration = or(Duration::from_millis(20), within(Duration::from_millis(10), Duration::from_millis(120)));
        /// Play-out buffer: a packet that comes later than this after the fastest of the last 5 to 10 s
        /// would have come is too late to be played, and counts as lost.
        playout: Duration = or(Duration::from_millis(60), within(Duration::ZERO, SECOND));
    }
}

// The macro derives what every table needs; these are small enough to be copied.
impl Copy for Voice {}

impl Check for Voice {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        let frame = self.codec.facts().frame;
        if !self.packet_time.as_nanos().is_multiple_of(frame.as_nanos()) {
            let problem = format!("{} is no multiple of the codec's frame, {frame}", self.packet_time);
            here.wrong(p, "packet_time", problem, "give 20ms, 40ms or 60ms");
        }
    }
}

impl Voice {
    /// Bytes of speech in a packet, with the 12 of the RTP header (RFC 3550).
    pub fn payload(&self) -> u64 {
        let nanos = self.packet_time.as_nanos() * self.codec.facts().rate.as_bps();
        nanos.div_ceil(8 * 1_000_000_000) + 12
    }

    /// From mouth to network, and from network to ear but for the play-out buffer: the packet is filled
    /// first.
    pub fn coding_delay(&self) -> Duration {
        self.packet_time + self.codec.facts().ahead
    }
}

choices! {
    /// A side of a game.
    pub enum GameSide {
        /// The server, which tells each player what happened.
        Server = "server",
        /// A player's host, which tells the server what its player does.
        Client = "client",
    }
}

section! {
    /// One way between a game server and a player: small datagrams at equal distances.
    pub struct Game {
        /// Who sends: "server" snapshots of 130 bytes each 33 ms, "client" commands of 40 bytes 40 times a
        /// second (sizes of Counter-Strike: Feng, Chang, Feng, Walpole 2005, section III).
        sends: GameSide = or(GameSide::Server, Range::Any);
        /// Time from one datagram to the next.
        interval: Option<Duration> = absent("33ms of the server, 25ms of a client", within(MILLISECOND, SECOND));
        /// Payload of a datagram.
        payload: Option<Bytes> = absent("130B of the server, 40B of a client", within(Bytes::new(16), Bytes::new(1400)));
        /// Datagrams that were longer on their way are told apart. Players of fast games notice 100 ms
        /// there and back (Claypool and Claypool 2006).
        late: Duration = or(Duration::from_millis(50), within(MILLISECOND, Duration::from_secs(10)));
    }
}

impl Copy for Game {}
impl Check for Game {}

impl Game {
    /// Time from one datagram to the next.
    pub fn interval(&self) -> Duration {
        let usual = match self.sends {
            GameSide::Server => Duration::from_millis(33),
            GameSide::Client => Duration::from_millis(25),
        };
        self.interval.unwrap_or(usual)
    }

    /// Bytes of a datagram.
    pub fn payload(&self) -> u64 {
        let usual = match self.sends {
            GameSide::Server => 130,
            GameSide::Client => 40,
        };
        self.payload.map_or(usual, Bytes::get)
    }
}

/// Rates of Netflix's fixed ladder in kbit/s (Aaron et al., "Per-Title Encode Optimization", 2015).
const LADDER: [u64; 10] = [235, 375, 560, 750, 1050, 1750, 2350, 3000, 4300, 5800];
/// Shares of the buffer that Huang et al. use, 90 s and 126 s of 240 s.
const RESERVOIR: f64 = 90.0 / 240.0;
const CUSHION: f64 = 126.0 / 240.0;

section! {
    /// A player of video that loads segments one after the other and chooses the rate of each by its
    /// buffer: BBA-0 of Huang et al., "A Buffer-Based Approach to Rate Adaptation", SIGCOMM 2014.
    pub struct Video {
        /// Video in a segment.
        segment: Duration = or(Duration::from_secs(4), within(Duration::from_millis(100), Duration::from_secs(60)));
        /// The rates there are, rising.
        ladder: Vec<Rate> = list("[\"235kbit/s\", \"375kbit/s\", \"560kbit/s\", \"750kbit/s\", \"1050kbit/s\", \
            \"1750kbit/s\", \"2350kbit/s\", \"3Mbit/s\", \"4300kbit/s\", \"5800kbit/s\"]", 64,
            within(Rate::from_bps(1_000), Rate::from_bps(1_000_000_000_000)));
        /// Video that the buffer holds at most; the next segment is asked for when there is room for it.
        buffer: Duration = or(Duration::from_secs(240), within(SECOND, HOUR));
        /// With so much or less in the buffer the lowest rate is chosen.
        reservoir: Option<Duration> = absent("3/8 of `buffer`", within(Duration::ZERO, HOUR));
        /// Above the reservoir the rate rises over so much of the buffer, linearly, to the highest.
        cushion: Option<Duration> = absent("21/40 of `buffer`, at most what leaves room for a segment", within(MILLISECOND, HOUR));
        /// Play begins, and goes on after a stall, with so much in the buffer.
        play_at: Option<Duration> = absent("one `segment`", within(Duration::ZERO, HOUR));
    }
}

impl Check for Video {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.ladder.windows(2).any(|pair| pair[0] >= pair[1]) {
            here.wrong(p, "ladder", "does not rise", "give each rate once, the lowest first");
        }
        if self.buffer < self.segment + self.segment {
            let problem = format!("{} does not hold two segments of {}", self.buffer, self.segment);
            here.wrong(p, "buffer", problem, "give a larger buffer, or shorter segments");
        }
        // A segment is asked for when there is room for it: above that level nothing is chosen.
        let (full, most) = (self.reservoir() + self.cushion(), self.buffer.saturating_sub(self.segment));
        if full > most || self.cushion() == Duration::ZERO {
            let problem =
                format!("is {full} with the reservoir, and segments are chosen with {most} at the most");
            here.wrong(p, "cushion", problem, "give less of the two, or a larger buffer");
        }
        if self.play_at() + self.segment > self.buffer {
            let problem = format!("{} is never reached: the last segment must fit", self.play_at());
            here.wrong(p, "play_at", problem, "give less, or a larger buffer");
        }
    }
}

impl Video {
    /// The rates, rising.
    pub fn rates(&self) -> Vec<Rate> {
        if self.ladder.is_empty() {
            return LADDER.iter().map(|kbps| Rate::from_bps(kbps * 1000)).collect();
        }
        self.ladder.clone()
    }

    /// Up to where the lowest rate is chosen.
    pub fn reservoir(&self) -> Duration {
        self.reservoir.unwrap_or(self.buffer.mul_f64(RESERVOIR))
    }

    /// Over how much of the buffer the rate rises.
    pub fn cushion(&self) -> Duration {
        let room = self.buffer.saturating_sub(self.segment).saturating_sub(self.reservoir());
        self.cushion.unwrap_or(self.buffer.mul_f64(CUSHION).min(room))
    }

    /// With how much in the buffer play begins.
    pub fn play_at(&self) -> Duration {
        self.play_at.unwrap_or(self.segment)
    }
}

section! {
    /// One way of real-time video: a camera whose encoder has the rate that SCReAM (RFC 8298) gives it.
    pub struct Realtime {
        /// Frames in a second.
        frame_rate: u32 = or(30, within(1, 240));
        /// Lowest rate of the encoder (`TARGET_BITRATE_MIN`); it begins with it.
        rate_min: Rate = or(Rate::from_bps(150_000), within(Rate::from_bps(10_000), FASTEST));
        /// Highest rate of the encoder (`TARGET_BITRATE_MAX`).
        rate_max: Rate = or(Rate::from_bps(2_500_000), within(Rate::from_bps(10_000), FASTEST));
        /// Queueing delay that it aims at (`QDELAY_TARGET_LO`).
        delay_target: Duration = or(Duration::from_millis(100), within(MILLISECOND, SECOND));
        /// How far that rises beside flows that fill the queue (`QDELAY_TARGET_HI`).
        delay_target_max: Duration = or(Duration::from_millis(400), within(MILLISECOND, Duration::from_secs(10)));
        /// By how much the rate rises in a second at the most (`RAMP_UP_SPEED`).
        ramp_up: Rate = or(Rate::from_bps(200_000), within(Rate::from_bps(1_000), FASTEST));
        /// Standard deviation of the size of a frame as a share of the mean. Sizes have a Laplace
        /// distribution (RFC 8593, section 5.3) between a quarter and twice the mean.
        spread: Share = or(Share(0.15), within(Share(0.0), Share(1.0)));
        /// Video in a packet at the most; the RTP header has 12 bytes more.
        payload: Bytes = or(Bytes::new(1188), within(Bytes::new(100), Bytes::new(1400)));
        /// Frames that come later than this after they were made are told apart. Beyond 150 ms one way
        /// conversation begins to suffer (ITU-T G.114).
        late: Duration = or(Duration::from_millis(150), within(MILLISECOND, Duration::from_secs(10)));
        /// Frames that have waited this long in the sending host are discarded.
        give_up: Duration = or(Duration::from_millis(500), within(Duration::from_millis(10), Duration::from_secs(10)));
    }
}

impl Copy for Realtime {}

impl Check for Realtime {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.rate_max < self.rate_min {
            let problem = format!("{} is less than `rate_min`, {}", self.rate_max, self.rate_min);
            here.wrong(p, "rate_max", problem, "give a higher one, or a lower `rate_min`");
        }
        if self.delay_target_max < self.delay_target {
            let problem =
                format!("{} is less than `delay_target`, {}", self.delay_target_max, self.delay_target);
            here.wrong(p, "delay_target_max", problem, "give more; equal ones do not rise");
        }
    }
}

impl Realtime {
    /// Bytes of the largest packet, with the 12 of the RTP header (RFC 3550).
    pub fn packet(&self) -> u64 {
        self.payload.get() + 12
    }

    /// Time from one frame to the next.
    pub fn frame(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / u64::from(self.frame_rate.max(1)))
    }
}

/// Objects of a page that are alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Objects {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub size: u64,
    /// Number of the entry, from 1, all of whose objects must be there before these are asked for; 0 for
    /// those that are asked for at once.
    pub after: u32,
}

impl Scalar for Objects {
    fn kind() -> String {
        "objects such as \"30kB\" or \"12 x 25kB after 1\"".to_string()
    }
    fn read(node: &Node) -> Result<Self, Wrong> {
        let Node::Text(text) = node else { return Err(wrong_type::<Self>(node)) };
        let no_form = || {
            let problem = format!("\"{}\" is no number, size and entry", text.escape_default());
            Wrong::new(problem, format!("write {}", Self::kind()))
        };
        let (objects, after) = match text.split_once(" after ") {
            None => (text.as_str(), 0),
            Some((objects, after)) => {
                (objects, after.trim().parse().ok().filter(|n| *n > 0).ok_or_else(no_form)?)
            }
        };
        let (count, size) = match objects.split_once(" x ") {
            None => (1, objects),
            Some((count, size)) => (count.trim().parse().map_err(|_| no_form())?, size),
        };
        let size = parse_bytes(size.trim()).map_err(|_| no_form())?.get();
        Ok(Objects { count, size, after })
    }
    fn show(&self) -> String {
        let count = if self.count == 1 { String::new() } else { format!("{} x ", self.count) };
        let after = if self.after == 0 { String::new() } else { format!(" after {}", self.after) };
        format!("{count}{}{after}", Bytes::new(self.size))
    }
}

/// A page where none is written: of the size and number of objects that is usual.
const PAGE: [Objects; 4] = [
    Objects { count: 1, size: 30_000, after: 0 },
    Objects { count: 10, size: 40_000, after: 1 },
    Objects { count: 30, size: 20_000, after: 1 },
    Objects { count: 20, size: 30_000, after: 2 },
];

section! {
    /// Pages of objects that are loaded in parallel over one connection: HTTP/2, or with `protocol =
    /// "quic"` HTTP/3.
    pub struct Page {
        /// The objects: how many, of which size, and after which entry of this list (from 1) they are asked
        /// for: the document "30kB", "10 x 40kB after 1" that it names, and so on.
        objects: Vec<Objects> = list("[\"30kB\", \"10 x 40kB after 1\", \"30 x 20kB after 1\", \"20 x 30kB after 2\"]",
            1000, such("1 .. 1000 objects, 1B .. 1GB each",
            |o: &Objects| (1..=1000).contains(&o.count) && (1..=1_000_000_000).contains(&o.size)));
        /// A file that describes the page, in place of `objects`: by name, with what waits for what, and the
        /// time that the server takes (docs/page-file.md). The path starts at the folder of this file.
        file: Option<DescribedPage> = FromFile;
        /// Objects that were asked for take turns with so much of each, in the order in which they were
        /// asked for.
        frame: Bytes = or(Bytes::new(16_384), within(Bytes::new(100), Bytes::new(1_000_000_000)));
        /// Mean time from the end of a page to the start of the next, exponentially distributed.
        think: Duration = or(Duration::from_secs(2), within(Duration::ZERO, HOUR));
    }
}

impl Check for Page {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.file.is_some() && !self.objects.is_empty() {
            here.wrong(p, "objects", "does not go with `file`, which says them", "remove one of the two");
        }
        for (i, objects) in self.objects.iter().enumerate().filter(|(i, o)| o.after as usize > *i) {
            let problem = format!("waits for entry {}, which is not before it", objects.after);
            here.wrong(p, &format!("objects.{i}"), problem, "name an earlier entry, from 1");
        }
        if self.objects.first().is_some_and(|o| o.count != 1) {
            let remedy = "begin with one object, such as \"30kB\"";
            here.wrong(p, "objects", "has no document that names the others", remedy);
        }
    }
}

impl Page {
    /// The objects, as they follow each other.
    pub fn entries(&self) -> Vec<PageEntry> {
        if let Some(DescribedPage { page, .. }) = &self.file {
            let entry = |o: &PageObject| PageEntry {
                count: o.count,
                size: o.size.get(),
                after: page.awaited(o),
                server: o.server,
            };
            return page.objects.iter().map(entry).collect();
        }
        let objects = if self.objects.is_empty() { &PAGE[..] } else { &self.objects };
        let entry = |o: &Objects| PageEntry {
            count: o.count,
            size: o.size,
            after: (o.after > 0).then_some(o.after).into_iter().collect(),
            server: Duration::ZERO,
        };
        objects.iter().map(entry).collect()
    }
}

/// Objects of a page that are alike, however they were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageEntry {
    /// How many.
    pub count: u32,
    /// Bytes of each.
    pub size: u64,
    /// Numbers of the entries, from 1, all of whose objects must be there before these are asked for.
    pub after: Vec<u32>,
    /// Time from the request at the server to the first byte.
    pub server: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_speech_have_the_size_of_their_codec() {
        let bytes = |codec, ms| {
            Voice { codec, packet_time: Duration::from_millis(ms), playout: Duration::ZERO }.payload()
        };
        assert_eq!([bytes(Codec::G711, 20), bytes(Codec::G729, 20), bytes(Codec::GsmEfr, 20)], [172, 32, 43]);
        assert_eq!(bytes(Codec::G711, 60), 492);
    }

    #[test]
    fn objects_are_printed_as_they_are_read() {
        for text in ["30kB", "12 x 25kB after 1", "3 x 100B"] {
            let read = Objects::read(&Node::Text(text.into())).unwrap();
            assert_eq!(read.show(), text);
        }
        for text in ["", "x 3kB", "30kB after 0", "30kB after", "12 25kB", "-1 x 2kB", "30kB after 1 x"] {
            assert!(Objects::read(&Node::Text(text.into())).is_err(), "{text}");
        }
    }
}
