//! What a link under load notices of those who look at its page, and of those who abuse it.
//!
//! Needs root.

use crate::common::*;
use crate::control::{Load, control_socket, steered};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use weir_lab::{Testbed, in_netns, set_nice};
use weir_operate::client::Client;
use weir_operate::{BODY_MAX, Status};

const PAGE: &str = "127.0.0.1:9470";
const READERS: usize = 100;
/// Who opens the stream of events and never reads: as many as there is room for beside the readers.
const SILENT: usize = 20;
const CONNECTIONS: usize = 1000;
/// Between two requests that are refused.
const PAUSE: Duration = Duration::from_millis(20);
/// How long each half of a pair is measured.
const HALF: Duration = Duration::from_secs(3);
const PAIRS: usize = 3;

/// Whoever looks at a page, and whoever abuses it.
struct Crowd {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    held: Vec<TcpStream>,
    /// Statuses that were read, and requests that were refused as they should be.
    read: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

/// Waits until a connection is taken.
fn connected(namespace: &str) -> TcpStream {
    let begun = Instant::now();
    loop {
        match connect(namespace) {
            Some(stream) => return stream,
            None => assert!(begun.elapsed() < PATIENCE, "no connection to {PAGE}"),
        }
    }
}

fn connect(namespace: &str) -> Option<TcpStream> {
    let address = PAGE.parse().unwrap();
    let stream = in_netns(namespace, || TcpStream::connect_timeout(&address, Duration::from_secs(2)));
    let stream = stream.unwrap().ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    Some(stream)
}

/// What the crowd itself computes is no doing of the program's: viewers are elsewhere.
const NICE: i32 = 19;

const EVENTS: &str = "GET /v1/events HTTP/1.1\r\nhost: 127.0.0.1:9470\r\n\r\n";

impl Crowd {
    fn gather(testbed: &Testbed) -> Crowd {
        let bot = testbed.bottleneck().to_string();
        let mut crowd = Crowd {
            stop: Arc::default(),
            threads: Vec::new(),
            held: Vec::new(),
            read: Arc::default(),
            refused: Arc::default(),
        };
        for _ in 0..READERS {
            let mut stream = connected(&bot);
            stream.write_all(EVENTS.as_bytes()).unwrap();
            let (stop, read) = (crowd.stop.clone(), crowd.read.clone());
            crowd.threads.push(std::thread::spawn(move || {
                set_nice(NICE).unwrap();
                let mut part = vec![0; 64 << 10];
                while !stop.load(Ordering::Relaxed) {
                    let count = stream.read(&mut part).unwrap_or(0);
                    let events =
                        part[..count].windows(13).filter(|window| window == b"event: status").count();
                    read.fetch_add(events as u64, Ordering::Relaxed);
                }
            }));
        }
        for _ in 0..SILENT {
            let mut stream = connected(&bot);
            stream.write_all(EVENTS.as_bytes()).unwrap();
            crowd.held.push(stream);
        }
        let body = r#"{"set":{"a_to_b.rate":"1Mbit/s"}}"#.to_string();
        let long = format!(r#"{{"set":{{"a_to_b.rate":"{}"}}}}"#, "x".repeat(BODY_MAX));
        for (headers, body) in [
            (format!("authorization: Bearer {}\r\n", "0".repeat(64)), body.clone()),
            ("origin: http://elsewhere.example\r\n".to_string(), body),
            (String::new(), long),
        ] {
            let (bot, stop, refused) = (bot.clone(), crowd.stop.clone(), crowd.refused.clone());
            crowd.threads.push(std::thread::spawn(move || {
                set_nice(NICE).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let Some(mut stream) = connect(&bot) else { continue };
                    let request = format!(
                        "PATCH /v1/config HTTP/1.1\r\nhost: {PAGE}\r\nconnection: close\r\ncontent-length: {}\r\n\
                         {headers}\r\n{body}",
                        body.len()
                    );
                    // It may be closed before it was read.
                    let _ = stream.write_all(request.as_bytes());
                    let mut answer = Vec::new();
                    let _ = stream.read_to_end(&mut answer);
                    assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
                    refused.fetch_add(u64::from(answer.starts_with(b"HTTP/1.1 4")), Ordering::Relaxed);
                    sleep(PAUSE);
                }
            }));
        }
        sleep(Duration::from_secs(1));
        // Connections that say nothing; what is beyond the bound is closed, requests of others too.
        crowd.held.extend((0..CONNECTIONS).filter_map(|_| connect(&bot)));
        crowd
    }

    /// Ends it; how many statuses were read, and how many requests were answered with a refusal.
    fn leave(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        (self.read.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

/// What the link did in a while.
#[derive(Debug)]
struct Half {
    /// Share of the link's rate that was used. Of both the status tells what there was at its last sample,
    /// which may be a tenth of a second old.
    used: f64,
    delay_ms: f64,
    stalled: f64,
}

fn measure(client: &mut Client) -> Half {
    let mut look =
        || -> (Instant, Status) { (Instant::now(), client.ask("GET", "/v1/status", None::<&()>).unwrap()) };
    let (begun, first) = look();
    sleep(HALF);
    let (ended, last) = look();
    let span = ended.duration_since(begun).as_secs_f64();
    let (from, to) = (&first.directions[0], &last.directions[0]);
    let count = |direction: &weir_operate::DirectionStatus| direction.delays.counts.iter().sum::<u64>();
    Half {
        used: (to.packets.delivered_bytes - from.packets.delivered_bytes) as f64
            / (to.capacity_bytes - from.capacity_bytes),
        delay_ms: (to.delays.sum_s - from.delays.sum_s) * 1e3 / (count(to) - count(from)) as f64,
        stalled: (last.stalled_s - first.stalled_s) / span,
    }
}

#[test]
fn a_link_notices_nothing_of_a_hundred_viewers_and_of_a_thousand_connections_and_refusals() {
    let Some(_turn) = turn() else { return };
    // Both ends are here.
    // SAFETY: the pointers are to a plain struct.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max.min(8192);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
    judged(|attempt| {
        // Bounds are wider than what this changes.
        attempt.tolerates(0.03);
        let testbed = testbed();
        exec(testbed.bottleneck(), "ip", &["link", "set", "dev", "lo", "up"]);
        let weir = Weir::start_with(testbed.bottleneck(), &steered(), &["--page"]);
        let load = Load::start(&testbed);
        let mut client = Client::connect(&control_socket(&weir)).unwrap();
        sleep(Duration::from_secs(2));
        let (mut pairs, mut least) = (Vec::new(), [u64::MAX; 2]);
        for _ in 0..PAIRS {
            let alone = measure(&mut client);
            let crowd = Crowd::gather(&testbed);
            let beside = measure(&mut client);
            let (read, refused) = crowd.leave();
            least = [least[0].min(read), least[1].min(refused)];
            say(format!("{alone:?} alone, {beside:?} beside; {read} statuses read, {refused} refused"));
            pairs.push((alone, beside));
            sleep(Duration::from_millis(500));
        }
        attempt.end();
        let (sent, received, wrong) = load.end();
        sleep(Duration::from_millis(500));
        let status: Status = client.ask("GET", "/v1/status", None::<&()>).unwrap();
        let (direction, packets) = (&status.directions[0], &status.directions[0].packets);
        assert_eq!(direction.rate_bps, Some(50e6), "nobody without the token changed anything");
        assert_eq!(status.changes, 0);
        // What the algorithm discards is its answer to the load.
        let discarded = packets.overflowed + packets.shed;
        let of_sorts = |of: fn(&(Half, Half)) -> f64| {
            let mut all: Vec<f64> = pairs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let stalled = pairs.iter().map(|pair| pair.0.stalled).fold(0.0, f64::max);
        attempt.stalled(stalled);
        // Each reader is told twice a second, and the abuse came through.
        let due = READERS as f64 * HALF.as_secs_f64();
        attempt.within("statuses were read at least", least[0] as f64, due..);
        attempt.within("requests were refused at least", least[1] as f64, 31.0..);
        attempt.within("rate beside / alone", of_sorts(|(alone, beside)| beside.used / alone.used), 0.98..);
        attempt.within(
            "delay beside / alone",
            of_sorts(|(alone, beside)| beside.delay_ms / alone.delay_ms),
            ..1.25,
        );
        // What other work took away stalled the loop, too, and is no doing of the crowd. Both ends of it, the
        // program and the load share two processors, where the loop waits 0.5 to 3 % of the time for one.
        let most = 0.05 + attempt.taken();
        attempt.within("stalled share beside", of_sorts(|(_, beside)| beside.stalled), ..most);
        let lost: u64 = status.ports.iter().map(|port| port.lost_frames).sum();
        attempt.holds(
            format_args!("{} of {sent} datagrams lost, {wrong} out of order", sent - received),
            "none",
            (received, wrong) == (sent, 0),
        );
        attempt.holds(
            format_args!(
                "{discarded} packets discarded, {lost} lost before the queue, {} bypassed",
                status.bypassed_frames
            ),
            "none",
            discarded + lost + status.bypassed_frames == 0,
        );
        assert_eq!(weir.interrupt().code, Some(0));
    });
}
