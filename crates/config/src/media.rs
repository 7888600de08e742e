//! Links whose sender has to win or to be granted its turn: radio as in IEEE 802.11, and the upstream of a
//! cable.

use crate::limits::{FASTEST, SLOWEST};
use crate::problems::Problems;
use crate::schema::{Check, Here, or, required, within};
use weir_units::{Bytes, Duration, NANOS_PER_SEC, Rate};

/// Delimiter of an A-MPDU subframe, MAC header with QoS control, LLC and SNAP header, frame check sequence
/// (IEEE 802.11-2020, 9.7.1, 9.2.3, 9.2.4.8; 5.1.4 of RFC 1042 for LLC).
const AROUND_PACKET: u64 = 4 + 26 + 8 + 4;
/// Service field and tail bits of a transmission (IEEE 802.11-2020, 17.3.5.1).
const SERVICE_AND_TAIL: u64 = 16 + 6;
/// The packet that aggregates are planned for.
pub(crate) const FULL: u32 = 1500;

section! {
    /// A link that is sent by radio as in IEEE 802.11: its sender contends for the medium, then sends what
    /// waits, many packets at once, and gets one acknowledgement for all. The links of one `medium` contend
    /// with each other; those that begin at one node are sent by one radio, which serves them in turn. It
    /// takes the place of `rate`, which is then what the link carries alone, with packets of 1500 bytes. The
    /// defaults are those of 802.11ac at 5 GHz with two spatial streams, for best effort.
    pub struct Wifi {
        /// Rate at which packets are sent, without all overheads, such as "866.7Mbit/s" or "144.4Mbit/s".
        phy_rate: Rate = required(within(SLOWEST, FASTEST));
        /// Most packets that are sent at once (A-MPDU): 42 for 802.11n, whose 64 KiB end there, 64 for
        /// 802.11ac, 256 for 802.11ax; 1 for none.
        aggregate: u32 = or(64, within(1, 256));
        /// Longest transmission; one packet is always sent.
        longest: Duration = or(Duration::from_micros(5484), within(Duration::from_micros(100), Duration::from_millis(10)));
        /// Preamble and headers of a transmission, before its first packet.
        preamble: Duration = or(Duration::from_micros(44), within(Duration::ZERO, Duration::from_millis(1)));
        /// From the end of a transmission to the end of its acknowledgement; as much passes where none comes.
        acknowledged: Duration = or(Duration::from_micros(48), within(Duration::ZERO, Duration::from_millis(1)));
        /// For how long the medium has to be idle before slots are counted (AIFS, or DIFS).
        idle: Duration = or(Duration::from_micros(43), within(Duration::ZERO, Duration::from_millis(1)));
        /// Length of a slot.
        slot: Duration = or(Duration::from_micros(9), within(Duration::from_micros(1), Duration::from_millis(1)));
        /// Contention window: so many slots are waited at most, drawn uniformly (CWmin).
        window: u32 = or(15, within(0, 32_767));
        /// The window doubles with each collision up to this (CWmax).
        window_max: u32 = or(1023, within(0, 32_767));
    }
}

impl Check for Wifi {
    fn check(&mut self, here: &Here, p: &mut Problems) {
        if self.window_max < self.window {
            let problem = format!("{} is less than `window`, {}", self.window_max, self.window);
            here.wrong(p, "window_max", problem, "raise it, or lower `window`");
        }
    }
}

impl Wifi {
    /// The bytes that an IP packet takes in an aggregate: subframes are padded to a multiple of four.
    pub fn bytes_of(&self, ip: u32) -> u64 {
        (u64::from(ip) + AROUND_PACKET).next_multiple_of(4)
    }

    /// How long packets of so many bytes together are in the air.
    pub fn air_time(&self, bytes: u64) -> Duration {
        let bits = u128::from(bytes * 8 + SERVICE_AND_TAIL);
        let nanos = (bits * u128::from(NANOS_PER_SEC)).div_ceil(u128::from(self.phy_rate.as_bps().max(1)));
        self.preamble + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4))
    }

    /// Whether one more full packet may follow so many packets of so many bytes.
    pub fn takes_more(&self, packets: u32, bytes: u64) -> bool {
        packets < self.aggregate && self.air_time(bytes + self.bytes_of(FULL)) <= self.longest
    }

    /// What the link carries with nobody else on the medium, all aggregates full of packets of 1500 bytes
    /// that count so much.
    pub(crate) fn capacity(&self, counted: Bytes) -> Rate {
        let (mut packets, each) = (1, self.bytes_of(FULL));
        while self.takes_more(packets, u64::from(packets) * each) {
            packets += 1;
        }
        let wait = self.idle + Duration::from_nanos(self.slot.as_nanos() * u64::from(self.window) / 2);
        let turn = wait + self.air_time(u64::from(packets) * each) + self.acknowledged;
        let bits = u128::from(packets) * u128::from(counted.get() * 8);
        let rate = bits * u128::from(NANOS_PER_SEC) / u128::from(turn.as_nanos().max(1));
        Rate::from_bps(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

section! {
    /// A link whose sender asks for its turn and is granted it, as the upstream of DOCSIS. Time is divided in
    /// intervals. A modem with packets asks, and is granted the bytes it asked for some intervals later.
    /// While it sends, it asks for what came meanwhile (piggyback); else it asks where all may, and
    /// requests of
    /// several modems can collide. `rate` is what is granted in all; the modems that share a `medium` get
    /// equal parts of it.
    pub struct Grants {
        /// Length of an interval, from one map of grants to the next.
        interval: Duration = or(Duration::from_millis(2), within(Duration::from_micros(200), Duration::from_millis(20)));
        /// Intervals from that of a request to that of its grant.
        lead: u32 = or(2, within(1, 10));
        /// Opportunities of each interval for requests of whoever has nothing granted.
        opportunities: u32 = or(8, within(1, 1000));
    }
}

impl Check for Grants {
    fn check(&mut self, _: &Here, _: &mut Problems) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wifi(phy_rate: Rate, aggregate: u32) -> Wifi {
        let us = Duration::from_micros;
        Wifi {
            phy_rate,
            aggregate,
            longest: us(5484),
            preamble: us(44),
            acknowledged: us(48),
            idle: us(43),
            slot: us(9),
            window: 15,
            window_max: 1023,
        }
    }

    #[test]
    fn the_capacity_is_what_is_sent_in_a_turn_divided_by_its_length() {
        // 866.7 Mbit/s: 64 packets of 1544 bytes are 912.1 us of bits; 43 + 67.5 + 44 + 48 us besides.
        let told = wifi(Rate::from_bps(866_700_000), 64).capacity(Bytes::new(1500));
        assert!((told.as_bps_f64() / (64.0 * 12_000.0 / 1114.6e-6) - 1.0).abs() < 1e-3, "{told}");
        // 65 Mbit/s: 5440 us are 28 packets.
        let told = wifi(Rate::from_mbps(65), 64).capacity(Bytes::new(1500));
        let turn = 43e-6 + 67.5e-6 + 44e-6 + (28.0 * 1544.0 * 8.0 + 22.0) / 65e6 + 48e-6;
        assert!((told.as_bps_f64() / (28.0 * 12_000.0 / turn) - 1.0).abs() < 1e-3, "{told}");
        assert!(!wifi(Rate::from_bps(1000), 64).takes_more(1, 1544), "a slow radio sends one packet");
    }
}
