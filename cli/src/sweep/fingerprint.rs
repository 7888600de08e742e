//! Fingerprints: what a result belongs to, and whether a file is whole.

use crate::results::trace_text;
use std::fmt;
use weir_scenario::Scenario;

/// Changes when the same run would give another file: other columns, or another form.
const FORMAT: u32 = 2;

/// A hash of 128 bits (FNV-1a of Fowler, Noll and Vo; draft-eastlake-fnv). It guards against accidents, not against forgers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(u128);

const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

impl Fingerprint {
    /// Of a text.
    pub fn of(text: &str) -> Fingerprint {
        Fingerprint(BASIS).and(text)
    }

    /// Of this and a text after it.
    pub fn and(self, text: &str) -> Fingerprint {
        let step = |hash: u128, byte: &u8| (hash ^ u128::from(*byte)).wrapping_mul(PRIME);
        // The length keeps two texts apart from one that is both.
        let hash = text.as_bytes().iter().fold(self.0, step);
        Fingerprint((text.len() as u64).to_le_bytes().iter().fold(hash, step))
    }

    /// Of what computes: the version, the form of files, and the behaviour of the models.
    pub fn of_models() -> Fingerprint {
        let program = Fingerprint::of(env!("CARGO_PKG_VERSION")).and(&FORMAT.to_string());
        weir_sim::MODEL.iter().fold(program, |hash, model| hash.and(&format!("{model:016x}")))
    }

    /// Of a point of a sweep: its scenario in canonical form with its traces, and the models that run it. Not of
    /// the number of seeds, so that a sweep can get more of them.
    pub fn of_point(scenario: &Scenario) -> Fingerprint {
        let mut one = scenario.clone();
        one.run.seeds = 1;
        one.record = None;
        let mut hash = Fingerprint::of_models().and(&one.to_toml());
        for link in scenario.network().links {
            if let Some(trace) = link.variation.trace() {
                hash = hash.and(&trace_text(trace));
            }
        }
        hash
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv() {
        // Published test vectors, without the length that is added here.
        let plain = |text: &str| {
            let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
            text.bytes().fold(BASIS, step)
        };
        assert_eq!(plain("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(plain("foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
        assert_ne!(Fingerprint::of("ab").and("c"), Fingerprint::of("a").and("bc"));
    }

    #[test]
    fn everything_but_the_number_of_seeds_counts() {
        let point = |more: &str| {
            let text = format!(
                "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"gsp\"\nflows = [{{}}]\n\
                 run.duration = \"5s\"\n{more}"
            );
            Fingerprint::of_point(&Scenario::parse("x", &text).unwrap())
        };
        assert_eq!(point(""), point("run.seeds = 7"));
        assert_eq!(point(""), point("aqm.ecn = true"), "a default says nothing new");
        assert_ne!(point(""), point("aqm.ecn = false"));
        assert_ne!(point(""), point("run.warmup = \"1s\""));
    }
}
