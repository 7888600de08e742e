//! The same scenario and seed give the same bits, everywhere and whatever else is asked.

mod common;

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

/// The hashes were made by a release build; a debug build must agree. They change whenever behaviour does.
#[test]
fn the_hashes_are_those_of_every_machine() {
    let hashes = [mixed(), steered(), several()].map(|text| run(&text, 1).trace_hash);
    assert_eq!(hashes, GOLDEN, "{hashes:#018x?}");
}

const GOLDEN: [u64; 3] = [0xf178_16c9_2ee8_c004, 0x66df_2c27_865c_acb0, 0xd172_1d54_555e_519b];
