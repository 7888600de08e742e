//! Fuzz targets: what to do with any sequence of bytes, so that wrong code panics.
//!
//! A target is a function of bytes. `cargo test` calls it with some hundred random sequences; `make fuzz`
//! lets a fuzzer that sees which code was reached choose them, for longer. Algorithms and disciplines have
//! targets made from their lists.
#![forbid(unsafe_code)]

mod bytes;
mod hostile;
mod machines;
mod overseer;
mod parsers;
mod queues;
mod sessions;
mod tunnels;

pub use hostile::{filters, pfcp_octets};
pub use machines::{algorithm, discipline};
pub use overseer::Overseer;
pub use parsers::{configuration, frame, journal, scenario, sensed, trace, upf_configuration};
pub use queues::tc_message;
pub use sessions::{pfcp, sdf_filter};
pub use tunnels::{gtpu, user_plane};

#[cfg(fuzzing)]
#[doc(hidden)]
pub use bolero;

/// Declares tests that are fuzz targets: name, number of random sequences in a plain run, function of bytes.
#[macro_export]
macro_rules! targets {
    ($($(#[$gate:meta])* $name:ident: $cases:expr, $target:expr;)*) => {$(
        $(#[$gate])*
        #[test]
        fn $name() {
            #[cfg(fuzzing)]
            $crate::bolero::check!().for_each($target);
            #[cfg(not(fuzzing))]
            $crate::try_random($cases, $target);
        }
    )*};
}

/// Longest random sequence. Scripts of this length fill queues and work them off several times.
const LENGTH_MAX: usize = 1500;

/// Calls a target with random sequences; panics with the shortest one that makes it panic.
///
/// `PROPTEST_CASES` tries more, `PROPTEST_RNG_SEED` the same again.
pub fn try_random(cases: u32, target: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    use proptest::prelude::*;
    use proptest::test_runner::{Config, TestRunner};
    let wished = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if wished { Config::default().cases } else { cases };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let sequences = prop::collection::vec(any::<u8>(), 0..LENGTH_MAX);
    let found = TestRunner::new(config).run(&sequences, |bytes| {
        target(&bytes);
        Ok(())
    });
    if let Err(error) = found {
        panic!("{error}");
    }
}
