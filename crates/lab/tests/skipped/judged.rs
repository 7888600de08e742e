//! Rates and delays are judged while the machine was there: of what other work took away nothing follows for
//! the program.

use super::skipped;
use std::collections::{HashMap, HashSet};
use std::fmt::{Debug, Display};
use std::fs::read_to_string;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most of the time that may be taken away from a test for its rates and delays to be judged. Time that is
/// taken away costs a rate at most its share, and the strictest bound of a rate is 1 %.
pub const MOST_TAKEN: f64 = 0.01;
/// How often a test is tried until the machine is there.
pub const ATTEMPTS: usize = 3;
/// How much time the tests of a program spend on repeated attempts: a machine that is busy all the time makes
/// them undecided, and not three times as long.
pub const REPEATS: Duration = Duration::from_secs(30);

/// What is left of it.
static LEFT: Budget = Budget::new(REPEATS);

/// Tries until the machine was there, and then judges: panics where a bound was missed. Where it never was,
/// the test is skipped, with the numbers, and has neither passed nor failed. What does not depend on time is
/// asserted in every attempt, by itself.
pub fn judged(attempt: impl FnMut(&mut Attempt)) {
    match judge(attempt) {
        Outcome::Held => (),
        Outcome::Missed(text) => panic!("{text}"),
        Outcome::Undecided(text) => skipped(text),
    }
}

/// What came of the attempts.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// All bounds were kept while the machine was there.
    Held,
    /// One was not.
    Missed(String),
    /// The machine was never there.
    Undecided(String),
}

/// As [`judged`], but says what came of it.
pub fn judge(mut attempt: impl FnMut(&mut Attempt)) -> Outcome {
    decide(&LEFT, || {
        let mut this = Attempt::default();
        this.begin();
        attempt(&mut this);
        this.end();
        this
    })
}

/// Time that may be spent.
pub struct Budget(Mutex<Duration>);

impl Budget {
    /// All of it is left.
    pub const fn new(all: Duration) -> Budget {
        Budget(Mutex::new(all))
    }

    /// Takes this much; nothing, and `false`, where less is left.
    fn takes(&self, time: Duration) -> bool {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = left.checked_sub(time);
        *left = rest.unwrap_or(*left);
        rest.is_some()
    }
}

/// The rule: the first attempt in which the machine was there decides. An attempt is repeated if as much time
/// as it took is left.
pub fn decide(left: &Budget, mut attempt: impl FnMut() -> Attempt) -> Outcome {
    let (mut disturbed, mut most) = (Vec::new(), 0.0);
    for number in 1..=ATTEMPTS {
        let start = Instant::now();
        let Attempt { taken, tolerated, text, missed, undecided, .. } = attempt();
        let text = format!("{:.1} % of the time taken away:{text}", 100.0 * taken);
        if taken <= tolerated {
            super::say(format!("judged, {text}"));
            // What was missed comes first, as whoever prints the failure may cut a long one.
            return match (missed.as_str(), undecided) {
                ("", None) => Outcome::Held,
                ("", Some(why)) => Outcome::Undecided(format!("undecided: {why}")),
                (missed, _) => Outcome::Missed(format!("missed:{missed} of all, {text}")),
            };
        }
        super::say(format!("undecided, {text}"));
        disturbed.push(text);
        most = 100.0 * tolerated;
        if number < ATTEMPTS && !left.takes(start.elapsed()) {
            break;
        }
    }
    let attempts = match disturbed.len() {
        1 => "the one attempt that there was time for".to_string(),
        more => format!("each of {more} attempts"),
    };
    let why = format!("undecided, as more than {most:.0} % of the time was taken away in {attempts}");
    Outcome::Undecided(format!("{why}. {}", disturbed.join(" ")))
}

/// One attempt: what was measured in it, and what was taken away meanwhile.
pub struct Attempt {
    watch: Option<Watch>,
    taken: f64,
    tolerated: f64,
    text: String,
    /// Those lines of it that say what was missed.
    missed: String,
    undecided: Option<String>,
}

impl Default for Attempt {
    fn default() -> Attempt {
        let (text, missed) = (String::new(), String::new());
        Attempt { watch: None, taken: 0.0, tolerated: MOST_TAKEN, text, missed, undecided: None }
    }
}

impl Attempt {
    /// It is judged also when up to this share of the time was taken away: for bounds that are wider than
    /// what this can change.
    pub fn tolerates(&mut self, share: f64) {
        self.tolerated = share;
    }

    /// From here on it is measured; otherwise from the start of the attempt on.
    pub fn begin(&mut self) {
        self.watch = Some(Watch::start());
    }

    /// Until here it was measured; otherwise until the end of the attempt.
    pub fn end(&mut self) {
        if let Some(watch) = self.watch.take() {
            self.taken = self.taken.max(watch.end());
        }
    }

    /// What the packet loop itself found that was taken away from it, as a share of the time.
    pub fn stalled(&mut self, share: f64) {
        self.taken = self.taken.max(share);
    }

    /// The share of the time that was taken away as far as it is known: all of it after [`end`](Attempt::end)
    /// and [`stalled`](Attempt::stalled).
    pub fn taken(&self) -> f64 {
        self.taken
    }

    /// What was measured decides too little, although the machine was there: the test has not passed where
    /// nothing is missed.
    pub fn undecided(&mut self, why: impl Display) {
        self.undecided = Some(why.to_string());
    }

    /// A rate or a delay, and between what it has to be.
    pub fn within(&mut self, what: impl Display, value: f64, bounds: impl RangeBounds<f64> + Debug) {
        self.holds(
            format_args!("{what} {value:.3}"),
            format_args!("bounds {bounds:?}"),
            bounds.contains(&value),
        );
    }

    /// The same of what is no number, or was judged elsewhere.
    pub fn holds(&mut self, measured: impl Display, expected: impl Display, holds: bool) {
        let verdict = if holds { "" } else { " MISSED" };
        let line = format!(" {measured} ({expected}{verdict});");
        if !holds {
            self.missed += &line;
        }
        self.text += &line;
    }
}

/// Finds out what is taken away from this process and those that it started.
///
/// Other processes take the time that they run while one of ours waits for a processor; the hypervisor takes
/// the time that it calls stolen, of the processor from which most was.
struct Watch {
    begin: Instant,
    processes: HashMap<u32, Process>,
    stolen: Vec<u64>,
    waited: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
}

/// How often it is read how long our threads waited. Of a thread that ends, what came after the last reading
/// is lost.
const PERIOD: Duration = Duration::from_millis(100);
/// Unit of the kernel's times of processes and processors: hundredths of a second.
const TICK_S: f64 = 0.01;

impl Watch {
    fn start() -> Watch {
        let (waited, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (sum, stopped) = (waited.clone(), stop.clone());
        let sampler = std::thread::spawn(move || {
            let softirqs = softirqs();
            let mut last = waits(&softirqs);
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(PERIOD);
                let now = waits(&softirqs);
                let more = now.iter().map(|(thread, ns)| ns.saturating_sub(*last.get(thread).unwrap_or(&0)));
                sum.fetch_add(more.sum(), Ordering::Relaxed);
                last = now;
            }
        });
        let (processes, stolen) = (processes(), stolen());
        Watch { begin: Instant::now(), processes, stolen, waited, stop, sampler: Some(sampler) }
    }

    /// The share of the time that was taken away since.
    fn end(mut self) -> f64 {
        let elapsed = self.begin.elapsed().as_secs_f64();
        let (now, own) = (processes(), std::process::id());
        // Where others are hidden, as in a container, or the waiting is not told, the other number has to do.
        let sees_all = now.get(&KERNEL).is_some_and(|kernel| kernel.parent == 0);
        let others =
            if sees_all { used_by_others(&self.processes, &now, own) as f64 * TICK_S } else { f64::MAX };
        let stolen = stolen().iter().zip(&self.stolen).map(|(now, then)| now - then).max().unwrap_or(0);
        self.stop_sampler();
        let tells = std::path::Path::new("/proc/self/schedstat").exists();
        let waited = if tells { self.waited.load(Ordering::Relaxed) as f64 / 1e9 } else { others };
        (others.min(waited) + stolen as f64 * TICK_S) / elapsed
    }

    fn stop_sampler(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            sampler.thread().unpark();
            let _ = sampler.join();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop_sampler();
    }
}

/// A process, as `/proc/PID/stat` has it; times in ticks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Process {
    /// Who started it.
    pub parent: u32,
    /// When it was started, which tells it from an earlier one of the same number.
    pub started: u64,
    /// What it ran.
    pub used: u64,
    /// What those ran that it started and that have ended.
    pub reaped: u64,
}

/// All processes.
pub fn processes() -> HashMap<u32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter_map(|pid| Some((pid, process(&read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

fn process(stat: &str) -> Option<Process> {
    // Behind the name, which may hold anything; fields are counted from 3 there.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let (used, reaped) = (field(14)? + field(15)?, field(16)? + field(17)?);
    Some(Process { parent: field(4)? as u32, started: field(22)?, used, reaped })
}

/// The kernel's threads work for whoever sends packets; this one starts them.
const KERNEL: u32 = 2;

/// Ticks that processes ran between two readings which are neither the kernel's threads nor descend from
/// `own`.
pub fn used_by_others(before: &HashMap<u32, Process>, after: &HashMap<u32, Process>, own: u32) -> u64 {
    let mut ours = descendants(before, own);
    ours.extend(descendants(after, own));
    let other =
        |pid: &u32, process: &Process| !ours.contains(pid) && *pid != KERNEL && process.parent != KERNEL;
    let lives =
        |pid: &u32, process: &Process| after.get(pid).is_some_and(|now| now.started == process.started);
    // What had been used before by those that have ended since is no news where it was added to one that
    // lives.
    let mut old: HashMap<u32, u64> = HashMap::new();
    for (_, gone) in before.iter().filter(|(pid, process)| !lives(pid, process)) {
        let mut heir = gone.parent;
        while let Some(process) = before.get(&heir).filter(|process| !lives(&heir, process)) {
            heir = process.parent;
        }
        *old.entry(heir).or_default() += gone.used + gone.reaped;
    }
    let more = after.iter().filter(|(pid, process)| other(pid, process)).map(|(pid, now)| {
        let then = before.get(pid).filter(|then| then.started == now.started);
        let (used, reaped) = then.map_or((0, 0), |then| (then.used, then.reaped));
        let inherited = (now.reaped - reaped).saturating_sub(*old.get(pid).unwrap_or(&0));
        now.used - used + inherited
    });
    more.sum()
}

fn descendants(processes: &HashMap<u32, Process>, own: u32) -> HashSet<u32> {
    let is_ours = |pid: &u32| {
        let mut at = *pid;
        while at != own {
            match processes.get(&at) {
                Some(process) if process.parent != 0 => at = process.parent,
                _ => return false,
            }
        }
        true
    };
    processes.keys().copied().filter(is_ours).collect()
}

/// Class of threads that only run where nothing else does (SCHED_IDLE), such as those that keep processors
/// awake.
const IDLE: &str = "5";

/// Nanoseconds that each thread of ours has waited for a processor, and each kernel thread that handles
/// packets in its stead.
fn waits(softirqs: &[u32]) -> HashMap<u32, u64> {
    let (mut left, mut found) = (vec![std::process::id()], HashMap::new());
    left.extend(softirqs);
    while let Some(pid) = left.pop() {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let read = |name: &str| read_to_string(thread.path().join(name)).unwrap_or_default();
            let Some(number) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // Behind the name, fields are counted from 3.
            let stat = read("stat");
            let class = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(41 - 3));
            let waited = read("schedstat").split_whitespace().nth(1).and_then(|ns| ns.parse().ok());
            found.insert(number, waited.filter(|_| class != Some(IDLE)).unwrap_or(0));
            left.extend(read("children").split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    found
}

fn softirqs() -> Vec<u32> {
    let is_softirq = |pid: &u32| {
        read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"))
    };
    let kernel = processes().into_iter().filter(|(_, process)| process.parent == KERNEL);
    kernel.map(|(pid, _)| pid).filter(is_softirq).collect()
}

/// Ticks that each processor was stolen.
fn stolen() -> Vec<u64> {
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let processors = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    processors.map(|line| line.split_whitespace().nth(8).and_then(|n| n.parse().ok()).unwrap_or(0)).collect()
}
