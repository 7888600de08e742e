//! What this machine can do, and how far its clock ticks can be trusted.

use crate::command::{self, package_of, run};
use crate::error::{Error, Result};
use crate::netns::{Scratch, available_congestion, in_netns};
use crate::process::set_affinity;
use std::fs;
use std::time::Duration;
use weir_measure::result::Spread;
use weir_measure::spread;

/// Result of one check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// Whether it is as it should be.
    pub ok: bool,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty if nothing is to be done.
    pub remedy: String,
}

impl Check {
    fn new(name: &str, ok: bool, detail: impl Into<String>, remedy: impl Into<String>) -> Check {
        let remedy = if ok { String::new() } else { remedy.into() };
        Check { name: name.into(), ok, detail: detail.into(), remedy }
    }
}

/// The processors this program may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus {
    /// Model, as the kernel names it; empty if it does not.
    pub model: String,
    /// Numbers of the CPUs this program may run on.
    pub allowed: Vec<usize>,
    /// CPUs that the kernel's scheduler leaves alone (`isolcpus`).
    pub isolated: String,
    /// Whether a hypervisor lends them.
    pub lent: bool,
}

/// Facts about the processors.
pub fn cpus() -> Cpus {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find(|l| l.starts_with("model name")).and_then(|l| l.split(": ").nth(1));
    let isolated = fs::read_to_string("/sys/devices/system/cpu/isolated").unwrap_or_default();
    let flags = info.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
    Cpus {
        model: model.unwrap_or_default().to_string(),
        allowed: allowed_cpus(),
        isolated: isolated.trim().to_string(),
        lent: flags.split_whitespace().any(|flag| flag == "hypervisor"),
    }
}

fn allowed_cpus() -> Vec<usize> {
    // SAFETY: a CPU set is an array of integers, for which zero is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set and its size; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } < 0 {
        return Vec::new();
    }
    // SAFETY: all numbers are within the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Whether this program runs as root.
pub fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Where a program is: as the shell would find it, or in the administrators' directories.
pub fn binary(name: &str) -> Option<std::path::PathBuf> {
    command::find(name).ok()
}

/// Whether a program is installed.
pub fn has_binary(name: &str) -> bool {
    command::find(name).is_ok()
}

/// All checks of what the lab needs. None changes anything that lasts.
pub fn checks() -> Vec<Check> {
    let mut checks = vec![check_root(), check_binary("ip"), check_binary("tc"), check_iperf3(), check_cpus()];
    checks.extend(check_namespace());
    checks.push(check_memory());
    checks
}

fn check_root() -> Check {
    let detail = if is_root() { "this program runs as root" } else { "this program does not run as root" };
    Check::new("root", is_root(), detail, "run it as root, for instance with sudo")
}

/// Checks that a program is installed.
pub fn check_binary(name: &str) -> Check {
    match command::find(name) {
        Ok(path) => Check::new(name, true, path.display().to_string(), ""),
        Err(e) => {
            Check::new(name, false, e.to_string(), format!("install the package `{}`", package_of(name)))
        }
    }
}

fn check_iperf3() -> Check {
    let version = match run("iperf3", &["--version"]) {
        Ok(text) => text.lines().next().unwrap_or_default().to_string(),
        Err(_) => return check_binary("iperf3"),
    };
    Check::new(
        "iperf3",
        new_enough(&version),
        version,
        "install iperf3 3.10 or later: ports of streams are needed",
    )
}

/// Reads "iperf 3.12 (cJSON 1.7.15)".
fn new_enough(version: &str) -> bool {
    let mut numbers = version
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (3, 10)
}

fn check_cpus() -> Check {
    let cpus = cpus();
    let detail = format!("{} usable, {}", cpus.allowed.len(), cpus.model);
    let remedy = "with a single CPU the packet loop and TCP disturb each other: stay below 100 Mbit/s";
    Check::new("cpus", cpus.allowed.len() >= 2, detail, remedy)
}

/// Checks that need a namespace, inside one that is removed again.
fn check_namespace() -> Vec<Check> {
    let scratch = match Scratch::new() {
        Ok(scratch) => scratch,
        Err(e) => {
            let remedy = "run as root, outside of containers that forbid it; the kernel needs NET_NS";
            return vec![Check::new("network namespaces", false, e.to_string(), remedy)];
        }
    };
    let name = scratch.name();
    let mut checks = vec![Check::new("network namespaces", true, "can be made", "")];
    // Without the word `name`, iproute2 takes `a` for `address`.
    let veth = ["-n", name, "link", "add", "name", "a", "type", "veth", "peer", "name", "b"];
    checks.push(attempt("veth", run("ip", &veth), "use a kernel with VETH, or load the module `veth`"));
    let fq = ["-n", name, "qdisc", "replace", "dev", "lo", "root", "fq"];
    // Not a fault: without it TCP paces by itself.
    let found =
        if run("tc", &fq).is_ok() { "can be used" } else { "absent: TCP paces (bbr) with timers of its own" };
    checks.push(Check::new("qdisc fq", true, found, ""));
    let available = in_netns(name, available_congestion).unwrap_or_default();
    let cubic = available.split_whitespace().any(|n| n == "cubic");
    checks.push(Check::new("congestion controls", cubic, available, "use a kernel with TCP_CONG_CUBIC"));
    let diag = crate::tcpinfo::snapshot(name).map(|_| String::new());
    checks.push(attempt("sock_diag", diag, "use a kernel with INET_DIAG, or load the module `tcp_diag`"));
    checks
}

fn attempt(name: &str, result: Result<String>, remedy: &str) -> Check {
    match result {
        Ok(_) => Check::new(name, true, "can be used", ""),
        Err(e) => Check::new(name, false, e.to_string(), remedy),
    }
}

/// TCP shares `tcp_mem` among all connections of the machine: under pressure it shrinks windows.
fn check_memory() -> Check {
    const NEEDED: u64 = 512 << 20;
    let Ok(text) = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem") else {
        return Check::new(
            "memory for TCP",
            true,
            "is that of the host, which is not told in a namespace",
            "",
        );
    };
    let pages: u64 = text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    let bytes = pages * 4096;
    let detail = format!("TCP of all namespaces may use {} MiB before it shrinks windows", bytes >> 20);
    let remedy = "raise net.ipv4.tcp_mem, or use fewer flows or a shorter path";
    Check::new("memory for TCP", bytes >= NEEDED, detail, remedy)
}

/// How late a sleeping thread was woken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    /// Delay of the wakeups in milliseconds.
    pub late_ms: Spread,
    /// Whether the thread had the real-time class SCHED_FIFO.
    pub realtime: bool,
    /// Number of wakeups measured.
    pub wakeups: usize,
}

/// Measures for `length` how late a thread that sleeps a millisecond at a time is woken, on `cpu` if given.
/// With `realtime` it asks for SCHED_FIFO; the result tells whether it got it.
pub fn probe_jitter(length: Duration, realtime: bool, cpu: Option<usize>) -> Result<Jitter> {
    let probe = move || {
        if let Some(cpu) = cpu {
            set_affinity(&[cpu])?;
        }
        let realtime = realtime && become_realtime();
        let mut late = measure_wakeups(length);
        Ok(Jitter { late_ms: spread(&mut late), realtime, wakeups: late.len() })
    };
    std::thread::Builder::new()
        .name("weir-jitter".into())
        .spawn(probe)
        .map_err(|e| Error::system("start a thread for the jitter probe", e))?
        .join()
        .unwrap_or_else(|_| Err(Error::system("measure jitter", std::io::Error::other("the probe panicked"))))
}

/// Gives the calling thread the lowest real-time priority: above all ordinary threads, below real ones.
fn become_realtime() -> bool {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: valid parameters; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 }
}

/// Delays of wakeups in milliseconds, in order of time.
fn measure_wakeups(length: Duration) -> Vec<f64> {
    const PERIOD_NS: u64 = 1_000_000;
    let begin = now_ns();
    let mut due = begin + PERIOD_NS;
    let mut late = Vec::new();
    while due - begin <= length.as_nanos() as u64 {
        sleep_until_ns(due);
        let now = now_ns();
        late.push(now.saturating_sub(due) as f64 / 1e6);
        due = due.max(now - (now - begin) % PERIOD_NS) + PERIOD_NS;
    }
    late
}

fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a place for its time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn sleep_until_ns(due: u64) {
    let t = libc::timespec {
        tv_sec: (due / 1_000_000_000) as libc::time_t,
        tv_nsec: (due % 1_000_000_000) as libc::c_long,
    };
    // An interrupted sleep ends early, which counts as not late.
    // SAFETY: a valid clock and time; nothing is written as the time is absolute.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &t, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_iperf3_are_compared_as_numbers() {
        assert!(
            new_enough("iperf 3.12 (cJSON 1.7.15)") && new_enough("iperf 3.10.1") && new_enough("iperf 4.0")
        );
        assert!(!new_enough("iperf 3.9 (cJSON 1.7.13)") && !new_enough("") && !new_enough("iperf three"));
    }

    #[test]
    fn the_jitter_probe_wakes_as_often_as_it_should() {
        let jitter = probe_jitter(Duration::from_millis(100), false, None).unwrap();
        assert!((1..=100).contains(&jitter.wakeups), "{jitter:?}");
        assert!(jitter.late_ms.max >= jitter.late_ms.p50 && jitter.late_ms.max > 0.0, "{jitter:?}");
        assert!(!jitter.realtime);
    }

    #[test]
    fn an_impossible_cpu_is_an_error() {
        assert!(probe_jitter(Duration::from_millis(5), false, Some(1_000_000)).is_err());
    }

    #[test]
    fn checks_that_fail_have_a_remedy_and_others_have_none() {
        for check in checks() {
            assert_eq!(check.ok, check.remedy.is_empty(), "{check:?}");
            assert!(!check.name.is_empty() && (check.ok || !check.detail.is_empty()), "{check:?}");
        }
    }
}
