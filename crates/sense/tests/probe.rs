//! Whatever comes from the wire: nothing panics, nothing foreign is believed, counts add up.

use proptest::prelude::*;
use weir_sense::probe::{Addresses, Probe, Sensor, Settings, Stamp};
use weir_units::{Bytes, Duration, Time};

fn addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>())
            .prop_map(|(source, destination)| Addresses::V4 { source, destination }),
        (any::<[u8; 16]>(), any::<[u8; 16]>())
            .prop_map(|(source, destination)| Addresses::V6 { source, destination }),
    ]
}

fn probe() -> impl Strategy<Value = Probe> {
    let stamp = (any::<u16>(), any::<u16>(), 0..1u64 << 48, 0..64u8);
    (addresses(), any::<u8>(), stamp).prop_map(|(addresses, hops, (sequence, nonce, sent, dscp))| Probe {
        addresses,
        hops,
        stamp: Stamp { sequence, nonce, sent, dscp },
    })
}

proptest! {
    #[test]
    fn any_bytes_are_parsed_or_refused(packet in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Probe::parse(&packet);
    }

    #[test]
    fn any_probe_is_read_back(probe in probe(), padding in 0..20usize) {
        let mut buffer = [0u8; 70];
        let len = probe.write(&mut buffer).unwrap();
        prop_assert_eq!(Probe::parse(&buffer[..len + padding]), Ok(probe));
        prop_assert!(Probe::parse(&buffer[..len - 1]).is_err());
    }

    #[test]
    fn a_spoilt_probe_is_refused_or_still_well_formed(probe in probe(), at in 0..48usize, bits in 1..=255u8) {
        let mut buffer = [0u8; 48];
        let len = probe.write(&mut buffer).unwrap();
        buffer[at] ^= bits;
        if let Ok(read) = Probe::parse(&buffer[..len]) {
            let mut again = [0u8; 48];
            prop_assert_eq!(read.write(&mut again), Ok(len));
            // The two ECN bits, which routers may set, are the only ones that are not read. On IPv4 the don't
            // fragment bit is covered by the checksum.
            let ecn = match read.addresses { Addresses::V4 { .. } => usize::MAX, Addresses::V6 { .. } => 1 };
            for i in 0..len {
                let mask = if i == ecn { 0xcf } else { 0xff };
                prop_assert_eq!(again[i] & mask, buffer[i] & mask, "byte {}", i);
            }
        }
    }

    #[test]
    fn counts_add_up_whatever_a_gateway_does(script in prop::collection::vec((0..6u8, any::<u16>()), 0..400)) {
        let mut sensor = Sensor::new(Settings::default(), 77);
        let (mut now, mut sent, mut replies) = (Time::ZERO, Vec::new(), 0u64);
        for (what, n) in script {
            match what {
                0..=2 => sent.extend(sensor.on_data(now, Bytes::new(1500), 0)),
                3 => now += Duration::from_micros(u64::from(n) * 20),
                4 => {
                    if let Some(stamp) = sent.get(usize::from(n) % sent.len().max(1)) {
                        replies += 1;
                        let _ = sensor.on_return(now, stamp);
                    }
                }
                _ => {
                    replies += 1;
                    let foreign = Stamp { sequence: n, nonce: n, sent: u64::from(n), dscp: 0 };
                    let _ = sensor.on_return(now, &foreign);
                }
            }
            if sensor.next_timer().is_some_and(|due| due <= now) {
                let _ = sensor.on_timer(now);
                prop_assert!(sensor.next_timer().is_none_or(|due| due > now));
            }
        }
        let c = sensor.counters();
        prop_assert_eq!(c.sent, sent.len() as u64);
        prop_assert_eq!(c.returned + c.duplicated + c.forged + c.unknown + c.future, replies);
        prop_assert!(c.returned <= c.sent && c.late <= c.returned && c.reordered <= c.returned);
        prop_assert!(c.returned + c.lost - c.late <= c.sent, "each is back, given up or underway");
    }
}
