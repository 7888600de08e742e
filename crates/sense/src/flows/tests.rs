use super::*;
use weir_wire::quic::QuicPackets;
use weir_wire::tcp::Segment;

fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn data(seq: u32) -> Transport {
    Transport::Tcp(Segment { seq, ack: Some(1), len: 1000, ..Segment::default() })
}

fn ack(ack: u32) -> Transport {
    Transport::Tcp(Segment { seq: 1, ack: Some(ack), ..Segment::default() })
}

/// Two segments of a flow at `at`, acknowledged 40 ms later.
fn round<const N: usize>(flows: &mut Flows<N>, key: u32, at: u64, seq: u32) -> Seen {
    flows.observe(ms(at), Way::ToUser, key, 1040, &data(seq));
    flows.observe(ms(at), Way::ToUser, key, 1040, &data(seq.wrapping_add(1000)));
    flows.observe(ms(at + 40), Way::FromUser, key, 40, &ack(seq.wrapping_add(2000)))
}

#[test]
fn a_flow_enters_the_mean_once_in_a_quarter_of_the_smallest_round_trip() {
    let mut flows = Flows::<4>::default();
    let entered = |seen: Seen| (seen.rtt.map(|r| r.rtt), seen.enters_mean, seen.delivered.get());
    let rtt = Some(Duration::from_millis(40));
    assert_eq!(entered(round(&mut flows, 7, 0, 0)), (rtt, true, 2000));
    assert_eq!(entered(round(&mut flows, 7, 5, 2000)), (rtt, false, 2000));
    assert_eq!(entered(round(&mut flows, 8, 6, 0)), (rtt, true, 2000), "another flow");
    assert_eq!(entered(round(&mut flows, 7, 10, 4000)), (rtt, true, 2000));
    assert_eq!(flows.in_flight(7), Some(Bytes::ZERO));
    assert_eq!(flows.in_flight(9), None);
}

#[test]
fn a_million_flows_do_not_push_out_those_that_are_measured() {
    let mut flows = Flows::<4>::default();
    let mut seq = 0;
    for n in 0..100_000u32 {
        let at = u64::from(n);
        flows.observe(ms(at), Way::ToUser, 1_000 + n, 40, &data(0));
        if n % 50 == 0 {
            let seen = round(&mut flows, 7, at, seq);
            assert!(seen.rtt.is_some(), "at {at} ms");
            seq += 2000;
        }
    }
    // A flow for each place, all measured: nobody else finds one.
    for key in 0..4 {
        round(&mut flows, key, 200_000, 0);
    }
    let before = flows.suspicions().untracked;
    flows.observe(ms(200_050), Way::ToUser, 98, 40, &Transport::Other);
    assert_eq!(flows.suspicions().untracked, before, "it shows nothing and asks for no place");
    flows.observe(ms(200_050), Way::ToUser, 99, 40, &data(0));
    assert_eq!(flows.suspicions().untracked, before + 1);
}

#[test]
fn coverage_is_the_share_of_bytes_of_flows_that_are_measured() {
    let mut flows = Flows::<4>::default();
    assert_eq!(flows.coverage().share(), None);
    round(&mut flows, 7, 0, 0);
    assert_eq!(flows.coverage().share(), Some(0.0));
    flows.observe(ms(50), Way::ToUser, 7, 1040, &data(2000));
    flows.observe(ms(50), Way::ToUser, 8, 1040, &Transport::Other);
    assert_eq!(flows.coverage(), Coverage { bytes: 4160, live: 1040 });
    flows.observe(ms(2100), Way::ToUser, 7, 1040, &data(3000));
    assert_eq!(flows.coverage().live, 1040, "two seconds later nothing is known");
    assert!(
        !flows.is_idle(ms(2500), Duration::from_secs(1)) && flows.is_idle(ms(3200), Duration::from_secs(1))
    );
}

#[test]
fn what_quic_has_in_flight_follows_from_rate_and_round_trip_time() {
    let mut flows = Flows::<4>::default();
    let quic = |handshake| Transport::Quic(QuicPackets { handshake, ..QuicPackets::default() });
    flows.observe(ms(0), Way::ToUser, 7, 1200, &quic(true));
    let seen = flows.observe(ms(100), Way::FromUser, 7, 1200, &quic(true));
    assert_eq!(seen.rtt.map(|r| r.rtt), Some(Duration::from_millis(100)));
    let mut last = Seen::default();
    for n in 0..200 {
        // 1250 bytes each millisecond: 10 Mbit/s, so that 125 kB are under way in 100 ms.
        last = flows.observe(ms(100 + n), Way::ToUser, 7, 1250, &quic(false));
    }
    let flight = last.in_flight.unwrap().get();
    assert!((120_000..=130_000).contains(&flight), "{flight}");
}

#[test]
fn the_table_of_a_user_is_small() {
    assert!(size_of::<Slot>() <= 576, "{}", size_of::<Slot>());
}
