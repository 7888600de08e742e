//! Fingerprints: what a result belongs to, and whether a file is whole.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use weir_config::Scenario;

/// What is read of the program at a time.
const CHUNK: usize = 1 << 16;

/// A hash of 128 bits (FNV-1a of Fowler, Noll and Vo; draft-eastlake-fnv). It guards against accidents, not
/// against forgers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(u128);

const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

fn fnv(hash: u128, bytes: &[u8]) -> u128 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

impl Fingerprint {
    /// Of a text.
    pub fn of(text: &str) -> Fingerprint {
        Fingerprint(BASIS).and(text)
    }

    /// Of this and a text after it.
    pub fn and(self, text: &str) -> Fingerprint {
        // The length keeps two texts apart from one that is both.
        Fingerprint(fnv(fnv(self.0, text.as_bytes()), &(text.len() as u64).to_le_bytes()))
    }

    /// Of the program that runs: of every byte of its file, so that no result of another build, with other
    /// algorithms or models, is taken for one of this build.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn of_program() -> io::Result<Fingerprint> {
        // On Linux this is the file that runs, also where it has been replaced or removed since it was
        // started.
        let running = File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?));
        running.and_then(Fingerprint::of_bytes)
    }

    fn of_bytes(mut from: impl Read) -> io::Result<Fingerprint> {
        let (mut hash, mut chunk) = (BASIS, vec![0; CHUNK]);
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return Ok(Fingerprint(hash)),
                Ok(read) => hash = fnv(hash, &chunk[..read]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Of a point of a sweep: its scenario in canonical form with its traces and pages. Not of the number of
    /// seeds, so that a sweep can get more of them.
    pub fn of_point(scenario: &Scenario) -> Fingerprint {
        let mut one = scenario.clone();
        one.run.seeds = 1;
        one.record = None;
        let mut hash = Fingerprint::of(&one.to_toml());
        for link in scenario.network().links {
            if let Some(trace) = link.variation.trace() {
                hash = hash.and(&trace.to_text());
            }
        }
        let pages = scenario.flows.iter().filter_map(|flows| flows.page.as_ref()?.file.as_ref());
        for file in pages {
            hash = hash.and(&file.page.to_toml());
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
        // Published test vectors, without the length that texts get.
        let plain = |text: &str| Fingerprint::of_bytes(text.as_bytes()).unwrap().0;
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

    #[test]
    fn what_a_page_file_says_counts_and_not_how_it_is_written() {
        let folder = std::env::temp_dir().join(format!("weir-fingerprint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("scenario.toml");
        let text = "title = \"x\"\nlink.rate = \"10Mbit/s\"\npath.rtt = \"20ms\"\naqm.name = \"gsp\"\n\
             flows = [{ page = { file = \"page.toml\" } }]\nrun.duration = \"5s\"\n";
        std::fs::write(&path, text).unwrap();
        let of = |size: &str| {
            let page = format!("# Whatever.\n[[objects]]\nname = \"document\"\nsize = \"{size}\"\n");
            std::fs::write(folder.join("page.toml"), page).unwrap();
            Fingerprint::of_point(&Scenario::load(&path).unwrap())
        };
        let told = ["30kB", "31kB", "30000B"].map(of);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_ne!(told[0], told[1]);
        assert_eq!(told[0], told[2]);
    }
}
