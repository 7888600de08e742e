//! The header reader against a corpus of damaged frames, and against frames made from it at random.
//!
//! `cargo test` tries many thousand frames. For longer:
//!
//! ```text
//! PROPTEST_CASES=20000000 cargo test --release -p weir-wire --test all corpus
//! ```
//!
//! What is found is printed as a frame in the corpus's form, to be added to it.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use weir_units::Ecn;
use weir_wire::dscp::{Dscp, Remarks};
use weir_wire::frame::{Headers, Kind, complete_checksum};

/// What is tested, so that a broken one can take its place.
#[derive(Clone, Copy)]
struct Reader {
    read: fn(&[u8]) -> Headers,
    mark: fn(&mut [u8], Kind, u16),
    remark: fn(&mut [u8], Kind, u16, &Remarks),
}

const REAL: Reader =
    Reader { read: weir_wire::frame::read, mark: weir_wire::frame::mark, remark: weir_wire::frame::remark };

struct Sample {
    name: String,
    reads_as: String,
    frame: Vec<u8>,
}

fn corpus() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| sample(&path)).collect()
}

/// Comments begin with `#`; one of them says what the frame reads as. All else is hexadecimal bytes.
fn sample(path: &Path) -> Sample {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let reads_as = text.lines().find_map(|line| line.strip_prefix("# reads as: "));
    let reads_as = reads_as.unwrap_or_else(|| panic!("{name} does not say what it reads as")).into();
    let digits = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    Sample { name, reads_as, frame: digits.map(|d| u8::from_str_radix(d, 16).unwrap()).collect() }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|b| format!("{b:02x} ")).collect()
}

/// A second reading, as plain as possible: kind, offset of the network header and ECN field.
fn plain(frame: &[u8]) -> (Kind, usize, Ecn) {
    if frame.len() < 14 {
        return (Kind::Runt, 0, Ecn::NotEct);
    }
    let tag = |at: usize| matches!(frame.get(at..at + 2), Some([0x81, 0x00] | [0x88, 0xa8]));
    let tags = usize::from(tag(12)) + usize::from(tag(12) && tag(16));
    let network = 14 + 4 * tags;
    if frame.len() < network {
        // The last tag is cut.
        return (Kind::Malformed, network - 4, Ecn::NotEct);
    }
    let ip = &frame[network..];
    let word = |at: usize| ip.get(at..at + 2).map_or(0, |b| usize::from(b[0]) << 8 | usize::from(b[1]));
    let (kind, sane, octet) = match frame[network - 2..network] {
        [0x08, 0x00] => {
            let header = ip.first().map_or(0, |b| usize::from(b & 15) * 4);
            let lengths = (20..=word(2)).contains(&header) && word(2) <= ip.len();
            (Kind::Ipv4, ip.len() >= 20 && ip[0] >> 4 == 4 && lengths, word(0) as u8)
        }
        [0x86, 0xdd] => {
            (Kind::Ipv6, ip.len() >= 40 && ip[0] >> 4 == 6 && 40 + word(4) <= ip.len(), (word(0) >> 4) as u8)
        }
        _ => return (Kind::Other, network, Ecn::NotEct),
    };
    if sane { (kind, network, Ecn::from_bits(octet)) } else { (Kind::Malformed, network, Ecn::NotEct) }
}

/// Sum of the words of an IPv4 header; 0xffff if its checksum is right (RFC 1071).
fn folded(header: &[u8]) -> u32 {
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// What must hold for every sequence of bytes.
fn check(reader: Reader, frame: &[u8]) -> Result<(), TestCaseError> {
    // A panic is a finding like others, so that it is made smaller and printed.
    let outcome = catch_unwind(AssertUnwindSafe(|| check_inside(reader, frame)));
    let outcome = outcome.unwrap_or_else(|_| Err(TestCaseError::fail("panicked")));
    outcome.map_err(|e| TestCaseError::fail(format!("{e}\n{}", hex(frame))))
}

fn check_inside(reader: Reader, frame: &[u8]) -> Result<(), TestCaseError> {
    let got = (reader.read)(frame);
    let (kind, network, ecn) = plain(frame);
    prop_assert_eq!((got.kind, usize::from(got.network), got.ecn), (kind, network, ecn));
    let mut marked = frame.to_vec();
    (reader.mark)(&mut marked, got.kind, got.network);
    prop_assert_eq!(marked.len(), frame.len());
    let mut want = frame.to_vec();
    match kind {
        Kind::Ipv4 => {
            want[network + 1] |= 3;
            let header = network..network + usize::from(frame[network] & 15) * 4;
            let (before, after) = (folded(&frame[header.clone()]), folded(&marked[header]));
            // Right stays right and wrong stays wrong, by the same amount.
            prop_assert_eq!(before % 0xffff, after % 0xffff, "checksum");
            want[network + 10..network + 12].copy_from_slice(&marked[network + 10..network + 12]);
        }
        Kind::Ipv6 => want[network + 1] |= 0x30,
        _ => {}
    }
    prop_assert_eq!(&marked, &want, "more than the mark changed");
    let again = (reader.read)(&marked);
    prop_assert_eq!((again.kind, again.flow), (got.kind, got.flow), "marking changes what is read");
    check_remarked(reader, frame, &got)?;
    let mut completed = frame.to_vec();
    complete_checksum(&mut completed);
    let changed = frame.iter().zip(&completed).filter(|(a, b)| a != b).count();
    prop_assert!(changed <= 2 && completed.len() == frame.len(), "completing changed {changed} bytes");
    Ok(())
}

/// Every code point is remarked to another one, and nothing else changes.
fn check_remarked(reader: Reader, frame: &[u8], got: &Headers) -> Result<(), TestCaseError> {
    let dscp = |number: u8| Dscp::from_number(number).unwrap();
    let remarks = (0..64).fold(Remarks::keeping(), |table, n| table.with(dscp(n), dscp(n ^ 0b10_1101)));
    let (mut remarked, mut want) = (frame.to_vec(), frame.to_vec());
    (reader.remark)(&mut remarked, got.kind, got.network, &remarks);
    let at = usize::from(got.network);
    match got.kind {
        Kind::Ipv4 => {
            want[at + 1] ^= 0b1011_0100;
            let header = at..at + usize::from(frame[at] & 15) * 4;
            let (before, after) = (folded(&frame[header.clone()]), folded(&remarked[header]));
            prop_assert_eq!(before % 0xffff, after % 0xffff, "checksum of what was remarked");
            want[at + 10..at + 12].copy_from_slice(&remarked[at + 10..at + 12]);
        }
        // The octet lies across two: its upper half in the lower half of the first.
        Kind::Ipv6 => {
            want[at] ^= 0b1011;
            want[at + 1] ^= 0b0100_0000;
        }
        _ => {}
    }
    prop_assert_eq!(&remarked, &want, "more than the code point changed");
    let again = (reader.read)(&remarked);
    prop_assert_eq!((again.kind, again.flow, again.ecn), (got.kind, got.flow, got.ecn));
    Ok(())
}

#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Flip(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Append(Vec<u8>),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    use any as a;
    // What headers are decided by is more interesting than any byte.
    let telling =
        prop::sample::select(vec![0, 4, 5, 6, 8, 15, 0x45, 0x46, 0x4f, 0x60, 0x81, 0x86, 0x88, 0xff]);
    let tag =
        prop::sample::select(vec![vec![0x81, 0, 0, 5], vec![0x88, 0xa8, 0, 7], vec![8, 0], vec![0x86, 0xdd]]);
    prop_oneof![
        (a::<prop::sample::Index>(), a::<u8>()).prop_map(|(at, to)| Damage::Set(at, to)),
        (a::<prop::sample::Index>(), telling).prop_map(|(at, to)| Damage::Set(at, to)),
        (a::<prop::sample::Index>(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, 1 << bit)),
        a::<prop::sample::Index>().prop_map(Damage::Cut),
        prop::collection::vec(a::<u8>(), 0..40).prop_map(Damage::Append),
        (a::<prop::sample::Index>(), tag).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        a::<prop::sample::Index>().prop_map(Damage::Remove),
    ]
}

fn apply(frame: &mut Vec<u8>, damage: &Damage) {
    let len = frame.len();
    match damage {
        Damage::Append(bytes) => frame.extend(bytes),
        Damage::Insert(at, bytes) => {
            let at = at.index(len + 1);
            frame.splice(at..at, bytes.iter().copied());
        }
        _ if len == 0 => {}
        Damage::Set(at, to) => frame[at.index(len)] = *to,
        Damage::Flip(at, bit) => frame[at.index(len)] ^= bit,
        Damage::Cut(at) => frame.truncate(at.index(len)),
        Damage::Remove(at) => drop(frame.remove(at.index(len))),
    }
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let corpus: Vec<Vec<u8>> = corpus().into_iter().map(|s| s.frame).collect();
    let damaged = (prop::sample::select(corpus), prop::collection::vec(damage(), 0..6));
    prop_oneof![
        9 => damaged.prop_map(|(mut frame, list)| {
            list.iter().for_each(|d| apply(&mut frame, d));
            frame
        }),
        1 => prop::collection::vec(any::<u8>(), 0..100),
    ]
}

fn fuzz(reader: Reader, config: Config) -> Result<(), String> {
    let config = Config { failure_persistence: None, ..config };
    TestRunner::new(config).run(&frames(), |frame| check(reader, &frame)).map_err(|e| e.to_string())
}

#[test]
fn the_corpus_reads_as_it_says() {
    let corpus = corpus();
    assert!(corpus.len() > 50);
    for Sample { name, reads_as, frame } in corpus {
        let kind = format!("{:?}", weir_wire::frame::read(&frame).kind).to_lowercase();
        assert_eq!(kind, reads_as, "{name}");
        check(REAL, &frame).unwrap_or_else(|e| panic!("{name}: {e}"));
        for len in 0..frame.len() {
            check(REAL, &frame[..len]).unwrap_or_else(|e| panic!("{name}, cut to {len}: {e}"));
        }
    }
}

#[test]
fn random_frames_are_read_as_the_plain_reader_reads_them() {
    // Without a wish for more, a number that takes about a second.
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { 200_000 };
    fuzz(REAL, Config { cases, ..Config::default() }).unwrap();
}

/// Each does one thing wrong that a reader might do.
mod broken {
    use super::*;

    /// Believes the header length before it looks whether there is as much.
    pub fn trusts_lengths(frame: &[u8]) -> Headers {
        if frame.len() > 34 && frame[12..14] == [8, 0] && frame[14] >> 4 == 4 {
            let end = 14 + usize::from(frame[16]) * 256 + usize::from(frame[17]);
            assert!(!frame[14..end].is_empty());
        }
        weir_wire::frame::read(frame)
    }

    /// Reads the ECN field from the octet of IPv4 also in IPv6.
    pub fn mixes_families(frame: &[u8]) -> Headers {
        let headers = weir_wire::frame::read(frame);
        if headers.kind == Kind::Ipv6 {
            let octet = frame[usize::from(headers.network) + 1];
            return Headers { ecn: Ecn::from_bits(octet), ..headers };
        }
        headers
    }

    /// Looks through one tag only.
    pub fn stops_at_one_tag(frame: &[u8]) -> Headers {
        let headers = weir_wire::frame::read(frame);
        if headers.network > 18 { Headers { kind: Kind::Other, ..headers } } else { headers }
    }

    /// Takes a total length one beyond the frame.
    pub fn is_off_by_one(frame: &[u8]) -> Headers {
        let longer = [frame, &[0]].concat();
        let (headers, would) = (weir_wire::frame::read(frame), weir_wire::frame::read(&longer));
        if headers.kind == Kind::Malformed && would.kind == Kind::Ipv4 { would } else { headers }
    }

    /// Leaves the carry out of the checksum.
    pub fn forgets_the_carry(frame: &mut [u8], kind: Kind, network: u16) {
        let at = usize::from(network);
        if kind == Kind::Ipv4 {
            let added = u16::from(!frame[at + 1] & 3);
            let sum = u16::from_be_bytes([frame[at + 10], frame[at + 11]]).wrapping_sub(added);
            frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
            frame[at + 1] |= 3;
        } else {
            weir_wire::frame::mark(frame, kind, network);
        }
    }

    /// Writes the code point over the ECN field.
    pub fn takes_the_whole_octet(frame: &mut [u8], kind: Kind, network: u16, remarks: &Remarks) {
        weir_wire::frame::remark(frame, kind, network, remarks);
        if kind == Kind::Ipv6 {
            frame[usize::from(network) + 1] &= 0xcf;
        }
    }
}

#[test]
fn broken_readers_are_found() {
    let readers = [
        ("trusts lengths", Reader { read: broken::trusts_lengths, ..REAL }),
        ("mixes families", Reader { read: broken::mixes_families, ..REAL }),
        ("stops at one tag", Reader { read: broken::stops_at_one_tag, ..REAL }),
        ("is off by one", Reader { read: broken::is_off_by_one, ..REAL }),
        ("forgets the carry", Reader { mark: broken::forgets_the_carry, ..REAL }),
        ("takes the whole octet", Reader { remark: broken::takes_the_whole_octet, ..REAL }),
    ];
    // Their panics are expected, and many while findings are made smaller.
    std::panic::set_hook(Box::new(|_| {}));
    let config = Config { cases: 20_000, max_shrink_iters: 500, ..Config::default() };
    let missed: Vec<_> = readers.iter().filter(|(_, r)| fuzz(*r, config.clone()).is_ok()).collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found: {:?}", missed.iter().map(|m| m.0).collect::<Vec<_>>());
}
