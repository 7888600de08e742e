//! The steerer against a kernel in memory, which plays what recorded kernels do.

use serde_json::Value;
use std::path::Path;
use weir_config::{Document, SteerConfig};
use weir_dataplane::PutBack;
use weir_kernel::*;
use weir_tc::*;
use weir_units::{Duration, Rate, Time};

/// A kernel in memory with one interface: the messages of a record, and what changes do to them.
struct Memory {
    name: &'static str,
    disciplines: Vec<Message>,
    classes: Vec<Message>,
    changes: Vec<Message>,
    mtu: u32,
    /// How many changes are refused from now on.
    refusals: u32,
    /// How many dumps do not tell of CoDel from now on.
    misses: u32,
    /// Whether it does not tell its interfaces.
    fails: bool,
    is_gone: bool,
}

const INDEX: i32 = 7;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// The interface as a recorded kernel has it in a case.
fn recorded(case: &str) -> Memory {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/vectors/tc/6.12.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let row = rows.find(|row| row["case"] == case).unwrap_or_else(|| panic!("{case}"));
    let messages = |what: &str| -> Vec<Message> {
        let decode = |hex: &Value| Message::decode(&bytes(hex.as_str().unwrap())).unwrap();
        let mut all: Vec<Message> = row[what].as_array().unwrap().iter().map(decode).collect();
        all.iter_mut().for_each(|m| m.interface = INDEX);
        all
    };
    // Recorded are all interfaces; the loopback has one without a handle.
    let mut disciplines = messages("qdisc");
    disciplines.retain(|m| m.kind() != Some(&Kind::Other("noqueue".into())));
    let classes = messages("class");
    Memory {
        name: "eth9",
        disciplines,
        classes,
        changes: Vec::new(),
        mtu: 1500,
        refusals: 0,
        misses: 0,
        fails: false,
        is_gone: false,
    }
}

impl Memory {
    fn of(&mut self, handle: Handle) -> &mut Message {
        self.disciplines.iter_mut().chain(&mut self.classes).find(|m| m.handle == handle).unwrap()
    }

    /// The options of the message with this handle.
    fn options(&mut self, handle: Handle) -> &mut Options {
        let attributes = &mut self.of(handle).attributes;
        attributes
            .iter_mut()
            .find_map(|a| if let TcAttribute::Options(o) = a { Some(o) } else { None })
            .unwrap()
    }

    /// What left and waits, and what the AQM dropped so far.
    fn counts(&mut self, handle: Handle, sent: u64, waiting: u32, drops: u32) {
        for attribute in &mut self.of(handle).attributes {
            let TcAttribute::Stats2(stats) = attribute else { continue };
            for stat in stats.iter_mut() {
                match stat {
                    StatAttribute::Of(Stat::Basic(b)) => (b.bytes, b.packets) = (sent, (sent / 1000) as u32),
                    StatAttribute::Of(Stat::Queue(q)) => {
                        (q.backlog, q.qlen, q.drops) = (waiting, waiting / 1000, drops);
                    }
                    // What the last packet waited at 19 Mbit/s.
                    StatAttribute::App(Xstats::Codel(x)) => x.ldelay = waiting * 8 / 19,
                    _ => {}
                }
            }
        }
    }
}

/// A target of CoDel as the kernel stores and tells it.
fn rounded(us: u32) -> u32 {
    ((((u64::from(us) * 1000) >> 10) << 10) / 1000) as u32
}

impl Kernel for Memory {
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        if self.fails {
            return Err(Error::Restless);
        }
        let (name, mtu) = (self.name.into(), self.mtu);
        let interface = Interface { index: INDEX, name, mtu, is_up: true, is_ethernet: true };
        Ok(if self.is_gone { Vec::new() } else { vec![interface] })
    }

    fn disciplines(&mut self, _: i32) -> Result<Vec<Message>, Error> {
        let mut all = if self.is_gone { Vec::new() } else { self.disciplines.clone() };
        if self.misses > 0 {
            self.misses -= 1;
            all.retain(|message| message.handle != CODEL);
        }
        Ok(all)
    }

    fn classes(&mut self, _: i32) -> Result<Vec<Message>, Error> {
        Ok(if self.is_gone { Vec::new() } else { self.classes.clone() })
    }

    fn has_filters(&mut self, _: i32) -> Result<bool, Error> {
        Ok(false)
    }

    fn make(&mut self, message: &Message) -> Result<(), Error> {
        unreachable!("nothing is made: {message:?}")
    }

    fn change(&mut self, message: &Message) -> Result<(), Error> {
        self.changes.push(message.clone());
        if self.refusals > 0 {
            self.refusals -= 1;
            let source = std::io::Error::from_raw_os_error(1);
            return Err(Error::Refused { source, text: Some("not today".into()) });
        }
        let wanted = message.options().unwrap().clone();
        match (self.options(message.handle), wanted) {
            (Options::Codel(now), Options::Codel(new)) => {
                for attribute in new.items {
                    let CodelOption::Target(us) = attribute else { panic!("{attribute:?}") };
                    let place = now.iter_mut().find(|a| matches!(a, CodelOption::Target(_))).unwrap();
                    *place = CodelOption::Target(rounded(us));
                }
            }
            (Options::FqCodel(now), Options::FqCodel(new)) => {
                for attribute in new.items {
                    let FqCodelOption::Target(us) = attribute else { panic!("{attribute:?}") };
                    let place = now.iter_mut().find(|a| matches!(a, FqCodelOption::Target(_))).unwrap();
                    *place = FqCodelOption::Target(rounded(us));
                }
            }
            (Options::Cake(now), Options::Cake(new)) => {
                for attribute in new.items {
                    let variant = std::mem::discriminant(&attribute);
                    *now.iter_mut().find(|a| std::mem::discriminant(*a) == variant).unwrap() = attribute;
                }
            }
            (now @ Options::Bfifo(_), new @ Options::Bfifo(_)) => *now = new,
            // TBF and HTB take all at once; what is told has no burst in bytes.
            (now @ Options::Tbf(_), Options::Tbf(mut new)) => {
                new.retain(|a| !matches!(a, TbfOption::Burst(_)));
                *now = Options::Tbf(new);
            }
            (now @ Options::Htb(_), new) => *now = new,
            (now, new) => panic!("{now:?} {new:?}"),
        }
        Ok(())
    }
}

fn configured(more: &str) -> SteerConfig {
    let text = format!("[[queues]]\ninterface = \"eth9\"\n{more}");
    Document::parse("test", &text).unwrap().steer_config().unwrap_or_else(|e| panic!("{e}"))
}

fn found(memory: &mut Memory, more: &str) -> Result<Steerer, Setup> {
    Steerer::find(&configured(more), memory, &|_| None)
}

const CODEL: Handle = Handle::new(0x10, 0);
const TBF: Handle = Handle::new(1, 0);
const POLICY: &str = "[policy]\nutilization_low = \"99%\"\ntarget_max = \"12ms\"\n";

/// A steerer of CoDel below TBF of 19 Mbit/s that began, and the folder of its journal.
fn begun(memory: &mut Memory, more: &str) -> (Steerer, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut steerer = found(memory, more).unwrap_or_else(|e| panic!("{e}"));
    steerer.begin(Journal::open(folder.path()).unwrap()).unwrap();
    (steerer, folder)
}

/// How many journals a folder has.
fn journals(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".jsonl")).count()
}

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Turns of 100 ms in which the link carries a share of `permille` and the AQM drops one packet each; what
/// was told.
fn worked(
    steerer: &mut Steerer,
    memory: &mut Memory,
    turns: std::ops::Range<u64>,
    permille: u64,
) -> Vec<News> {
    let mut news = Vec::new();
    for turn in turns {
        // 237 500 bytes fit into 100 ms of 19 Mbit/s.
        memory.counts(CODEL, turn * 237_500 * permille / 1000, 20_000, turn as u32);
        steerer.turn(memory, at(turn * 100), &mut |n| news.push(n)).unwrap();
    }
    news
}

fn target(memory: &mut Memory) -> Duration {
    memory.options(CODEL).target().unwrap()
}

#[test]
fn the_queue_is_found_wherever_it_is_with_the_shaper_that_serves_it() {
    for (case, kind, handle, rate) in [
        ("tbf", Kind::Codel, CODEL, 19_000_000),
        ("htb", Kind::FqCodel, Handle::new(0x100, 0), 20_000_000),
        ("cake", Kind::Cake, CODEL, 20_000_000),
    ] {
        let mut memory = recorded(case);
        let steerer = found(&mut memory, "").unwrap_or_else(|e| panic!("{case}: {e}"));
        let (place, link, _) = steerer.places().next().unwrap();
        assert_eq!((&place.kind, place.handle, link), (&kind, handle, Rate::from_bps(rate)), "{case}");
        assert_eq!(steerer.places().count(), 1, "{case}");
    }
    // Below mq nothing tells the rate, the user does.
    let mut memory = recorded("mq");
    let missing = found(&mut memory, "").err().unwrap().to_string();
    assert!(missing.contains("--rate"), "{missing}");
    let steerer = found(&mut memory, "rate = \"1Gbit/s\"\n").unwrap();
    assert!(steerer.places().any(|(place, _, _)| place.handle == Handle::new(0x11, 0)));
}

#[test]
fn what_cannot_be_steered_is_refused_with_its_reason() {
    let red = found(&mut recorded("red"), "").err().unwrap().to_string();
    assert!(red.contains("throws its whole queue away") && red.contains("tc qdisc replace"), "{red}");
    let fifo = found(&mut recorded("pfifo"), "").err().unwrap().to_string();
    assert!(fifo.contains("pfifo 10:") && fifo.contains("fq_codel"), "{fifo}");
    let mut renamed = Memory { name: "eth8", ..recorded("codel") };
    assert!(found(&mut renamed, "").err().unwrap().to_string().contains("ip link"));
    // A utilization below 100 % needs a shaper of its own.
    let aim = "rate = \"1Mbit/s\"\n[policy]\nutilization_low = \"90%\"\nutilization_target = \"95%\"\n";
    let bare = found(&mut recorded("codel"), aim).err().unwrap().to_string();
    assert!(bare.contains("put tbf or htb above it"), "{bare}");
}

#[test]
fn the_policy_is_held_within_its_bounds_at_a_bounded_rate_and_read_back() {
    let mut memory = recorded("tbf");
    let before = memory.disciplines.clone();
    let (mut steerer, folder) = begun(&mut memory, POLICY);
    // A link that is not used well: the target goes up, to the bound and no further.
    let news = worked(&mut steerer, &mut memory, 1..100, 900);
    assert!(news.iter().all(|n| matches!(n.event, Event::Target { .. })), "{news:?}");
    assert_eq!(target(&mut memory), Duration::from_micros(11_999), "12 ms as CoDel rounds them");
    // Used well, with a standing queue of 8 ms: down again.
    let mut sent = 0;
    for turn in 100..400 {
        sent = turn * 237_500;
        memory.counts(CODEL, sent, 19_000, turn as u32);
        steerer.turn(&mut memory, at(turn * 100), &mut |_| {}).unwrap();
        let now = target(&mut memory);
        assert!(now <= Duration::from_millis(12) && now >= Duration::from_micros(200), "{now:?}");
    }
    assert!(target(&mut memory) <= Duration::from_millis(8), "{:?}", target(&mut memory));
    // No more than one change in 100 ms, though it is looked at 100 times as often.
    let changes = memory.changes.len();
    for n in 0..1000 {
        memory.counts(CODEL, sent, 0, 400 + n);
        steerer.turn(&mut memory, at(40_000 + u64::from(n)), &mut |_| {}).unwrap();
    }
    assert!(memory.changes.len() - changes <= 11, "{}", memory.changes.len() - changes);
    let report = steerer.reports().remove(0);
    assert_eq!((report.left, report.changes), (None, memory.changes.len() as u64));
    // At the end everything is as it was, to the bit, and no journal is left.
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    memory.counts(CODEL, 0, 0, 0);
    let mut want = Memory { disciplines: before, ..recorded("tbf") };
    want.counts(CODEL, 0, 0, 0);
    assert_eq!(memory.disciplines, want.disciplines);
    assert_eq!(journals(folder.path()), 0);
}

#[test]
fn a_queue_that_is_no_bottleneck_is_left_alone() {
    let mut memory = recorded("tbf");
    let (mut steerer, _folder) = begun(&mut memory, POLICY);
    for turn in 0..1000 {
        memory.counts(CODEL, turn * 100_000, 0, 0);
        steerer.turn(&mut memory, at(turn * 100), &mut |n| panic!("{n:?}")).unwrap();
    }
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    assert!(memory.changes.is_empty(), "{:?}", memory.changes);
}

#[test]
fn what_somebody_else_changes_is_told_and_left_to_him() {
    type Deed = fn(&mut Memory);
    let deeds: [(&str, Deed); 5] = [
        ("its target from", |m| {
            let Options::Codel(o) = m.options(CODEL) else { panic!() };
            *o.iter_mut().find(|a| matches!(a, CodelOption::Target(_))).unwrap() = CodelOption::Target(777);
        }),
        ("its options", |m| {
            let Options::Codel(o) = m.options(CODEL) else { panic!() };
            *o.iter_mut().find(|a| matches!(a, CodelOption::Limit(_))).unwrap() = CodelOption::Limit(5);
        }),
        ("removed or replaced", |m| m.disciplines.retain(|d| d.handle != CODEL)),
        ("removed or replaced", |m| m.counts(CODEL, 0, 0, 0)),
        ("its interface is gone", |m| m.is_gone = true),
    ];
    for (words, deed) in deeds {
        let mut memory = recorded("tbf");
        let (mut steerer, folder) = begun(&mut memory, POLICY);
        worked(&mut steerer, &mut memory, 1..30, 900);
        // So that nothing is set in the turn of the deed.
        worked(&mut steerer, &mut memory, 30..31, 900);
        deed(&mut memory);
        let changes = memory.changes.len();
        let mut news = Vec::new();
        steerer.turn(&mut memory, at(3100), &mut |n| news.push(n)).unwrap();
        let Some(News { event: Event::Left(why), .. }) = news.first() else { panic!("{words}: {news:?}") };
        assert!(why.text().contains(words), "{words}: {}", why.text());
        assert!(steerer.is_done());
        steerer.end(&mut memory, false);
        assert_eq!(memory.changes.len(), changes, "{words}: it was touched after it was left");
        assert_eq!(journals(folder.path()), 0);
    }
}

#[test]
fn a_kernel_that_refuses_is_told() {
    let mut memory = recorded("tbf");
    let (mut steerer, _folder) = begun(&mut memory, POLICY);
    memory.refusals = 1;
    let news = worked(&mut steerer, &mut memory, 1..30, 900);
    let [News { event: Event::Left(Left::Refused { what }), .. }] = &news[..] else { panic!("{news:?}") };
    assert!(what.contains("not today"), "{what}");
}

/// What the kernel refuses to move is no reason to leave it moved.
#[test]
fn a_queue_that_the_kernel_refuses_to_move_is_put_back_now_or_by_the_next_start() {
    for refusals in [1, 2] {
        let mut memory = recorded("tbf");
        let found = target(&mut memory);
        let (mut steerer, folder) = begun(&mut memory, POLICY);
        worked(&mut steerer, &mut memory, 1..20, 900);
        assert_ne!(target(&mut memory), found);
        // The next change, and with it the way back.
        let mut news = Vec::new();
        for turn in 20..200 {
            memory.refusals = refusals;
            memory.counts(CODEL, turn * 237_500, 19_000, turn as u32);
            steerer.turn(&mut memory, at(turn * 100), &mut |n| news.push(n)).unwrap();
            if steerer.is_done() {
                break;
            }
        }
        let Some(News { event: Event::Left(Left::Refused { what }), .. }) = news.last() else {
            panic!("{news:?}")
        };
        assert_eq!(what.contains("NOT put its target back"), refusals == 2, "{what}");
        assert_eq!(target(&mut memory) == found, refusals == 1);
        memory.refusals = 0;
        steerer.end(&mut memory, false);
        drop(steerer);
        assert_eq!(journals(folder.path()), refusals as usize - 1);
        restore_dead(folder.path(), &mut memory);
        assert_eq!((target(&mut memory), journals(folder.path())), (found, 0));
    }
}

/// As where another queue is removed between two parts of a dump.
#[test]
fn a_queue_that_a_dump_does_not_tell_of_is_asked_for_again() {
    let mut memory = recorded("tbf");
    let found = target(&mut memory);
    let (mut steerer, folder) = begun(&mut memory, POLICY);
    worked(&mut steerer, &mut memory, 1..30, 900);
    memory.misses = 2;
    let news = worked(&mut steerer, &mut memory, 30..31, 900);
    assert!(!news.iter().any(|n| matches!(n.event, Event::Left(_))) && !steerer.is_done(), "{news:?}");
    memory.misses = 1;
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    assert_eq!((target(&mut memory), memory.misses), (found, 0));
    assert_eq!(journals(folder.path()), 0);
    // So does who comes after a kill.
    let (mut killed, folder) = begun(&mut memory, POLICY);
    worked(&mut killed, &mut memory, 1..30, 900);
    drop(killed);
    memory.misses = 1;
    let said = restore_dead(folder.path(), &mut memory);
    assert!(said.len() == 1 && said[0].text().contains("put its target back"), "{said:?}");
    assert_eq!(target(&mut memory), found);
}

#[test]
fn what_cannot_be_asked_at_a_start_is_put_back_by_the_next_one() {
    let mut memory = recorded("tbf");
    let found = target(&mut memory);
    let (mut steerer, folder) = begun(&mut memory, POLICY);
    worked(&mut steerer, &mut memory, 1..30, 900);
    drop(steerer);
    memory.fails = true;
    let said = restore_dead(folder.path(), &mut memory);
    assert!(matches!(&said[..], [PutBack::Failed(why)] if why.contains("NOT put back")), "{said:?}");
    assert_eq!(journals(folder.path()), 1);
    memory.fails = false;
    // A part of a line, as a full disk leaves it, hides nothing of what follows it.
    let mut files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let journal = files.find(|path| path.extension().is_some_and(|e| e == "jsonl")).unwrap();
    let text = std::fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let (before, after) = lines.split_at(lines.len() - 2);
    let broken = [before, &["{\"target\":{\"que"], after].concat().join("\n") + "\n";
    std::fs::write(&journal, broken).unwrap();
    assert!(matches!(&restore_dead(folder.path(), &mut memory)[..], [PutBack::Done(_)]));
    assert_eq!((target(&mut memory), journals(folder.path())), (found, 0));
}

#[test]
fn a_killed_run_is_undone_by_the_next_one_unless_somebody_else_came() {
    for foreign in [false, true] {
        let mut memory = recorded("tbf");
        let found = target(&mut memory);
        let (mut steerer, folder) = begun(&mut memory, POLICY);
        worked(&mut steerer, &mut memory, 1..60, 900);
        assert_ne!(target(&mut memory), found);
        // While it lives nobody touches what it does.
        assert_eq!(restore_dead(folder.path(), &mut memory), Vec::new());
        // A kill runs nothing; the lock goes with the process.
        drop(steerer);
        if foreign {
            let Options::Codel(o) = memory.options(CODEL) else { panic!() };
            *o.iter_mut().find(|a| matches!(a, CodelOption::Target(_))).unwrap() = CodelOption::Target(777);
        }
        let said = restore_dead(folder.path(), &mut memory);
        let words = if foreign { "somebody else changed its target" } else { "put its target back" };
        assert!(said.len() == 1 && said[0].text().contains(words), "{said:?}");
        let want = if foreign { Duration::from_micros(777) } else { found };
        assert_eq!(target(&mut memory), want);
        assert_eq!(journals(folder.path()), 0);
        assert_eq!(restore_dead(folder.path(), &mut memory), Vec::new());
    }
}

/// CoDel's default of 5 ms is told as 4.999 ms; what the law sets may lie that close beside it.
#[test]
fn a_target_beside_the_one_that_was_found_is_put_back_too() {
    let mut memory = recorded("tbf");
    let Options::Codel(o) = memory.options(CODEL) else { panic!() };
    *o.iter_mut().find(|a| matches!(a, CodelOption::Target(_))).unwrap() = CodelOption::Target(4999);
    let (mut steerer, _folder) = begun(&mut memory, &format!("{POLICY}target_min_up = \"2500us\"\n"));
    let mut turns = 1..100;
    while target(&mut memory) != Duration::from_micros(5000) {
        let turn = turns.next().expect("2.5 ms are doubled");
        worked(&mut steerer, &mut memory, turn..turn + 1, 900);
    }
    // It is read back.
    steerer.turn(&mut memory, at(turns.start * 100 - 90), &mut |_| {}).unwrap();
    assert_eq!(target(&mut memory), Duration::from_micros(5000));
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    assert_eq!(target(&mut memory), Duration::from_micros(4999));
}

#[test]
fn kept_queues_stay_as_they_are() {
    let mut memory = recorded("tbf");
    let (mut steerer, folder) = begun(&mut memory, POLICY);
    worked(&mut steerer, &mut memory, 1..60, 900);
    let now = target(&mut memory);
    steerer.end(&mut memory, true);
    assert_eq!(target(&mut memory), now);
    assert_eq!(journals(folder.path()), 0);
}

const AIM: &str =
    "[policy]\nutilization_low = \"90%\"\nutilization_target = \"95%\"\nvirtual_memory = \"1s\"\n";

#[test]
fn the_rate_of_the_shaper_is_moved_for_a_utilization_below_all_and_put_back_to_the_bit() {
    for dies in [false, true] {
        let mut memory = recorded("tbf");
        let before = memory.options(TBF).clone();
        let (mut steerer, folder) = begun(&mut memory, AIM);
        let (mut sent, mut news) = (0, Vec::new());
        for turn in 1..600 {
            memory.counts(CODEL, sent, 10_000, turn as u32);
            steerer.turn(&mut memory, at(turn * 100), &mut |n| news.push(n)).unwrap();
            sent += memory.options(TBF).shaped_rate().unwrap() / 10;
        }
        let rate = memory.options(TBF).shaped_rate().unwrap() as f64 * 8.0 / 19e6;
        assert!((0.95..0.96).contains(&rate), "{rate}");
        assert!(news.iter().any(|n| matches!(n.event, Event::Rate { .. })), "{news:?}");
        if dies {
            drop(steerer);
            let said = restore_dead(folder.path(), &mut memory);
            assert!(said.len() == 2, "{said:?}");
        } else {
            assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
        }
        assert_eq!(*memory.options(TBF), before);
    }
}

/// A steerer that slowed TBF for a utilization of 95 %, and how many turns that took.
fn slowed(memory: &mut Memory) -> (Steerer, tempfile::TempDir, u64) {
    let (mut steerer, folder) = begun(memory, AIM);
    let (mut sent, turns) = (0, 600);
    for turn in 1..turns {
        memory.counts(CODEL, sent, 10_000, turn as u32);
        steerer.turn(memory, at(turn * 100), &mut |_| ()).unwrap();
        sent += memory.options(TBF).shaped_rate().unwrap() / 10;
    }
    (steerer, folder, turns)
}

#[test]
fn another_policy_is_in_force_with_the_next_look() {
    let mut memory = recorded("tbf");
    let (mut steerer, _folder) = begun(&mut memory, POLICY);
    worked(&mut steerer, &mut memory, 1..100, 900);
    assert_eq!(target(&mut memory), Duration::from_micros(11_999));
    // Less than the least step below what is in force.
    let closer = configured(&POLICY.replace("12ms", "11.97ms"));
    steerer.change(&closer, &|_| None).unwrap();
    worked(&mut steerer, &mut memory, 100..103, 900);
    assert!(target(&mut memory) <= Duration::from_micros(11_970), "{}", target(&mut memory));
    let stands = steerer.stand().next().unwrap();
    assert_eq!(stands.policy.target_max, Duration::from_micros(11_970));
    assert!(stands.capacity_bytes > 0.0 && stands.shaper.is_none());
}

#[test]
fn a_shaper_is_as_found_to_the_bit_once_the_policy_needs_it_no_more() {
    let mut memory = recorded("tbf");
    let before = memory.options(TBF).clone();
    let (mut steerer, _folder, turns) = slowed(&mut memory);
    assert_ne!(*memory.options(TBF), before);
    steerer.change(&configured(POLICY), &|_| None).unwrap();
    worked(&mut steerer, &mut memory, turns..turns + 3, 990);
    assert_eq!(*memory.options(TBF), before);
    assert!(steerer.reports()[0].left.is_none(), "{:?}", steerer.reports());
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    assert_eq!(*memory.options(TBF), before);
}

#[test]
fn the_shaper_of_a_queue_that_somebody_replaced_is_put_back() {
    let mut memory = recorded("tbf");
    let before = memory.options(TBF).clone();
    let (mut steerer, _folder, turns) = slowed(&mut memory);
    memory.disciplines.retain(|one| one.handle != CODEL);
    steerer.turn(&mut memory, at(turns * 100), &mut |_| ()).unwrap();
    assert!(steerer.is_done());
    assert_eq!(*memory.options(TBF), before);
}

#[test]
fn what_the_kernel_refused_to_put_back_is_put_back_by_the_next_start() {
    let mut memory = recorded("tbf");
    let found = (target(&mut memory), memory.options(TBF).clone());
    let (mut steerer, folder, _) = slowed(&mut memory);
    memory.refusals = u32::MAX;
    let said = steerer.end(&mut memory, false);
    let is_told = |line: &String| line.contains("not today") && line.contains("`weir doctor --clean`");
    assert!(!said.is_empty() && said.iter().all(is_told), "{said:?}");
    drop(steerer);
    memory.refusals = 0;
    assert!(!restore_dead(folder.path(), &mut memory).is_empty());
    assert_eq!((target(&mut memory), memory.options(TBF).clone()), found);
}

#[test]
fn a_shaper_that_somebody_else_moves_is_the_new_rate_of_the_link_or_a_reason_to_leave() {
    for (policy, follows) in [(POLICY, true), (AIM, false)] {
        let mut memory = recorded("tbf");
        let (mut steerer, _folder) = begun(&mut memory, policy);
        worked(&mut steerer, &mut memory, 1..5, 900);
        let slower = memory.options(TBF).with_shaped_rate(1_000_000).unwrap();
        *memory.options(TBF) = slower;
        let mut news = Vec::new();
        steerer.turn(&mut memory, at(600), &mut |n| news.push(n)).unwrap();
        let report = steerer.reports().remove(0);
        assert_eq!(report.left.is_none(), follows, "{report:?}");
        assert!(!follows || report.rate_bps == 8_000_000, "{report:?}");
    }
}

const HTB_CLASS: Handle = Handle::new(1, 0x10);

/// Sets the rate of a class of HTB, or of TBF, as somebody else does it.
fn reshape(memory: &mut Memory, handle: Handle, bps: u64) {
    let slower = memory.options(handle).with_shaped_rate(bps / 8).unwrap();
    *memory.options(handle) = slower;
}

/// A kernel with CoDel below TBF, which is below a class of HTB of 100 Mbit/s.
fn nested() -> Memory {
    let mut memory = recorded("tbf");
    let htb = recorded("htb");
    let mut class =
        htb.classes.iter().find(|m| m.options().and_then(Options::shaped_rate).is_some()).unwrap().clone();
    (class.handle, class.parent) = (HTB_CLASS, Handle::ROOT);
    let mut root = htb.disciplines.iter().find(|m| m.kind() == Some(&Kind::Htb)).unwrap().clone();
    (root.handle, root.parent) = (Handle::new(1, 0), Handle::ROOT);
    let tbf = memory.of(TBF);
    (tbf.handle, tbf.parent) = (Handle::new(2, 0), HTB_CLASS);
    memory.of(CODEL).parent = Handle::new(2, 1);
    memory.classes = vec![class];
    memory.disciplines.insert(0, root);
    reshape(&mut memory, HTB_CLASS, 100_000_000);
    memory
}

#[test]
fn a_slower_shaper_above_is_the_new_rate_of_the_link_or_a_reason_to_leave() {
    for (policy, follows) in [(POLICY, true), (AIM, false)] {
        let mut memory = nested();
        let (mut steerer, _folder) = begun(&mut memory, policy);
        worked(&mut steerer, &mut memory, 1..5, 900);
        assert_eq!(steerer.reports()[0].rate_bps, 19_000_000);
        let mut look = |memory: &mut Memory, ms, bps| {
            reshape(memory, HTB_CLASS, bps);
            steerer.turn(memory, at(ms), &mut |_| {}).unwrap();
            steerer.reports().remove(0)
        };
        // Above what the queue gets anyway it changes nothing.
        let still = look(&mut memory, 600, 40_000_000);
        assert_eq!((still.rate_bps, still.left), (19_000_000, None));
        let slower = look(&mut memory, 700, 8_000_000);
        assert_eq!(slower.left.is_none(), follows, "{slower:?}");
        if follows {
            assert_eq!(slower.rate_bps, 8_000_000);
            assert_eq!(look(&mut memory, 800, 90_000_000).rate_bps, 19_000_000);
        } else {
            assert!(slower.left.unwrap().contains("a shaper above 2:"));
        }
    }
}

#[test]
fn a_rate_that_the_user_said_is_not_that_of_the_shaper_even_where_they_are_equal() {
    let mut memory = recorded("tbf");
    let (mut steerer, _folder) = begun(&mut memory, &format!("rate = \"19Mbit/s\"\n{POLICY}"));
    worked(&mut steerer, &mut memory, 1..5, 900);
    reshape(&mut memory, TBF, 8_000_000);
    steerer.turn(&mut memory, at(600), &mut |_| {}).unwrap();
    assert_eq!(steerer.reports()[0].rate_bps, 19_000_000);
}

/// What somebody else makes of a shaper that the policy needs no more is his, at the end as after a kill.
#[test]
fn a_shaper_that_was_given_back_is_left_to_others() {
    let burst = |memory: &mut Memory| match memory.options(TBF) {
        Options::Tbf(o) => {
            o.iter_mut()
                .find_map(|a| if let TbfOption::Parms(p) = a { Some(p) } else { None })
                .unwrap()
                .buffer
        }
        other => panic!("{other:?}"),
    };
    for dies in [true, false] {
        let mut memory = recorded("tbf");
        let (mut steerer, folder, turns) = slowed(&mut memory);
        steerer.change(&configured(POLICY), &|_| None).unwrap();
        worked(&mut steerer, &mut memory, turns..turns + 3, 990);
        let Options::Tbf(o) = memory.options(TBF) else { panic!() };
        for attribute in o.iter_mut() {
            if let TbfOption::Parms(parms) = attribute {
                parms.buffer *= 2;
            }
        }
        let theirs = burst(&mut memory);
        worked(&mut steerer, &mut memory, turns + 3..turns + 5, 990);
        assert!(steerer.reports()[0].left.is_none(), "{:?}", steerer.reports());
        if dies {
            drop(steerer);
            let said = restore_dead(folder.path(), &mut memory);
            assert!(said.iter().all(|line| !line.text().contains("shaper")), "{said:?}");
        } else {
            assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
        }
        assert_eq!(burst(&mut memory), theirs);
    }
}

/// A shaper is put back to what somebody else made of it before it was moved, not to what was there at the
/// start.
#[test]
fn a_shaper_that_others_changed_before_it_was_moved_is_put_back_to_that() {
    for dies in [true, false] {
        let mut memory = recorded("tbf");
        let (mut steerer, folder) = begun(&mut memory, POLICY);
        worked(&mut steerer, &mut memory, 1..5, 900);
        reshape(&mut memory, TBF, 16_000_000);
        worked(&mut steerer, &mut memory, 5..7, 800);
        let theirs = memory.options(TBF).clone();
        steerer.change(&configured(AIM), &|_| None).unwrap();
        let mut sent = 7 * 237_500;
        for turn in 7..600 {
            memory.counts(CODEL, sent, 10_000, turn as u32);
            steerer.turn(&mut memory, at(turn * 100), &mut |_| ()).unwrap();
            sent += memory.options(TBF).shaped_rate().unwrap() / 10;
        }
        assert_ne!(*memory.options(TBF), theirs, "{:?}", steerer.reports());
        if dies {
            drop(steerer);
            restore_dead(folder.path(), &mut memory);
        } else {
            assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
        }
        assert_eq!(memory.options(TBF).shaped_rate(), theirs.shaped_rate());
    }
}

#[test]
fn options_of_a_moved_shaper_that_somebody_else_changes_are_told_and_left_to_him() {
    let mut memory = recorded("tbf");
    let (mut steerer, _folder, turns) = slowed(&mut memory);
    let Options::Tbf(o) = memory.options(TBF) else { panic!() };
    for attribute in o.iter_mut() {
        if let TbfOption::Parms(parms) = attribute {
            parms.limit *= 2;
        }
    }
    let theirs = memory.options(TBF).clone();
    steerer.turn(&mut memory, at(turns * 100), &mut |_| ()).unwrap();
    let left = steerer.reports().remove(0).left.unwrap();
    assert!(left.contains("the options of the shaper 1:"), "{left}");
    steerer.end(&mut memory, false);
    assert_eq!(*memory.options(TBF), theirs);
}

/// As scripts do that measure the link.
#[test]
fn the_rate_of_cake_that_somebody_else_changes_is_followed() {
    let mut memory = recorded("cake");
    let (mut steerer, _folder) = begun(&mut memory, POLICY);
    let mut sent = 0;
    let mut turn = |memory: &mut Memory, steerer: &mut Steerer, n: u64| {
        sent += memory.options(CODEL).shaped_rate().unwrap() / 10 * 9 / 10;
        memory.counts(CODEL, sent, 20_000, n as u32);
        steerer.turn(memory, at(n * 100), &mut |_| {}).unwrap();
    };
    (1..30).for_each(|n| turn(&mut memory, &mut steerer, n));
    let Options::Cake(o) = memory.options(CODEL) else { panic!() };
    *o.iter_mut().find(|a| matches!(a, CakeOption::BaseRate(_))).unwrap() = CakeOption::BaseRate(1_000_000);
    (30..60).for_each(|n| turn(&mut memory, &mut steerer, n));
    let report = steerer.reports().remove(0);
    assert_eq!((report.left, report.rate_bps), (None, 8_000_000));
    // Its rate stays theirs, the rest is as it was found.
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    let found = recorded("cake").options(CODEL).clone();
    let now = memory.options(CODEL);
    assert_eq!((now.target(), now.interval()), (found.target(), found.interval()));
    assert_eq!(now.shaped_rate(), Some(1_000_000));
}

#[test]
fn cake_gets_an_interval_that_fits_its_target_and_both_are_put_back() {
    let mut memory = recorded("cake");
    let before = memory.options(CODEL).clone();
    let (mut steerer, _folder) = begun(&mut memory, "[policy]\ntarget_max = \"40ms\"\n");
    for turn in 1..100 {
        memory.counts(CODEL, turn * 200_000, 20_000, turn as u32);
        steerer.turn(&mut memory, at(turn * 100), &mut |_| {}).unwrap();
    }
    let now = memory.options(CODEL).clone();
    assert_eq!(
        (now.target(), now.interval()),
        (Some(Duration::from_millis(40)), Some(Duration::from_millis(80)))
    );
    assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
    assert_eq!(*memory.options(CODEL), before);
}

#[test]
fn raises_go_to_what_the_kernel_has_by_itself() {
    let floors = |case: &str, more: &str| {
        let mut memory = recorded(case);
        let steerer = found(&mut memory, more).unwrap_or_else(|e| panic!("{case}: {e}"));
        steerer.places().map(|(_, _, policy)| policy.target_min_up).collect::<Vec<_>>()
    };
    // CoDel below TBF; CAKE, whose interval was found as 50 ms.
    assert_eq!(floors("tbf", ""), [Duration::from_millis(5)]);
    assert_eq!(recorded("cake").options(CODEL).interval(), Some(Duration::from_millis(50)));
    assert_eq!(floors("cake", ""), [Duration::from_micros(2500)]);
    assert_eq!(floors("tbf", "[policy]\ntarget_min_up = \"2500us\"\n"), [Duration::from_micros(2500)]);
    let mut memory = recorded("cake");
    *memory.options(CODEL) = Options::Cake(vec![CakeOption::Rtt(20_000), CakeOption::Target(700)].into());
    assert_eq!(memory.options(CODEL).default_target(), Some(Duration::from_millis(1)));
    let pie = Options::Pie(vec![].into());
    assert_eq!(pie.default_target(), Some(Duration::from_millis(15)));
}

#[test]
fn many_leaves_are_steered_in_one_process_and_the_journal_stays_small() {
    let mut memory = recorded("tbf");
    let leaf = memory.disciplines.iter().find(|m| m.handle == CODEL).unwrap().clone();
    memory.disciplines = (0..2000)
        .map(|n| Message { handle: Handle::new(0x100 + n, 0), parent: Handle::new(1, n + 1), ..leaf.clone() })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let mut steerer = found(&mut memory, "rate = \"20Mbit/s\"\n[policy]\ntarget_max = \"12ms\"\n").unwrap();
    steerer.begin(Journal::open(folder.path()).unwrap()).unwrap();
    for turn in 1..20_u32 {
        for n in 0..2000 {
            memory.counts(Handle::new(0x100 + n, 0), u64::from(turn) * 200_000, 1000, turn);
        }
        steerer.turn(&mut memory, at(u64::from(turn) * 100), &mut |_| {}).unwrap();
    }
    let reports = steerer.reports();
    assert_eq!(reports.len(), 2000);
    assert!(reports.iter().all(|r| r.left.is_none() && r.changes > 0 && r.target_max_ms <= 12.0));
    steerer.end(&mut memory, false);
    assert!(memory.disciplines.iter().all(|m| m.options() == leaf.options()));
}

#[test]
fn the_room_of_a_fifo_below_a_shaper_is_its_target() {
    let mut memory = recorded("tbf");
    let attributes = &mut memory.of(CODEL).attributes;
    attributes[0] = TcAttribute::Kind(Kind::Bfifo);
    attributes[1] = TcAttribute::Options(Options::Bfifo(FifoParms { limit: 100_000, rest: Vec::new() }));
    let room = |m: &mut Memory| match m.options(CODEL) {
        Options::Bfifo(parms) => parms.limit,
        other => panic!("{other:?}"),
    };
    // TBF sets the limit of a FIFO at each change of its rate.
    let undone = found(&mut memory, AIM).err().unwrap().to_string();
    assert!(undone.contains("take htb in its place"), "{undone}");
    let (mut steerer, folder) = begun(&mut memory, POLICY);
    worked(&mut steerer, &mut memory, 1..60, 900);
    // 12 ms at 19 Mbit/s.
    assert_eq!(room(&mut memory), 28_500);
    // With half of the rate it is half of the room.
    let slower = memory.options(TBF).with_shaped_rate(1_187_500).unwrap();
    *memory.options(TBF) = slower;
    worked(&mut steerer, &mut memory, 60..70, 900);
    assert_eq!(room(&mut memory), 14_250);
    drop(steerer);
    assert_eq!(restore_dead(folder.path(), &mut memory).len(), 1);
    assert_eq!(room(&mut memory), 100_000);
    // A room of less than two packets would stop the link.
    let tight = "[policy]\ntarget_max = \"300us\"\ntarget_min_up = \"200us\"\n";
    let (mut steerer, _folder) = begun(&mut memory, tight);
    worked(&mut steerer, &mut memory, 1..20, 450);
    assert_eq!(room(&mut memory), 3028);
    steerer.end(&mut memory, false);
    assert_eq!(room(&mut memory), 100_000);
    // Packets may be longer.
    memory.mtu = 9000;
    let (mut steerer, _folder) = begun(&mut memory, tight);
    worked(&mut steerer, &mut memory, 1..20, 450);
    assert_eq!(room(&mut memory), 18_028);
    steerer.end(&mut memory, false);
}

/// A byte takes 8 us at 1 Mbit/s: what a target is cut to is further from it than the kernel rounds times.
#[test]
fn the_room_of_a_fifo_below_a_slow_shaper_is_put_back() {
    let mut memory = recorded("tbf");
    let attributes = &mut memory.of(CODEL).attributes;
    attributes[0] = TcAttribute::Kind(Kind::Bfifo);
    let found = Options::Bfifo(FifoParms { limit: 100_000, rest: Vec::new() });
    attributes[1] = TcAttribute::Options(found.clone());
    let slow = memory.options(TBF).with_shaped_rate(125_000).unwrap();
    *memory.options(TBF) = slow;
    // 5972.875 bytes; once before it is read back, and once after.
    for turns in [59, 60] {
        let (mut steerer, _folder) = begun(&mut memory, "[policy]\ntarget_max = \"47783us\"\n");
        worked(&mut steerer, &mut memory, 1..turns, 20);
        let Options::Bfifo(now) = memory.options(CODEL) else { panic!() };
        assert_eq!(now.limit, 5972);
        assert_eq!(steerer.end(&mut memory, false), Vec::<String>::new());
        assert_eq!(*memory.options(CODEL), found);
    }
}

#[test]
fn a_journal_that_is_written_anew_has_what_is_set_next() {
    let mut memory = recorded("tbf");
    let (before, folder) = (target(&mut memory), tempfile::tempdir().unwrap());
    let mut journal = Journal::open(folder.path()).unwrap();
    let steerer = self::found(&mut memory, POLICY).unwrap();
    journal.found(steerer.places().next().unwrap().0).unwrap();
    let file = std::fs::read_dir(folder.path()).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.extension().is_some_and(|e| e == "jsonl").then_some(path)
    });
    let (file, mut len, mut set) = (file.unwrap(), 0, None);
    for us in [6000, 7000, 8000].iter().cycle().take(200_000) {
        journal.target(0, us * 1000).unwrap();
        let now = std::fs::metadata(&file).unwrap().len();
        if now < len {
            set = Some(*us as u32);
            break;
        }
        len = now;
    }
    // It is set, and then the process is killed.
    let Options::Codel(o) = memory.options(CODEL) else { panic!() };
    let place = o.iter_mut().find(|a| matches!(a, CodelOption::Target(_))).unwrap();
    *place = CodelOption::Target(set.expect("it is written anew"));
    drop(journal);
    let said = restore_dead(folder.path(), &mut memory);
    assert!(matches!(&said[..], [PutBack::Done(_)]), "{said:?}");
    assert_eq!(target(&mut memory), before);
}

/// Slowed for the share of one queue, the shaper would slow the other one, too.
#[test]
fn a_shaper_that_serves_another_queue_is_not_moved() {
    let alone = found(&mut recorded("htb"), AIM);
    assert!(alone.is_ok(), "{:?}", alone.err());
    let mut memory = recorded("htb");
    let leaf = memory.disciplines.iter().find(|m| m.handle == Handle::new(0x100, 0)).unwrap().clone();
    // Both below one of priorities.
    let prio = Handle::new(0x50, 0);
    let mut above = Message { handle: prio, ..leaf.clone() };
    above.attributes = vec![TcAttribute::Kind(Kind::Other("prio".into()))];
    memory.disciplines.retain(|m| m.handle != leaf.handle);
    let below = |handle: u16, band: u16| Message {
        handle: Handle::new(handle, 0),
        parent: Handle::new(0x50, band),
        ..leaf.clone()
    };
    memory.disciplines.extend([above, below(0x100, 1), below(0x200, 2)]);
    let one = format!("handle = \"100:\"\n{AIM}");
    let refused = found(&mut memory, &one).err().unwrap().to_string();
    assert!(refused.contains("none that serves it alone"), "{refused}");
    // Without a utilization below 100 % nothing of it is moved.
    assert!(found(&mut memory, "handle = \"100:\"\n").is_ok());
}

#[test]
fn queues_of_a_multi_queue_interface_need_a_rate_of_their_own_and_a_handle() {
    let driver = |_: &str| Some(Rate::from_mbps(1000));
    let shared = Steerer::find(&configured(""), &mut recorded("mq"), &driver).err().unwrap().to_string();
    assert!(shared.contains("share the link") && shared.contains("`--rate`"), "{shared}");
    assert!(Steerer::find(&configured("rate = \"1Gbit/s\"\n"), &mut recorded("mq"), &driver).is_ok());
    // As the kernel makes them by default.
    let mut memory = recorded("mq");
    for message in &mut memory.disciplines {
        message.handle = Handle::NONE;
        if message.parent != Handle::ROOT {
            message.parent = Handle::new(0, message.parent.minor());
        }
    }
    let unnamed = found(&mut memory, "rate = \"1Gbit/s\"\n").err().unwrap().to_string();
    assert!(
        unnamed.contains(
            "`tc qdisc replace dev eth9 root handle 1: mq`, and then `tc qdisc replace dev eth9 parent 1:4 fq_codel`"
        ),
        "{unnamed}"
    );
}

#[test]
fn two_processes_do_not_steer_one_queue() {
    let mut memory = recorded("tbf");
    let (mut steerer, folder) = begun(&mut memory, POLICY);
    let mut second = found(&mut memory, POLICY).unwrap();
    let refused = second.begin(Journal::open(folder.path()).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("eth9 10: is steered by process"), "{refused}");
    assert_eq!(journals(folder.path()), 1);
    steerer.end(&mut memory, false);
    second.begin(Journal::open(folder.path()).unwrap()).unwrap();
}

/// Journals of network namespaces other than that of the test, as killed processes leave them.
#[test]
fn the_record_of_a_namespace_that_is_gone_is_told_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = |name: &str, netns: u64| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("{{\"here\":{{\"netns\":{netns},\"pid\":4000001}}}}\n")).unwrap();
        path
    };
    // No namespace has this number: the kernel counts them from 2^32 - 2^28 on.
    let gone = journal("1-7-0.jsonl", 7);
    let own = {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata("/proc/thread-self/ns/net").unwrap().ino()
    };
    let here = journal("2-0-0.jsonl", own);
    let not_ours = folder.path().join("3-0-0.jsonl");
    std::fs::write(&not_ours, "something else\n").unwrap();
    let told = left_behind(folder.path());
    assert_eq!(told.len(), 2, "{told:?}");
    let is_readable = std::fs::read_link("/proc/1/ns/net").is_ok();
    if !is_readable {
        println!(
            "SKIPPED: the_record_of_a_namespace_that_is_gone_is_told_and_removed: the namespaces of process 1 cannot be seen"
        );
        return;
    }
    assert!(told.iter().any(|line| line.contains("a network namespace that is gone (7)")), "{told:?}");
    let said = remove_vanished(folder.path());
    let told = "removed the record of process 4000001: network namespace 7 is gone";
    assert_eq!(said, [PutBack::Done(told.into())]);
    assert!(!gone.exists() && here.exists() && not_ours.exists());
    assert_eq!(remove_vanished(folder.path()), Vec::new());
}

/// A kernel that has these kinds of disciplines, of which some want more than their name.
struct Having(&'static [&'static str]);

impl Kernel for Having {
    fn interfaces(&mut self) -> Result<Vec<Interface>, Error> {
        Ok(Vec::new())
    }

    fn disciplines(&mut self, _: i32) -> Result<Vec<Message>, Error> {
        Ok(Vec::new())
    }

    fn classes(&mut self, _: i32) -> Result<Vec<Message>, Error> {
        Ok(Vec::new())
    }

    fn has_filters(&mut self, _: i32) -> Result<bool, Error> {
        Ok(false)
    }

    fn make(&mut self, message: &Message) -> Result<(), Error> {
        assert_eq!((message.interface, message.parent), (INDEX, Handle::ROOT));
        let kind = message.kind().unwrap().name();
        let refused = |number| {
            let source = std::io::Error::from_raw_os_error(number);
            Err(Error::Refused { source, text: None })
        };
        match kind {
            _ if !self.0.contains(&kind) => refused(2),
            // Options are missing, or queues of the interface.
            "tbf" | "cake_mq" => refused(22),
            _ => Ok(()),
        }
    }

    fn change(&mut self, message: &Message) -> Result<(), Error> {
        unreachable!("nothing is changed: {message:?}")
    }
}

#[test]
fn the_kinds_that_a_kernel_has_and_lacks_are_found_by_asking_for_each() {
    let told = |kinds: &'static [&'static str]| {
        let Steerable { here, missing } = steerable(&mut Having(kinds), INDEX).unwrap();
        (here.join(" "), missing.join(" "))
    };
    let all = "codel fq_codel pie fq_pie cake cake_mq dualpi2 bfifo";
    assert_eq!(told(&[]), (String::new(), all.into()));
    assert_eq!(told(&["codel", "cake_mq", "red"]).0, "codel cake_mq");
    // A FIFO has a target below a shaper.
    assert_eq!(told(&["bfifo"]).0, "");
    assert_eq!(told(&["bfifo", "tbf"]), ("bfifo".into(), all.strip_suffix(" bfifo").unwrap().into()));
}
