//! Whatever the network does, everything arrives; whatever an ACK says, nothing breaks.

use crate::link;

use link::*;
use proptest::prelude::*;
use weir_tcp::{
    Ack, Congestion, EcnMode, Pacing, ReceiverConfig, Recovery, Sender, SenderConfig, congestion,
};
use weir_units::{Duration, Time};

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Pass),
        2 => Just(Fate::Drop),
        1 => Just(Fate::Mark),
        1 => Just(Fate::Twice),
        2 => (0u64..300_000).prop_map(|us| Fate::Late(Duration::from_micros(us))),
    ]
}

fn config() -> impl Strategy<Value = (SenderConfig, EcnMode)> {
    let ecn = prop_oneof![
        Just(EcnMode::Off),
        Just(EcnMode::Classic),
        Just(EcnMode::Dctcp),
        Just(EcnMode::Accurate)
    ];
    let pacing = prop_oneof![Just(Pacing::Default), Just(Pacing::On), Just(Pacing::Off)];
    (ecn, pacing, any::<bool>(), 1u32..20, 1u32..20, any::<bool>(), 1u32..=2).prop_map(
        |(ecn, pacing, sack, iw, burst, hystart, window_min)| {
            let recovery = if sack { Recovery::RackPrr } else { Recovery::NewReno };
            let config = SenderConfig {
                ecn,
                pacing,
                recovery,
                initial_window: iw,
                burst,
                control: with_hystart(hystart),
                window_min,
                ..SenderConfig::default()
            };
            (config, ecn)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn everything_arrives(
        forward in proptest::collection::vec(fate(), 0..300),
        backward in proptest::collection::vec(fate(), 0..200),
        which in 0..congestion::names().len(),
        (config, ecn) in config(),
        writes in proptest::collection::vec(1u64..200_000, 1..4),
        service_us in 1u64..2000,
        ack_every in 1u32..6,
    ) {
        let receiver = ReceiverConfig { ecn, ack_every, window: 500, ..ReceiverConfig::default() };
        let mut link = Link::new(congestion::names()[which], &config, &receiver);
        link.service = Duration::from_micros(service_us);
        link.delay = ms(10);
        link.judge = Box::new(move |_, i| forward.get(i as usize).copied().unwrap_or(Fate::Pass));
        link.judge_ack = Box::new(move |_, i| backward.get(i as usize).copied().unwrap_or(Fate::Pass));
        link.watch = Box::new(|_, s| {
            let info = s.info();
            assert!(info.cwnd >= 1);
            // A retransmission counts beside the original that it repeats.
            assert!(u64::from(info.in_flight) <= 2 * (info.nxt - info.una), "{info:?}");
        });
        let mut total = 0;
        for bytes in writes {
            link.sender.write(bytes);
            total += bytes;
            prop_assert!(link.run_to_the_end(Duration::from_secs(100_000)).is_some(), "{:?}", link.sender.info());
        }
        prop_assert_eq!(link.receiver.received_bytes(), total);
        link.run_until(link.now + Duration::from_secs(1000));
        prop_assert_eq!(link.sender.next_timeout(), None);
        prop_assert_eq!(link.receiver.next_timeout(), None);
        prop_assert_eq!(link.sender.info().in_flight, 0);
    }

    #[test]
    fn no_ack_breaks_a_sender(
        which in 0..congestion::names().len(),
        (config, _) in config(),
        acks in proptest::collection::vec(
            (0u64..60, proptest::array::uniform3((0u64..60, 0u64..60)), 0u64..100, any::<u32>(), any::<u32>(), any::<bool>(), 0u64..400, any::<bool>()),
            0..200,
        ),
    ) {
        let congestion = Congestion::by_name(congestion::names()[which]).unwrap();
        let mut sender = Sender::new(&config, congestion, Time::ZERO);
        sender.set_unlimited(true);
        let mut now = Time::ZERO;
        for (ahead, blocks, echo, number, ce, ece, wait, timeout) in acks {
            let mut n = 0;
            while sender.poll(now).is_some() {
                n += 1;
                prop_assert!(n < 1_000_000);
            }
            now += Duration::from_millis(wait);
            if timeout {
                sender.on_timeout(now);
            }
            let info = sender.info();
            let base = info.una.saturating_sub(5);
            let ack = Ack {
                next: base + ahead,
                sacks: blocks.map(|(a, b)| (base + a, base + b)),
                echo: Time::from_nanos(echo * 1_000_000),
                window: 1000,
                ce,
                number,
                ece,
                spin: false,
            };
            sender.on_ack(now, &ack);
            let after = sender.info();
            prop_assert!(after.cwnd >= 1 && after.una <= after.nxt && after.una >= info.una);
            prop_assert_eq!(after.invalid_acks - info.invalid_acks, u64::from(ack.next > info.nxt));
        }
    }
}
