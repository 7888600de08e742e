//! The draft's rules by themselves; how they work together on a link is in `tests/all/bbr3.rs`.

use super::model::{inflight_at_loss, is_too_high};
use super::*;
use crate::HeavyLoss;

const RTT: Duration = Duration::from_millis(100);

fn flow() -> (Bbr3, Window) {
    let env = Env { now: Time::ZERO, paced: true, initial_window: 10, mss: 1448, seed: 7 };
    (Bbr3::new(&NoParams, &env), Window::new(10))
}

/// The ACK that ends a round trip, with a measured rate in segments per second.
fn round(number: u64, rate: f64, in_flight: u32) -> AckSample {
    let now = Time::ZERO + RTT.saturating_mul(number);
    let prior_delivered = 100 * (number - 1);
    let delivered = (rate * RTT.as_secs_f64()) as u32;
    let rate = RateSample {
        rate: Some(rate),
        prior_delivered,
        delivered,
        sent_in_flight: in_flight,
        ..RateSample::default()
    };
    AckSample { rate: Some(rate), in_flight, ..AckSample::of_one(now, 100 * number, RTT, in_flight + 1) }
}

/// A flow whose pipe of 1000 segments per second is full and drained, so that it is past going down.
fn full() -> (Bbr3, Window, u64) {
    let (mut bbr, mut window) = flow();
    for number in 1..=4 {
        bbr.on_sample(&mut window, &round(number, 1000.0, 200));
    }
    assert_eq!(bbr.0.phase, Phase::Drain);
    bbr.on_sample(&mut window, &round(5, 1000.0, 100));
    assert_eq!(bbr.0.phase, Phase::Cruise);
    (bbr, window, 5)
}

/// Appendix A.1 and A.3: three rounds of less than a quarter of growth, then half the rate until one
/// bandwidth-delay product is left.
#[test]
fn a_plateau_ends_the_startup_and_a_drained_pipe_the_drain() {
    let (mut bbr, mut window) = flow();
    let rates = [100.0, 130.0, 170.0, 175.0, 180.0, 185.0];
    let phases = [1, 2, 3, 4, 5, 6].map(|number| {
        bbr.on_sample(&mut window, &round(number, rates[number as usize - 1], 50));
        bbr.0.phase
    });
    assert_eq!(phases[..5], [Phase::Startup; 5]);
    assert_eq!(phases[5], Phase::Drain);
    let half = 0.5 * 185.0 * 0.99;
    assert!((bbr.0.pacing - half).abs() < 1e-9, "{}", bbr.0.pacing);
    // A bandwidth-delay product of 18.5; what is drained needs no going down.
    bbr.on_sample(&mut window, &round(7, 185.0, 20));
    assert_eq!(bbr.0.phase, Phase::Drain);
    bbr.on_sample(&mut window, &round(8, 185.0, 19));
    assert_eq!(bbr.0.phase, Phase::Cruise);
    assert!((bbr.0.pacing - 185.0 * 0.99).abs() < 1e-9, "{}", bbr.0.pacing);
}

/// Appendix A.4: where the pipe does not drain, it is given up after three rounds.
#[test]
fn a_drain_that_does_not_end_is_given_up() {
    let (mut bbr, mut window) = flow();
    let phases: Vec<Phase> = (1..=8)
        .map(|number| {
            bbr.on_sample(&mut window, &round(number, 1000.0, 300));
            bbr.0.phase
        })
        .collect();
    assert_eq!(phases[3..7], [Phase::Drain; 4]);
    assert_eq!(phases[7], Phase::Down);
}

/// Appendix A.7: rates for which the application is the limit say nothing of the pipe.
#[test]
fn a_flow_without_data_stays_in_startup() {
    let (mut bbr, mut window) = flow();
    for number in 1..=20 {
        let mut sample = round(number, 100.0, 50);
        sample.rate.as_mut().unwrap().app_limited = true;
        bbr.on_sample(&mut window, &sample);
    }
    assert_eq!(bbr.0.phase, Phase::Startup);
}

/// Section 5.3.1.3: in repair, six runs lost, more than 2 % of what was in flight, over a round trip.
#[test]
fn heavy_losses_end_the_startup_and_light_ones_do_not() {
    for (runs, lost, ends) in [(6, 5, true), (5, 5, false), (6, 4, false)] {
        let (mut bbr, mut window) = flow();
        bbr.on_sample(&mut window, &round(1, 1000.0, 200));
        bbr.ssthresh(&window, ReductionCause::Loss);
        let mut sample = round(2, 2000.0, 200);
        sample.state = State::Recovery;
        let rate = sample.rate.as_mut().unwrap();
        (rate.newly_lost, rate.lost_runs) = (lost, runs);
        bbr.on_sample(&mut window, &sample);
        assert_eq!(bbr.0.phase, Phase::Startup, "a round trip of repairs has not passed");
        let mut sample = round(3, 4000.0, 200);
        sample.state = State::Recovery;
        sample.rate.as_mut().unwrap().lost = lost;
        sample.in_flight = 300;
        bbr.on_sample(&mut window, &sample);
        assert_eq!(bbr.0.phase == Phase::Drain, ends, "{runs} runs, {lost} lost");
        if ends {
            // The most delivered in the round trip; the estimate is as large at the time.
            assert_eq!(bbr.0.long_inflight, 400);
        }
    }
}

/// Section 5.5.10.2: of 100 in flight, the fifth loss; solved for the two per cent.
#[test]
fn what_was_in_flight_at_a_loss_is_solved_for() {
    let heavy = |sent_in_flight, lost| HeavyLoss { sent_in_flight, lost, app_limited: false };
    assert_eq!(inflight_at_loss(&heavy(100, 5)), 96);
    assert_eq!(inflight_at_loss(&heavy(1000, 21)), 998);
    assert!(is_too_high(21, 1000) && !is_too_high(20, 1000));
}

/// The cycle of section 5.3.3 in its order, with the gains of section 5.6.1.
#[test]
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let (mut bbr, mut window, mut number) = full();
    let mut seen: Vec<(Phase, f64)> = Vec::new();
    for _ in 0..40 {
        number += 1;
        bbr.on_sample(&mut window, &round(number, 1000.0, 90));
        let now = (bbr.0.phase, (bbr.0.pacing / 990.0 * 100.0).round() / 100.0);
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    let cycle =
        [(Phase::Cruise, 1.0), (Phase::Refill, 1.0), (Phase::Up, 1.25), (Phase::Down, 0.9), (Phase::Cruise, 1.0)];
    assert_eq!(seen[..5], cycle);
}

/// Section 5.3.3.8: between probes 2 to 3 s, but no more rounds than there are segments in a product, 63 at
/// most. 100 ms a round: the time comes first; with 1000 in flight and 10 ms the rounds would.
#[test]
fn probes_are_two_to_three_seconds_apart() {
    let mut waits = Vec::new();
    for seed in 0..50 {
        let env = Env { now: Time::ZERO, paced: true, initial_window: 10, mss: 1448, seed: seed << 40 };
        let mut model = Model::new(&env);
        model.start_down(&round(1, 1000.0, 10));
        assert!(model.rounds_since_up <= 1);
        waits.push(model.probe_wait);
    }
    let (least, most) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*least >= Duration::from_secs(2) && *least < Duration::from_millis(2200), "{least:?}");
    assert!(*most <= Duration::from_secs(3) && *most > Duration::from_millis(2800), "{most:?}");
}

/// Section 5.5.10.3: 0.7 of what was, or what the last round trip showed.
#[test]
fn losses_while_cruising_bound_rate_and_window_until_the_next_probe() {
    let (mut bbr, mut window, mut number) = full();
    let mut next = |bbr: &mut Bbr3, window: &mut Window, rate: f64, lost: u32| {
        number += 1;
        let mut sample = round(number, rate, 90);
        sample.rate.as_mut().unwrap().newly_lost = lost;
        bbr.on_sample(window, &sample);
    };
    next(&mut bbr, &mut window, 1000.0, 0);
    let before = window.cwnd;
    next(&mut bbr, &mut window, 400.0, 1);
    next(&mut bbr, &mut window, 400.0, 0);
    assert_eq!(bbr.0.phase, Phase::Cruise);
    // In the round trip of the loss the rate before it was still seen, and less than a window delivered.
    assert_eq!(bbr.0.short_bw, 1000.0);
    assert_eq!(bbr.0.short_inflight, 100.max((f64::from(before) * 0.7) as u32));
    next(&mut bbr, &mut window, 400.0, 1);
    next(&mut bbr, &mut window, 400.0, 0);
    assert!((bbr.0.short_bw - 700.0).abs() < 1e-9, "{}", bbr.0.short_bw);
    for _ in 0..30 {
        next(&mut bbr, &mut window, 400.0, 0);
        if bbr.0.phase == Phase::Refill {
            break;
        }
    }
    assert_eq!((bbr.0.short_bw, bbr.0.short_inflight), (f64::INFINITY, UNBOUNDED));
}

/// Sections 5.3.3.5 and 5.3.3.9: the limit grows by 1, 2, 4 ... segments a round trip, and 15 % of it stay
/// free while cruising.
#[test]
fn the_limit_grows_slowly_at_first_and_leaves_room() {
    let (mut bbr, mut window, number) = full();
    bbr.0.long_inflight = 100;
    assert_eq!(bbr.0.inflight_with_headroom(), 85);
    bbr.0.phase = Phase::Up;
    bbr.0.reset_full();
    window.cwnd = 100;
    bbr.0.raise_slope(&window);
    let mut grown = Vec::new();
    for i in 1..=4 {
        let before = bbr.0.long_inflight;
        // All of the window acknowledged in a round trip, by one ACK for simplicity.
        let mut sample = round(number + i, 1000.0, 99);
        sample.delivered = window.cwnd;
        sample.rate.as_mut().unwrap().window_used = true;
        bbr.on_sample(&mut window, &sample);
        grown.push(bbr.0.long_inflight - before);
        window.cwnd = bbr.0.long_inflight;
    }
    assert_eq!(grown[0], 1);
    assert!(grown[1] == 2 && (4..=5).contains(&grown[2]) && (8..=10).contains(&grown[3]), "{grown:?}");
}

/// Section 5.3.3.6: the probe after one that went too high only touches the limit, and if nothing is lost
/// the next follows at once.
#[test]
fn a_probe_that_lost_too_much_makes_the_next_a_cautious_one() {
    let (mut bbr, mut window, mut number) = full();
    let mut next = |bbr: &mut Bbr3, window: &mut Window, in_flight: u32, heavy: Option<HeavyLoss>| {
        number += 1;
        let mut sample = round(number, 1000.0, in_flight);
        let rate = sample.rate.as_mut().unwrap();
        rate.newly_lost = u32::from(heavy.is_some()) * 5;
        rate.heavy_loss = heavy;
        bbr.on_sample(window, &sample);
        bbr.0.phase
    };
    while next(&mut bbr, &mut window, 90, None) != Phase::Up {}
    let heavy = HeavyLoss { sent_in_flight: 150, lost: 5, app_limited: false };
    assert_eq!(next(&mut bbr, &mut window, 120, Some(heavy)), Phase::Down);
    assert_eq!(bbr.0.long_inflight, 147);
    assert!(bbr.0.too_high);
    // Below half of the product, since the RTT is probed meanwhile.
    while next(&mut bbr, &mut window, 40, None) != Phase::Up {}
    assert_eq!(next(&mut bbr, &mut window, 147, None), Phase::Down, "it touched the limit");
    assert!(bbr.0.precautionary && !bbr.0.too_high);
    assert_eq!(next(&mut bbr, &mut window, 90, None), Phase::Refill, "nothing was lost");
}

/// Section 5.5.11.2: what was taken for lost had only been late.
#[test]
fn a_repair_in_vain_gives_back_what_it_took() {
    let (mut bbr, mut window, mut number) = full();
    let mut next = |bbr: &mut Bbr3, window: &mut Window, state: State, heavy: Option<HeavyLoss>| {
        number += 1;
        let mut sample = round(number, 1000.0, 90);
        sample.state = state;
        sample.in_flight += 30 * u32::from(heavy.is_some());
        let rate = sample.rate.as_mut().unwrap();
        rate.newly_lost = u32::from(heavy.is_some()) * 5;
        rate.heavy_loss = heavy;
        bbr.on_sample(window, &sample);
        bbr.0.phase
    };
    while next(&mut bbr, &mut window, State::Open, None) != Phase::Up {}
    bbr.ssthresh(&window, ReductionCause::Loss);
    let heavy = HeavyLoss { sent_in_flight: 150, lost: 5, app_limited: false };
    assert_eq!(next(&mut bbr, &mut window, State::Recovery, Some(heavy)), Phase::Down);
    assert_eq!(bbr.0.long_inflight, 147);
    bbr.on_undo();
    assert_eq!((bbr.0.phase, bbr.0.long_inflight), (Phase::Refill, UNBOUNDED));
}

/// A mark is answered like a loss where no more than one is told per round trip (sections 3.7, 5.5.10.2).
#[test]
fn a_mark_ends_startup_and_probe_and_bounds_the_window() {
    let (mut bbr, mut window) = flow();
    bbr.on_sample(&mut window, &round(1, 1000.0, 100));
    bbr.ssthresh(&window, ReductionCause::Mark);
    bbr.on_sample(&mut window, &round(2, 2000.0, 190));
    assert_ne!(bbr.0.phase, Phase::Startup);
    let (mut bbr, mut window, mut number) = full();
    while bbr.0.phase != Phase::Up {
        number += 1;
        bbr.on_sample(&mut window, &round(number, 1000.0, 90));
    }
    bbr.ssthresh(&window, ReductionCause::Mark);
    bbr.on_sample(&mut window, &round(number + 1, 1000.0, 110));
    assert_eq!((bbr.0.phase, bbr.0.long_inflight), (Phase::Down, 110));
}
