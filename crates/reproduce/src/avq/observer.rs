//! What is seen of a run: the queue over time, and what each flow got.

use super::spans::{Span, edges};
use crate::segments::Connections;
use serde::{Deserialize, Serialize};
use weir_aqm::Cause;
use weir_config::Scenario;
use weir_sim::tap::{LinkContext, Tap, TappedPacket};
use weir_sim::{Body, LinkQueue};
use weir_units::Duration;

/// Size of the packets.
pub const PACKET_BYTES: f64 = 1000.0;

/// One period of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its end in seconds.
    pub t_s: f64,
    /// Packets that waited, on average over the period.
    pub queue_mean: f64,
    /// Packets that waited at its end.
    pub queue: f64,
    /// Packets of full size that left the queue.
    pub departed: f64,
    /// Packets that were discarded, for whatever reason.
    pub lost: u64,
    /// Those of them that the algorithm discarded, where that is known; the others found no room.
    pub discarded: Option<u64>,
    /// Packets that were marked, where that is known.
    pub marked: Option<u64>,
    /// Virtual capacity as a share of the link's, where there is one.
    pub capacity: Option<f64>,
}

impl Sample {
    /// The start of a period of which everything is seen.
    fn seen() -> Sample {
        Sample { discarded: Some(0), marked: Some(0), ..Sample::default() }
    }
}

/// One more of what is counted.
fn count(counter: &mut Option<u64>) {
    *counter = counter.map(|n| n + 1);
}

/// What had been delivered at a time: packets, each counted once however often it was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deliveries {
    /// The time in seconds.
    pub t_s: f64,
    /// To each of the long flows.
    pub long: Vec<u64>,
    /// To the short flows together.
    pub short: u64,
}

/// A run as it was seen, in any simulator.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The periods.
    pub samples: Vec<Sample>,
    /// What had been delivered at the ends of the spans, from zero on.
    pub delivered: Vec<Deliveries>,
}

/// Watches a run.
pub struct Observer {
    period_s: f64,
    edges: Vec<f64>,
    /// Number among the long flows, of every flow.
    long: Vec<Option<usize>>,
    last_s: f64,
    queue: f64,
    area: f64,
    sample: Sample,
    now: Deliveries,
    connections: Connections,
    seen: Observation,
}

impl Observer {
    /// For a scenario and its spans.
    pub fn new(scenario: &Scenario, spans: &[Span]) -> Observer {
        let (mut long, mut count) = (Vec::new(), 0);
        for group in &scenario.flows {
            for _ in 0..group.count {
                let is_long = group.every.is_none();
                long.push(is_long.then_some(count));
                count += usize::from(is_long);
            }
        }
        let now = Deliveries { t_s: 0.0, long: vec![0; count], short: 0 };
        Observer {
            period_s: scenario.run.sample.as_secs_f64(),
            edges: edges(spans),
            long,
            last_s: 0.0,
            queue: 0.0,
            area: 0.0,
            sample: Sample::seen(),
            connections: Connections::new(),
            seen: Observation { samples: Vec::new(), delivered: vec![now.clone()] },
            now,
        }
    }

    /// What was seen until the end of the run.
    pub fn finish(mut self, end_s: f64) -> Observation {
        let capacity = self.seen.samples.last().and_then(|s| s.capacity);
        self.advance(end_s, || capacity);
        self.seen
    }

    /// Closes the periods that have ended.
    fn advance(&mut self, now_s: f64, capacity: impl Fn() -> Option<f64>) {
        // A period that ends with the run has ended.
        const ROUNDING: f64 = 1e-9;
        loop {
            let end = (self.seen.samples.len() + 1) as f64 * self.period_s;
            if end > now_s + ROUNDING {
                break;
            }
            self.area += self.queue * (end - self.last_s);
            let queue_mean = self.area / self.period_s;
            let sample =
                Sample { t_s: end, queue_mean, queue: self.queue, capacity: capacity(), ..self.sample };
            self.seen.samples.push(sample);
            (self.last_s, self.area) = (end, 0.0);
            self.sample = Sample::seen();
            if self.edges.iter().any(|edge| (edge - end).abs() < self.period_s / 2.0) {
                self.seen.delivered.push(Deliveries { t_s: end, ..self.now.clone() });
            }
        }
        self.area += self.queue * (now_s - self.last_s);
        self.last_s = now_s;
    }

    /// Takes what stood until now into account. The managed queue is that of the first link.
    fn step(&mut self, at: &LinkContext<'_>) -> bool {
        if at.link == 0 {
            self.advance(at.now.as_secs_f64(), || capacity(at.queue));
            self.queue = f64::from(at.queue.packets());
        }
        at.link == 0
    }
}

/// The gauge of AVQ.
fn capacity(queue: &dyn LinkQueue) -> Option<f64> {
    let mut found = None;
    queue.gauges(&mut |name, value| {
        if name == "virtual_capacity" {
            found = Some(value);
        }
    });
    found
}

impl Tap for Observer {
    fn on_enqueue(&mut self, at: &LinkContext<'_>, _seen: TappedPacket<'_>) {
        self.step(at);
    }

    fn on_drop(&mut self, at: &LinkContext<'_>, _seen: TappedPacket<'_>, cause: Cause) {
        if self.step(at) {
            self.sample.lost += 1;
            if cause != Cause::Overflow {
                count(&mut self.sample.discarded);
            }
        }
    }

    fn on_mark(&mut self, at: &LinkContext<'_>, _seen: TappedPacket<'_>) {
        if self.step(at) {
            count(&mut self.sample.marked);
        }
    }

    fn on_depart(&mut self, at: &LinkContext<'_>, seen: TappedPacket<'_>, _sojourn: Duration, _marked: bool) {
        if !self.step(at) {
            return;
        }
        self.sample.departed += seen.packet.len.get() as f64 / PACKET_BYTES;
        let Body::Data(segment) = &seen.item.body else { return };
        let key = (seen.flow, seen.item.connection, seen.item.generation);
        if self.connections.entry(key).or_default().note(segment.seq).is_some() {
            match self.long[seen.flow as usize] {
                Some(number) => self.now.long[number] += 1,
                None => self.now.short += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_have_the_time_average_of_the_queue() {
        let arguments = crate::avq::experiments::tests::arguments("1", true);
        let scenario = crate::avq::experiments::plan(&arguments).unwrap().swap_remove(0).scenario;
        let spans = super::super::spans::spans(&scenario);
        let mut observer = Observer::new(&scenario, &spans);
        observer.advance(0.05, || Some(0.5));
        observer.queue = 10.0;
        observer.advance(0.25, || Some(0.5));
        let seen = observer.finish(20.0);
        assert_eq!(seen.samples.len(), 200);
        assert!((seen.samples[0].queue_mean - 5.0).abs() < 1e-9, "{:?}", seen.samples[0]);
        assert_eq!((seen.samples[1].queue, seen.samples[1].capacity), (10.0, Some(0.5)));
        assert_eq!((seen.samples[1].marked, seen.samples[1].discarded), (Some(0), Some(0)));
        assert_eq!(seen.delivered.iter().map(|d| d.t_s).collect::<Vec<_>>(), [0.0, 10.0, 20.0]);
    }
}
