use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What came of a stream over a path: mean rate of the encoder in the later half in bit/s, delays of its
/// frames there, how many were lost, and the greatest queue of the link in seconds.
struct Outcome {
    rate: f64,
    delays: Vec<Duration>,
    lost: u32,
    queue: f64,
    video: Realtime,
}

fn config(most: f64) -> RealtimeConfig {
    RealtimeConfig {
        frame: ms(40),
        spread: 0.15,
        payload: 1188,
        give_up: ms(500),
        scream: ScreamConfig { rate: (100e3, most), delay: (ms(100), ms(400)), ramp_up: 200e3 },
        ecn: Ecn::Ect0,
    }
}

/// A FIFO of `rate` bit/s before 20 ms of path each way, for `seconds`; `fate` may lose a packet or mark it,
/// by its number and the queue in seconds.
fn over(
    config: RealtimeConfig,
    rate: impl Fn(f64) -> f64,
    seconds: u64,
    fate: impl Fn(u64, f64) -> Option<Ecn>,
) -> Outcome {
    let (way, end) = (ms(20), Time::ZERO + Duration::from_secs(seconds));
    let mut video = Realtime::new(config, Time::ZERO);
    let (mut free, mut now) = (Time::ZERO, Time::ZERO);
    let mut arrivals: VecDeque<(Time, Segment)> = VecDeque::new();
    let mut reports: VecDeque<(Time, u32)> = VecDeque::new();
    let (mut dice, mut delays, mut lost, mut queue) = (1u64, Vec::new(), 0, 0.0_f64);
    let (mut rates, mut samples) = (0.0, 0.0);
    while now < end {
        let bits = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            dice ^ (dice >> 31)
        };
        let mut bits = bits;
        while let Some(mut segment) = video.poll(now, &mut bits) {
            let waits = free.since(now).as_secs_f64();
            queue = queue.max(waits);
            let bytes = f64::from(segment.payload + 28);
            let takes = Duration::from_secs(1).mul_f64(bytes * 8.0 / rate(now.as_secs_f64()));
            free = free.max(now) + takes;
            if let Some(ecn) = fate(segment.seq, waits) {
                segment.ecn = ecn;
                arrivals.push_back((free + way, segment));
            }
        }
        let due = [
            Some(video.next_timeout()),
            arrivals.front().map(|a| a.0),
            reports.front().map(|r| r.0),
            video.report_due(),
        ];
        let next = due.into_iter().flatten().min().expect("frames go on").max(now);
        if now >= Time::ZERO + Duration::from_secs(seconds / 2) {
            let length = next.since(now).as_secs_f64();
            rates += video.scream().target_bitrate() * length;
            samples += length;
        }
        now = next;
        while let Some((at, segment)) = arrivals.front().copied().filter(|a| a.0 <= now) {
            arrivals.pop_front();
            video.arrives(at, &segment, |fate| match fate.arrived {
                Some(at) if fate.made > Time::ZERO + Duration::from_secs(seconds / 2) => {
                    delays.push(at.since(fate.made));
                }
                Some(_) => {}
                None => lost += 1,
            });
        }
        if video.report_due().is_some_and(|due| due <= now) {
            let told = video.report(now);
            reports.push_back((now + way, told.number));
        }
        while let Some((_, number)) = reports.front().copied().filter(|r| r.0 <= now) {
            reports.pop_front();
            video.on_report(now, number);
        }
    }
    delays.sort();
    Outcome { rate: rates / samples, delays, lost, queue, video }
}

#[test]
fn on_a_free_path_the_rate_rises_as_fast_as_it_may_to_its_bound() {
    let told = over(config(2e6), |_| 50e6, 60, |_, _| Some(Ecn::Ect0));
    assert!((told.rate / 2e6 - 1.0).abs() < 0.01, "{}", told.rate);
    assert_eq!(told.lost, 0);
    // 20 ms of path, and the pace of a frame of seven packets.
    let p95 = told.delays[told.delays.len() * 95 / 100];
    assert!((ms(20)..ms(45)).contains(&p95), "{p95}");
    // `RAMP_UP_SPEED` is 200 kbit/s in a second: from 0.1 to 2 Mbit/s in 9.5 s at the least.
    let early = over(config(2e6), |_| 50e6, 8, |_, _| Some(Ecn::Ect0));
    assert!(early.video.scream().target_bitrate() < 1.75e6, "{}", early.video.scream().target_bitrate());
}

#[test]
fn a_link_is_used_and_its_queue_held_near_the_target() {
    let told = over(config(10e6), |_| 1e6, 120, |_, _| Some(Ecn::Ect0));
    assert!((0.75e6..1e6).contains(&told.rate), "{}", told.rate);
    let p95 = told.delays[told.delays.len() * 95 / 100];
    assert!(p95 < ms(20 + 200), "{p95}");
    assert!(told.queue < 0.5, "{}", told.queue);
}

#[test]
fn half_the_rate_is_found_after_it_is_gone_and_after_an_outage_it_goes_on() {
    let falls = |t: f64| if t < 30.0 { 2e6 } else { 1e6 };
    let told = over(config(10e6), falls, 60, |_, _| Some(Ecn::Ect0));
    assert!((0.7e6..1.05e6).contains(&told.rate), "{}", told.rate);
    // Nothing arrives between 10 and 13 s: no report comes, and a packet now and then asks.
    let mut config = config(2e6);
    config.scream.rate.0 = 300e3;
    let gone = std::cell::Cell::new(0);
    let told = over(
        config,
        |_| 50e6,
        60,
        |seq, _| {
            let is_gone = (2000..2060).contains(&seq);
            gone.set(gone.get() + u32::from(is_gone));
            (!is_gone).then_some(Ecn::Ect0)
        },
    );
    assert!(gone.get() == 60 && told.lost > 5, "{}", told.lost);
    assert!(told.rate > 1e6, "{}", told.rate);
}

#[test]
fn a_mark_costs_less_than_a_loss_and_both_at_most_once_in_a_round_trip() {
    // Section 4.1.2.1: windows and rates after a report.
    let after = |lost: bool, marked: bool| {
        let mut scream = Scream::new(&config(10e6).scream, 1200, Time::ZERO);
        let mut report = |t: u64, bad: bool| {
            let one_way = ms(20);
            let (lost, marked) = (bad && lost, bad && marked);
            let heard = Heard {
                rtt: ms(40),
                one_way,
                newly_acked: 12_000,
                received: 12_000,
                in_flight: 12_000,
                lost,
                marked,
            };
            scream.on_sent(Time::ZERO + ms(t), 1200, 24_000);
            scream.on_report(Time::ZERO + ms(t), &heard);
            scream.window()
        };
        let windows = [report(100, false), report(120, true), report(140, true), report(200, true)];
        windows.map(|w| w / windows[0])
    };
    assert_eq!(after(true, false).map(|w| (w * 1e3).round()), [1000.0, 800.0, 800.0, 640.0]);
    assert_eq!(after(false, true).map(|w| (w * 1e3).round()), [1000.0, 900.0, 900.0, 810.0]);
    assert_eq!(after(true, true).map(|w| (w * 1e3).round())[1], 800.0);
}

#[test]
fn marks_hold_the_queue_where_losses_would_and_lose_no_frame() {
    // A queue that signals above 30 ms, one packet in ten.
    let signals = |by: Option<Ecn>| {
        move |seq: u64, waits: f64| if waits > 0.03 && seq.is_multiple_of(10) { by } else { Some(Ecn::Ect0) }
    };
    let marked = over(config(10e6), |_| 2e6, 120, signals(Some(Ecn::Ce)));
    let dropped = over(config(10e6), |_| 2e6, 120, signals(None));
    assert!(marked.lost == 0 && dropped.lost > 20, "{} {}", marked.lost, dropped.lost);
    assert!(marked.rate > 1.2e6 && dropped.rate > 0.9e6, "{} {}", marked.rate, dropped.rate);
}

#[test]
fn the_next_report_tells_what_a_lost_one_told() {
    let mut video = Realtime::new(config(2e6), Time::ZERO);
    let mut sent = Vec::new();
    let mut now = Time::ZERO;
    while sent.len() < 6 {
        now = video.next_timeout().max(now);
        sent.extend(video.poll(now, || 1 << 63));
        // Reports open the window.
        if sent.len() == 3 && video.acked == 0 {
            for segment in &sent {
                video.arrives(now + ms(20), segment, |_| {});
            }
            let told = video.report(now + ms(25));
            assert_eq!((told.number, told.packets), (0, 3));
            video.on_report(now + ms(45), 0);
            now += ms(45);
        }
    }
    let arrive = |video: &mut Realtime, segment: &Segment, at: Time| {
        video.arrives(at, segment, |_| {});
        video.report(at)
    };
    let second = arrive(&mut video, &sent[3], now + ms(20));
    let third = arrive(&mut video, &sent[4], now + ms(40));
    assert_eq!((second.packets, third.packets), (4, 5));
    let before = video.scream().window();
    video.on_report(now + ms(60), third.number);
    assert!(video.scream().window() >= before, "the third report tells what the second told");
    // A report that is older than one that came says nothing.
    video.on_report(now + ms(61), second.number);
    assert_eq!(video.acked, 5);
}
