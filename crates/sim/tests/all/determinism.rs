//! The same scenario and seed give the same bits, everywhere and whatever else is asked.

use crate::common;

use common::{quiet, run};

const LINK: &str =
    "[link]\nrate = \"100Mbit/s\"\njitter = \"100us\"\nloss = \"0.1%\"\n[path]\nrtt = \"20ms\"\n";

fn mixed() -> String {
    let flows = "[[flows]]\ncount = 3\nrtt = [\"5ms\", \"50ms\"]\n[[flows]]\ncongestion = \"bbr\"\n\
                 [[flows]]\ntransfer = \"200kB\"\nevery = \"300ms\"\ncongestion = \"reno\"\nip = 6\n\
                 [[flows]]\nudp_rate = \"5Mbit/s\"\nudp_pattern = \"poisson\"\n\
                 [[flows]]\ncount = 2\n[flows.web]\n";
    quiet(&format!("{LINK}[aqm]\nname = \"codel\"\n"), flows, "10s")
}

fn steered() -> String {
    let link = format!("{LINK}[aqm]\nname = \"gsp\"\n[policy]\n");
    quiet(&link, "[[flows]]\ncount = 5\necn = true\n[[flows]]\ncongestion = \"dctcp\"\n", "10s")
}

fn several() -> String {
    let links = "[[links]]\nname = \"up\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20Mbit/s\"\ndelay = \"3ms\"\n\
                 [links.aqm]\nname = \"codel\"\n\
                 [[links]]\nname = \"down\"\nfrom = \"b\"\nto = \"a\"\nrate = \"30Mbit/s\"\ndelay = \"4ms\"\n";
    let flows = "[[flows]]\ncount = 2\nfrom = \"a\"\nto = \"b\"\n[[flows]]\nfrom = \"b\"\nto = \"a\"\n";
    quiet(links, flows, "10s")
}

#[test]
fn two_runs_are_the_same_to_the_last_bit() {
    for text in [mixed(), steered(), several()] {
        let (a, b, other) = (run(&text, 1), run(&text, 1), run(&text, 2));
        assert_eq!((a.trace_hash, a.counts), (b.trace_hash, b.counts));
        assert_eq!(format!("{:?}", a.recording), format!("{:?}", b.recording));
        assert_ne!(a.trace_hash, other.trace_hash);
    }
}

/// Several flows over every algorithm, and over every discipline: what comes of all of them together.
fn every(names: &[&str], link: impl Fn(&str) -> String) -> u64 {
    let flows = "[[flows]]\ncount = 4\necn = true\n[[flows]]\nudp_rate = \"2Mbit/s\"\n";
    // What is there for tests alone is not always there.
    let names = names.iter().filter(|name| **name != "every_nth");
    names.fold(0, |hash: u64, name| {
        let rate = "[link]\nrate = \"20Mbit/s\"\n[path]\nrtt = \"20ms\"\n";
        let one = run(&quiet(&format!("{rate}{}", link(name)), flows, "4s"), 1).trace_hash;
        (hash.rotate_left(5) ^ one).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Trace hashes of the reference runs, made by a release build; a debug build must agree.
const REFERENCE: [(&str, u64); 5] = [
    ("end hosts of several kinds", 0x565d_46ba_ad02_1799),
    ("a steered queue", 0x66df_2c27_865c_acb0),
    ("several links", 0xd172_1d54_555e_519b),
    ("all algorithms together", 0x3b06_b35d_526e_0be6),
    ("all disciplines together", 0xe7e1_2fe9_a6f9_ab9b),
];

#[test]
fn the_hashes_are_those_of_every_machine() {
    let [a, b, c] = [mixed(), steered(), several()].map(|text| run(&text, 1).trace_hash);
    let algorithms = every(weir_aqm::names(), |name| format!("[aqm]\nname = \"{name}\"\n"));
    let disciplines = every(weir_queue::names(), |name| {
        let aqm = if name == "dualpi2" { "" } else { "[aqm]\nname = \"codel\"\n" };
        format!("{aqm}[queue]\ndiscipline = \"{name}\"\n")
    });
    for ((runs, expected), hash) in REFERENCE.into_iter().zip([a, b, c, algorithms, disciplines]) {
        assert_eq!(
            hash, expected,
            "the trace hash of {runs} is {hash:#018x} and was {expected:#018x}. If the list grew, or behaviour was changed \
             on purpose, write the new one into REFERENCE; otherwise runs are no longer the same everywhere"
        );
    }
}
