//! Messages of kinds that no recorded kernel has, and hostile ones.

use proptest::prelude::*;
use weir_tc::*;
use weir_units::Duration;

fn again(message: &Message) -> Message {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let read = Message::decode(&bytes).unwrap();
    let mut twice = Vec::new();
    read.encode(&mut twice);
    assert_eq!(bytes, twice);
    read
}

fn of(kind: Kind, options: Options) -> Message {
    let mut message = Message::new(Subject::Discipline, Action::New, 3);
    message.attributes = vec![TcAttribute::Kind(kind), TcAttribute::Options(options)];
    message
}

#[test]
fn dualpi2_as_linux_6_17_lays_it_out() {
    // Types and lengths of include/uapi/linux/pkt_sched.h, written out by hand.
    let mut bytes = vec![0; 36];
    bytes[4..6].copy_from_slice(&36_u16.to_ne_bytes());
    let attribute = |kind: u16, value: &[u8]| {
        let mut all = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        all.extend(kind.to_ne_bytes());
        all.extend(value);
        all.resize(all.len().next_multiple_of(4), 0);
        all
    };
    let options = [
        attribute(1, &10_000_u32.to_ne_bytes()),
        attribute(3, &15_000_u32.to_ne_bytes()),
        attribute(10, &[2]),
    ];
    let xstats: Vec<u8> = (1..=12_u32).flat_map(u32::to_ne_bytes).collect();
    let basic = [9000_u64.to_ne_bytes().to_vec(), 6_u64.to_ne_bytes().to_vec()].concat();
    let stats = [attribute(1, &basic), attribute(4, &xstats)].concat();
    bytes.extend(attribute(1, b"dualpi2\0"));
    bytes.extend(attribute(2, &options.concat()));
    bytes.extend(attribute(7, &stats));
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    let message = Message::decode(&bytes).unwrap();
    assert_eq!(message.kind(), Some(&Kind::DualPi2));
    assert_eq!(message.options().unwrap().target(), Some(Duration::from_millis(15)));
    let counters = message.counters();
    assert_eq!((counters.bytes, counters.packets, counters.marks), (9000, 6, 7));
    assert_eq!(counters.delay, Some(Duration::from_micros(3)));
    let Some(Xstats::DualPi2(x)) = message.xstats() else { panic!("{message:?}") };
    assert_eq!((x.prob, x.step_marks, x.credit, x.memory_limit), (1, 8, 9, 12));
    let mut written = Vec::new();
    message.encode(&mut written);
    assert_eq!(written, bytes);
}

#[test]
fn a_target_alone_is_asked_for() {
    let target = Duration::from_nanos(7_499_999);
    for kind in [Kind::Codel, Kind::FqCodel, Kind::Pie, Kind::FqPie, Kind::DualPi2] {
        let options = Options::with_target(&kind, target, None).unwrap();
        assert_eq!(again(&of(kind, options)).options().unwrap().target(), Some(Duration::from_micros(7499)));
    }
    // Linux 6.12 refuses a change of fq_pie whose list of options does not say that it is one.
    for kind in [Kind::FqPie, Kind::DualPi2] {
        let mut bytes = Vec::new();
        of(kind.clone(), Options::with_target(&kind, target, None).unwrap()).encode(&mut bytes);
        // `TCA_OPTIONS`, and the flag `NLA_F_NESTED`.
        let nested = (2u16 | 1 << 15).to_ne_bytes();
        assert!(bytes.windows(2).any(|two| two == nested), "{kind}: {bytes:?}");
    }
    for kind in [Kind::Cake, Kind::CakeMq] {
        let options = Options::with_target(&kind, target, Some(Duration::from_millis(100))).unwrap();
        let read = again(&of(kind, options));
        assert_eq!(read.options().unwrap().target(), Some(Duration::from_micros(7499)));
        assert_eq!(read.options().unwrap().interval(), Some(Duration::from_millis(100)));
    }
    for kind in [Kind::Red, Kind::Htb, Kind::Tbf, Kind::Pfifo, Kind::Mq, Kind::Other("fq".into())] {
        assert_eq!(Options::with_target(&kind, target, None), None, "{kind}");
    }
}

#[test]
fn what_is_unknown_is_kept() {
    let odd = Raw { kind: 99, bytes: vec![1, 2, 3] };
    let options = Options::Codel(vec![CodelOption::Target(5), CodelOption::Other(odd.clone())].into());
    let mut message = of(Kind::Codel, options);
    message.attributes.push(TcAttribute::Other(odd));
    assert_eq!(again(&message), message);
    let foreign =
        of(Kind::Other("fq".into()), Options::Other(Raw { kind: 2, bytes: vec![8, 0, 1, 0, 5, 0, 0, 0] }));
    assert_eq!(again(&foreign), foreign);
}

#[test]
fn statistics_of_newer_kernels_are_read_as_far_as_they_are_known() {
    let newer = CodelXstats { ldelay: 77, rest: vec![1, 2, 3, 4], ..CodelXstats::default() };
    let mut message = of(Kind::Codel, Options::Codel(Vec::new().into()));
    let app = StatAttribute::App(Xstats::Codel(newer));
    message.attributes.push(TcAttribute::Stats2(vec![app].into()));
    assert_eq!(again(&message).counters().delay, Some(Duration::from_micros(77)));
}

#[test]
fn acknowledgements_that_cake_filters_are_no_signals_of_its_aqm() {
    let tin = |number: u16, marks: u32, acks: u32| {
        let stats = vec![CakeTinStat::EcnMarkedPackets(marks), CakeTinStat::AcksDroppedPackets(acks)];
        CakeTin::Tin(number, stats.into())
    };
    let tins = CakeStat::Tins(vec![tin(1, 3, 50), tin(2, 4, 7)].into());
    let mut message = of(Kind::Cake, Options::Cake(Vec::new().into()));
    let app = StatAttribute::App(Xstats::Cake(vec![tins].into()));
    message.attributes.push(TcAttribute::Stats2(vec![app].into()));
    let counters = message.counters();
    assert_eq!((counters.marks, counters.shed), (7, 57));
}

#[test]
fn what_is_no_message_is_refused() {
    let mut bytes = Vec::new();
    of(Kind::Codel, Options::Codel(Vec::new().into())).encode(&mut bytes);
    for length in 0..bytes.len() {
        assert!(Message::decode(&bytes[..length]).is_err(), "{length}");
    }
    let mut other = bytes.clone();
    other[4..6].copy_from_slice(&16_u16.to_ne_bytes());
    assert_eq!(Message::decode(&other), Err(DecodeError::Type(16)));
    // The first attribute is said to be longer than the message.
    bytes[36..38].copy_from_slice(&400_u16.to_ne_bytes());
    assert_eq!(Message::decode(&bytes), Err(DecodeError::Attributes));
}

proptest! {
    #[test]
    fn what_is_taken_is_written_again(kind in 0..Kind::ALL.len(), seed in prop::collection::vec(any::<u8>(), 0..200)) {
        // The right kind, and anything as its options and statistics.
        let mut message = Message::new(Subject::Discipline, Action::New, 1);
        message.attributes.push(TcAttribute::Kind(Kind::ALL[kind].clone()));
        for attribute in [2, 3, 4, 7] {
            message.attributes.push(TcAttribute::Other(Raw { kind: attribute, bytes: seed.clone() }));
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut twice = Vec::new();
        Message::decode(&bytes).unwrap().encode(&mut twice);
        prop_assert_eq!(bytes, twice);
    }
}

#[test]
fn what_the_kernel_told_is_told_again_when_it_is_set() {
    // As `codel_change` and `pie_change` store a target, and their dumps tell it.
    let codel = |us: u64| ((us * 1000) >> 10) * 1024 / 1000;
    let pie = |us: u64| ((us * 1000) >> 6) * 64 / 1000;
    for us in 0..100_000 {
        for (kind, stored) in [(Kind::Codel, codel as fn(u64) -> u64), (Kind::Pie, pie)] {
            let told = stored(us);
            let set = kind.target_to_set(Duration::from_micros(told)).as_nanos() / 1000;
            assert_eq!(stored(set), told, "{kind}: {us}");
        }
    }
}
