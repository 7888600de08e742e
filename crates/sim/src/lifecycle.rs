//! Flows start, open connections and stop.

use crate::alarm::Alarm;
use crate::application::{Application, DatagramSender, VideoCall, judged};
use crate::dice::{Dice, seed_of};
use crate::event::{Event, Rare};
use crate::flow::FlowKind;
use crate::host::{BackDelay, Identity, Inbound, Outbound, Progress, Sink, Transmitter};
use crate::network::{Ended, Simulation};
use crate::packet::ConnectionId;
use crate::tap::Tap;
use weir_config::Traffic;
use weir_measure::result::FlowSample;
use weir_measure::{Frames, Stream, Window};
use weir_tcp::{EcnMode, Receiver, Sender};
use weir_units::{Duration, Ecn, Time};

/// Most transfers of one flow that are under way at once; further ones are left out and counted.
pub const MAX_OPEN: u32 = 512;

impl<T: Tap> Simulation<T> {
    /// A flow starts, or its next transfer.
    pub(crate) fn start(&mut self, flow: u32) {
        let kind = &self.kinds[self.flows[flow as usize].kind as usize];
        if kind.stop.is_some_and(|stop| stop <= self.now) {
            return;
        }
        if let Traffic::Transfers { every: Some(every), .. } = kind.traffic {
            self.wheel.insert(self.now + every, Event::Rare(Rare::Start(flow)));
        }
        if self.flows[flow as usize].open >= MAX_OPEN {
            self.flows[flow as usize].skipped += 1;
            return;
        }
        let (id, generation) = self.open(flow);
        let handshake = self.kinds[self.flows[flow as usize].kind as usize].handshake;
        let side = &mut self.hosts.outbound[id as usize];
        if handshake && matches!(side.transmitter, Transmitter::Transport(_)) {
            side.is_opening = true;
            return self.send_syn(id, 0);
        }
        self.send_first(id, generation);
    }

    /// A connection sends for the first time.
    pub(crate) fn send_first(&mut self, id: ConnectionId, generation: u16) {
        let side = &self.hosts.outbound[id as usize];
        match (&side.transmitter, &side.application) {
            (Transmitter::Datagrams(_) | Transmitter::Realtime(_), _) | (_, Some(_)) => {
                self.act(id, generation)
            }
            _ => self.pump(id),
        }
    }

    fn open(&mut self, flow: u32) -> (ConnectionId, u16) {
        let state = &self.flows[flow as usize];
        let kind = &self.kinds[state.kind as usize];
        let name = format!("flow {flow} connection {}", state.opened);
        let seed = seed_of(self.seed, &name);
        let wanted = match kind.traffic {
            Traffic::Transfers { size, .. } => Some(size.get()),
            _ => None,
        };
        let (transmitter, sink) = self.ends(kind, seed, &name, true);
        let outbound = Outbound {
            transmitter,
            application: application(
                kind,
                self.now,
                self.window.from,
                Dice::of(self.seed, &format!("{name} application")),
            ),
            alarm: Alarm::default(),
            flow,
            identity: Identity { tuple: (seed ^ (seed >> 32)) as u32, host: state.kind },
            header: kind.headers.data,
            entrance: entrance(&kind.forward),
            generation: 0,
            is_opening: false,
        };
        let inbound = Inbound {
            sink,
            alarm: Alarm::default(),
            flow,
            generation: 0,
            entrance: entrance(&kind.back),
            delay: state.extra.forward,
            back: BackDelay {
                delay: state.extra.back,
                jitter: kind.host_jitter,
                dice: Dice::of(self.seed, &name),
                last: Time::ZERO,
            },
            opened: self.now,
            progress: Progress::new(self.window, wanted),
        };
        let (id, generation) = self.hosts.open(outbound, inbound);
        self.flows[flow as usize].opens(self.now, id);
        (id, generation)
    }

    /// What sends and what receives on a new connection, of TCP with ECN as its flow wants it or without.
    fn ends(&self, kind: &FlowKind, seed: u64, name: &str, ecn: bool) -> (Transmitter, Sink) {
        if let Traffic::Realtime(video) = &kind.traffic {
            let dice = Dice::of(self.seed, &format!("{name} video"));
            let field = if kind.sender.ecn == EcnMode::Off { Ecn::NotEct } else { Ecn::Ect0 };
            let call = VideoCall::new(video, field, self.now, dice);
            let frames = Frames::new(video.frame(), video.late, self.window);
            return (Transmitter::Realtime(Box::new(call)), Sink::Frames(Box::new((frames, 0))));
        }
        if let Some(datagrams) = kind.traffic.datagrams() {
            let ecn = if kind.sender.ecn == EcnMode::Off { Ecn::NotEct } else { Ecn::Ect0 };
            let dice = Dice::of(self.seed, &format!("{name} datagrams"));
            let sender = DatagramSender::new(&datagrams, kind.sender.mss_payload, ecn, self.now, dice);
            let sink = match judged(&kind.traffic) {
                Some((judged, interval)) => {
                    Sink::Stream(Box::new((Stream::new(judged, interval, self.window), 0)))
                }
                None => Sink::Datagrams(0),
            };
            return (Transmitter::Datagrams(Box::new(sender)), sink);
        }
        let mut config = kind.sender.clone();
        config.seed = seed;
        config.ssthresh = kind.memory.and_then(|memory| self.memories[memory as usize].ssthresh());
        let mut congestion = kind.congestion.expect("only datagrams go without");
        let mut receiver = kind.receiver.clone();
        if !ecn && config.ecn != EcnMode::Off {
            (config.ecn, receiver.ecn) = (EcnMode::Off, EcnMode::Off);
            congestion = congestion.without_ecn();
        }
        let mut sender = Sender::new(&config, congestion, self.now);
        match kind.traffic {
            Traffic::Transfers { size, .. } => sender.write(size.get()),
            Traffic::Bulk => sender.set_unlimited(true),
            _ => {}
        }
        (Transmitter::Transport(sender), Sink::Transport(Receiver::new(&receiver, self.now)))
    }

    /// The handshake of a connection is over after `rtt`; its ends begin now. As in Linux, they go without
    /// ECN if the first SYN was lost, which may have been for its ECN bits (RFC 3168 section 6.1.1.1), and
    /// begin with one segment if more were (RFC 5681 section 3.1).
    pub(crate) fn established(&mut self, id: ConnectionId, rtt: Duration, tries: u8) {
        let side = &self.hosts.outbound[id as usize];
        let kind = &self.kinds[self.flows[side.flow as usize].kind as usize];
        let seed = u64::from(side.identity.tuple);
        let (mut transmitter, sink) = self.ends(kind, seed, "", tries == 0);
        if let Transmitter::Transport(sender) = &mut transmitter {
            sender.opened(rtt, tries > 1);
        }
        let side = &mut self.hosts.outbound[id as usize];
        side.is_opening = false;
        side.transmitter = transmitter;
        let generation = side.generation;
        self.hosts.inbound[id as usize].sink = sink;
        self.send_first(id, generation);
    }

    /// A transfer is complete, and the sending side knows it.
    #[cold]
    pub(crate) fn completed(&mut self, id: ConnectionId) {
        let side = &self.hosts.inbound[id as usize];
        let (flow, at) = (side.flow, side.progress.completed().unwrap_or(self.now));
        let stats = &mut self.flows[flow as usize].stats;
        stats.completed += 1;
        stats.transfer_time += at.since(side.opened);
        let (began, took) = (side.opened, at.since(side.opened));
        let kind = &self.kinds[self.flows[flow as usize].kind as usize];
        if let Traffic::Transfers { size, .. } = kind.traffic {
            self.ended.push(Ended { flow, is_page: false, began, took, bytes: size.get() });
        }
        self.close(id, at);
        let kind = &self.kinds[self.flows[flow as usize].kind as usize];
        if let Traffic::Transfers { pause: Some(pause), .. } = kind.traffic {
            self.wheel.insert(self.now + pause, Event::Rare(Rare::Start(flow)));
        }
    }

    /// A flow stops: its connections end at once, and what is on its way will find them closed.
    pub(crate) fn stop(&mut self, flow: u32) {
        for id in 0..self.hosts.outbound.len() as ConnectionId {
            if self.hosts.outbound[id as usize].flow == flow && self.hosts.is_open(id) {
                self.close(id, self.now);
            }
        }
    }

    fn close(&mut self, id: ConnectionId, at: Time) {
        let progress = self.hosts.inbound[id as usize].progress;
        let (flow, opened) = (self.hosts.inbound[id as usize].flow, self.hosts.inbound[id as usize].opened);
        let application = self.hosts.outbound[id as usize].application.as_deref_mut();
        let played = application.and_then(|application| application.played(at));
        let (transmitter, sink) = self.hosts.close(id);
        let group = self.kinds[self.flows[flow as usize].kind as usize].group;
        self.played.extend(played.map(|played| (group, played)));
        let state = &mut self.flows[flow as usize];
        let mut transmitter = transmitter;
        if let (Transmitter::Realtime(call), Sink::Frames(frames)) = (&mut transmitter, &sink) {
            let (mut frames, pool) = (frames.0.clone(), &mut self.pools[group as usize]);
            call.ends.ends(at, |fate| frames.tells(fate.made, fate.arrived, fate.bytes, pool));
            frames.ends(opened, at, pool);
        }
        if let (Transmitter::Datagrams(sender), Sink::Stream(stream)) = (&transmitter, &sink) {
            let stream = stream.0.clone();
            stream.ends(sender.sent(), sender.next(), at, &mut self.pools[group as usize]);
        }
        if let Transmitter::Transport(sender) = transmitter {
            let info = sender.info();
            state.stats.retransmits += info.retransmits;
            if let Some(memory) = self.kinds[state.kind as usize].memory {
                self.memories[memory as usize].learn(&info);
            }
        }
        state.stats.bytes += progress.measured(&self.window, sink.received());
        state.closes(at, id, self.window);
    }

    /// Ends the run: closes what is open, completes the statistics and returns the part that was measured.
    pub fn finish(&mut self) -> Window {
        let whole = self.window;
        self.links.iter_mut().for_each(|l| l.meter.completes(self.now, &mut *l.queue));
        for id in 0..self.hosts.outbound.len() as ConnectionId {
            if self.hosts.is_open(id) {
                self.note_unfinished(id);
                self.close(id, self.now);
            }
        }
        Window { until: whole.until.min(self.now).max(whole.from), ..whole }
    }

    /// Remembers what did not end, of what began in the measured part.
    fn note_unfinished(&mut self, id: ConnectionId) {
        let flow = self.hosts.inbound[id as usize].flow;
        let kind = self.flows[flow as usize].kind;
        let application = self.hosts.outbound[id as usize].application.as_ref();
        let (is_page, began) = match self.kinds[kind as usize].traffic {
            Traffic::Transfers { .. } => (false, Some(self.hosts.inbound[id as usize].opened)),
            _ => (true, application.and_then(|a| a.loading_since())),
        };
        if began.is_some_and(|began| began >= self.window.from) {
            self.unfinished.push((is_page, self.kinds[kind as usize].group));
        }
    }

    pub(crate) fn take_flow_samples(&mut self) {
        for number in 0..self.flows.len() {
            let Some(id) = self.flows[number].latest else { continue };
            let Transmitter::Transport(sender) = &self.hosts.outbound[id as usize].transmitter else {
                continue;
            };
            let mss = self.kinds[self.flows[number].kind as usize].sender.mss_payload;
            let row = row(self.now, number as u32, sender, mss);
            let stats = &mut self.flows[number].stats;
            if row.rtt_us > 0 && self.window.contains(self.now) {
                stats.rtt_sum += f64::from(row.rtt_us) / 1e6;
                stats.rtt_samples += 1;
            }
            self.flow_samples.push(row);
        }
    }

    /// Whether flows are sampled.
    pub fn samples_flows(&self) -> bool {
        self.sample_flows
    }

    /// Samples of the flows so far.
    pub fn flow_samples(&self) -> &[FlowSample] {
        &self.flow_samples
    }
}

fn entrance(route: &[u32]) -> Option<(u32, u16)> {
    route.first().map(|first| (*first, route.len() as u16 - 1))
}

fn application(kind: &FlowKind, now: Time, from: Time, dice: Dice) -> Option<Box<Application>> {
    Some(Box::new(match &kind.traffic {
        Traffic::Web(_) => Application::web(kind.pages.clone()?, now, dice),
        Traffic::Limited(rate) => Application::limited(*rate, kind.sender.mss_payload, now),
        Traffic::Page(_) => Application::page(kind.parallel.clone()?, kind.sender.mss_payload, now, dice),
        Traffic::Video(_) => Application::video(kind.video.clone()?, now, from),
        _ => return None,
    }))
}

fn row(now: Time, flow: u32, sender: &Sender, mss: u32) -> FlowSample {
    let info = sender.info();
    let micros = |d: weir_units::Duration| (d.as_nanos() / 1000) as u32;
    FlowSample {
        t_s: now.as_secs_f64(),
        flow,
        cwnd: info.cwnd,
        ssthresh: info.ssthresh.unwrap_or(0),
        rtt_us: info.srtt.map_or(0, micros),
        rttvar_us: micros(info.rttvar),
        retransmits: info.retransmits as u32,
        bytes_acked: info.una * u64::from(mss),
        delivery_bps: info.delivery_rate.map_or(0, |r| r.as_bps()),
    }
}
