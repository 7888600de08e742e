//! What runs on top of a connection, or sends without one.

use crate::dice::Dice;
use std::sync::Arc;
use weir_config::{Datagrams, OBJECT_SHAPE, Timing, Traffic};
use weir_measure::{Judged, Played};
use weir_tcp::sources::{Datagram, DatagramConfig, OnOff, Pareto, Periodic, Spacing};
use weir_tcp::sources::{Page, PageConfig, PageObjects, Video, VideoConfig, Web, WebConfig};
use weir_tcp::sources::{Realtime, RealtimeConfig, ScreamConfig};
use weir_tcp::{Segment, Sender};
use weir_units::{Duration, Ecn, Rate, Time};

/// An application that does not always have data.
pub enum Application {
    /// Loads pages.
    Web(Reader),
    /// Makes data at a rate.
    Limited(Periodic),
    /// Loads segments of video.
    Video(Box<Video>),
    /// Loads pages of parallel objects.
    Page(Box<(Page, Dice)>),
}

/// A reader of pages with its dice.
pub struct Reader {
    web: Web,
    dice: Dice,
}

/// What readers of such pages have in common.
pub fn pages(web: &weir_config::Web) -> Arc<WebConfig> {
    let size = Pareto { alpha: OBJECT_SHAPE, min: web.smallest_object(), max: web.largest_object() };
    Arc::new(WebConfig { objects: web.objects, size, think: web.think })
}

/// What players of such video have in common.
pub fn video(video: &weir_config::Video) -> Arc<VideoConfig> {
    Arc::new(VideoConfig {
        rates: video.rates(),
        segment: video.segment,
        buffer: video.buffer,
        reservoir: video.reservoir(),
        cushion: video.cushion(),
        play_at: video.play_at(),
    })
}

/// What readers of such pages of parallel objects have in common; `streams` if each object has one of its
/// own.
pub fn parallel(page: &weir_config::Page, streams: bool) -> Arc<PageConfig> {
    let one = |o: weir_config::PageEntry| {
        let weir_config::PageEntry { count, size, after, server } = o;
        PageObjects { count, size, after, server }
    };
    let objects = page.entries().into_iter().map(one).collect();
    Arc::new(PageConfig { objects, frame: page.frame.get(), think: page.think, streams })
}

/// How the datagrams of an application are judged, and their distance; `None` where nobody judges them.
pub fn judged(traffic: &Traffic) -> Option<(Judged, Duration)> {
    match traffic {
        Traffic::Voice(voice) => {
            let facts = voice.codec.facts();
            let (playout, coding, factors) = (voice.playout, voice.coding_delay(), (facts.ie, facts.bpl));
            Some((Judged::Voice { playout, coding, factors }, voice.packet_time))
        }
        Traffic::Game(game) => Some((Judged::Game(game.late), game.interval())),
        _ => None,
    }
}

impl Application {
    /// A reader that requests its first page at `start`.
    pub fn web(pages: Arc<WebConfig>, start: Time, dice: Dice) -> Application {
        Application::Web(Reader { web: Web::new(pages, start), dice })
    }

    /// Data at `rate`, written in full segments of `payload` bytes as long as they come often enough.
    pub fn limited(rate: Rate, payload: u32, start: Time) -> Application {
        Application::Limited(Periodic::new(rate, payload, start))
    }

    /// A player of video that asks for its first segment at `start`; what happens from `from` on counts.
    pub fn video(config: Arc<VideoConfig>, start: Time, from: Time) -> Application {
        Application::Video(Box::new(Video::new(config, start, from)))
    }

    /// A reader of pages of parallel objects over segments of `payload` bytes, who asks for the first at
    /// `start`.
    pub fn page(config: Arc<PageConfig>, payload: u32, start: Time, dice: Dice) -> Application {
        Application::Page(Box::new((Page::new(config, payload, start), dice)))
    }

    /// The reader of pages of parallel objects, where there is one.
    pub fn parallel(&mut self) -> Option<&mut Page> {
        let Application::Page(reader) = self else { return None };
        Some(&mut reader.0)
    }

    /// Whether it waits for all that it asked for and then goes on.
    pub fn asks(&self) -> bool {
        matches!(self, Application::Web(_) | Application::Video(_))
    }

    /// When it wants to act; `None` while it waits for its connection.
    pub fn next(&self) -> Option<Time> {
        match self {
            Application::Web(reader) => reader.web.next_timeout(),
            Application::Limited(writer) => Some(writer.next_timeout()),
            Application::Video(player) => player.next_timeout(),
            Application::Page(reader) => reader.0.next_timeout(),
        }
    }

    /// Pages loaded so far, and when the one that was requested last was requested, with its bytes.
    pub fn pages(&self) -> Option<(u64, Time, u64)> {
        match self {
            Application::Web(reader) => {
                let (since, bytes) = reader.web.page();
                Some((reader.web.pages(), since, bytes))
            }
            Application::Page(reader) => Some(reader.0.told()),
            Application::Limited(_) | Application::Video(_) => None,
        }
    }

    /// When the page was requested that is loading now.
    pub fn loading_since(&self) -> Option<Time> {
        match self {
            Application::Web(reader) => reader.web.is_loading().then(|| reader.web.page().0),
            Application::Page(reader) => reader.0.is_loading().then(|| reader.0.told().1),
            Application::Limited(_) | Application::Video(_) => None,
        }
    }

    /// What a player of video has shown up to `end`.
    pub fn played(&mut self, end: Time) -> Option<Played> {
        let Application::Video(player) = self else { return None };
        let (shown, startup) = player.ends(end);
        let watched_s = shown.watched.as_secs_f64();
        Some(Played {
            segments: shown.segments,
            rate_bps: shown.rates_bps / (shown.segments as f64).max(1.0),
            switches: shown.switches,
            stalls: shown.stalls,
            stalled_s: shown.stalled.as_secs_f64(),
            watched_s,
            startup_s: startup.map(Duration::as_secs_f64),
            buffer_s: if watched_s > 0.0 { shown.buffered / watched_s } else { 0.0 },
        })
    }

    /// The bytes that it writes now, if any; all that it asked for `arrived` at that time.
    pub fn act(&mut self, now: Time, sender: &Sender, arrived: Option<Time>) -> Option<u64> {
        match self {
            Application::Web(reader) => {
                let Reader { web, dice } = reader;
                web.poll(now, sender.is_done(), || dice.bits())
            }
            Application::Limited(writer) => writer.poll(now, sender.surplus()),
            Application::Video(player) => player.poll(now, arrived.filter(|_| sender.is_done())),
            Application::Page(reader) => {
                let (page, dice) = &mut **reader;
                page.poll(now, sender.info().nxt, sender.unsent(), || dice.bits())
            }
        }
    }
}

/// Real-time video with its dice.
pub struct VideoCall {
    /// Both ends.
    pub ends: Realtime,
    dice: Dice,
}

impl VideoCall {
    /// One that begins at `start`.
    pub fn new(video: &weir_config::Realtime, ecn: Ecn, start: Time, dice: Dice) -> VideoCall {
        let config = RealtimeConfig {
            frame: video.frame(),
            spread: video.spread.0,
            payload: video.payload.get() as u32,
            give_up: video.give_up,
            scream: ScreamConfig {
                rate: (video.rate_min.as_bps_f64(), video.rate_max.as_bps_f64()),
                delay: (video.delay_target, video.delay_target_max),
                ramp_up: video.ramp_up.as_bps_f64(),
            },
            ecn,
        };
        VideoCall { ends: Realtime::new(config, start), dice }
    }

    /// The packet that leaves now, if any.
    pub fn poll(&mut self, now: Time) -> Option<Segment> {
        self.ends.poll(now, || self.dice.bits())
    }
}

/// Sends datagrams whatever happens to them.
pub struct DatagramSender {
    source: Datagram,
    dice: Dice,
    payload: u32,
    ecn: Ecn,
}

impl DatagramSender {
    /// A sender that begins at `start`; `largest` is the payload where none is given.
    pub fn new(datagrams: &Datagrams, largest: u32, ecn: Ecn, start: Time, mut dice: Dice) -> DatagramSender {
        let payload = datagrams.payload.map_or(largest, |bytes| bytes.get() as u32);
        let (spacing, on_off) = match datagrams.timing {
            Timing::Cbr => (Spacing::Constant, OnOff::Always),
            Timing::Poisson => (Spacing::Exponential, OnOff::Always),
            Timing::OnOff { on, off } => (Spacing::Constant, OnOff::Exponential { on, off }),
        };
        let config = DatagramConfig { rate: datagrams.rate, size: payload, spacing, on_off };
        let source = Datagram::new(&config, start, || dice.bits());
        DatagramSender { source, dice, payload, ecn }
    }

    /// When the next one leaves.
    pub fn next(&self) -> Time {
        self.source.next()
    }

    /// How many have left.
    pub fn sent(&self) -> u64 {
        self.source.sent()
    }

    /// The datagram that leaves now.
    pub fn send(&mut self, now: Time) -> Segment {
        let seq = self.source.sent();
        self.source.advance(|| self.dice.bits());
        let Self { payload, ecn, .. } = *self;
        Segment { seq, sent: now, payload, ecn, retransmission: false, cwr: false, spin: false }
    }
}
