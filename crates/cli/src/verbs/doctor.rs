//! `weir doctor`: what this machine can do, what is missing and how to get it.
//!
//! Whatever can be tried is tried: the packet loop is opened for a moment in each mode, on veth pairs in
//! namespaces that are removed again.

use crate::output::{Done, Output};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use weir_config::{Buffer, Channel, LinkConfig};
use weir_dataplane::privileges::{self, Rehearsed};
use weir_dataplane::{DirectionSetup, JOURNALS, Loop, Mode, PortSurvey, PutBack, Setup};
use weir_kernel::Steerable;
use weir_lab::host::{self, Check};
use weir_lab::netns::Stale;
use weir_lab::{Testbed, TestbedConfig, in_netns, netns};
use weir_report::table::Paint;
use weir_units::{Bytes, Rate};

/// Say what this machine can do, what is missing and how to get it.
///
/// Looks at the kernel, the tools, and tries namespaces, BPF and each way of taking frames, in namespaces
/// that are removed again. Exit status 0 if `weir lab` and `weir run` will work, else 1.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// First remove what killed runs left: namespaces, and changes to interfaces and queues in any namespace.
    #[arg(long)]
    clean: bool,
    /// Only remove that, and look at nothing else. Exit status 1 if something could not be removed.
    #[arg(long, conflicts_with = "clean")]
    clean_only: bool,
}

const EXAMPLES: &str = "Examples:
  sudo weir doctor
  sudo weir doctor --clean        after a killed run
  sudo weir doctor --clean-only   the same without the examination";

/// Length of the measurement of wakeups.
const JITTER_LENGTH: Duration = Duration::from_millis(300);
/// Wakeups later than that, in milliseconds, show in delays.
const JITTER_MAX_MS: f64 = 1.0;
/// The first kernel with AF_XDP memory that two interfaces share.
const KERNEL_MIN: (u32, u32) = (5, 10);
/// Programs that are not needed, with what they are good for.
const TOOLS: [(&str, &str); 5] = [
    ("clang", "to build Weir"),
    ("valgrind", "for tests of the packet path"),
    ("dpdk-testpmd", "to compare with DPDK"),
    ("qemu-system-x86_64", "to test other kernels"),
    ("ethtool", "to look at interfaces; Weir itself does without"),
];

/// Which verbs a check decides about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// `weir lab` and `weir run`.
    Both,
    Lab,
    Run,
    /// None; things are better with it.
    Optional,
}

/// One line of the diagnosis.
#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    ok: bool,
    optional: bool,
    detail: String,
    remedy: String,
    #[serde(skip)]
    need: Need,
}

impl Finding {
    fn new(need: Need, name: &str, ok: bool, detail: impl Into<String>, remedy: &str) -> Finding {
        let remedy = if ok { "" } else { remedy };
        Finding {
            name: name.into(),
            ok,
            optional: need == Need::Optional,
            detail: detail.into(),
            remedy: remedy.into(),
            need,
        }
    }

    fn from_lab(check: Check) -> Finding {
        let need = match check.name.as_str() {
            "root" => Need::Both,
            // The lab works without, only less well.
            "cpus" | "qdisc fq" | "memory for TCP" => Need::Optional,
            _ => Need::Lab,
        };
        Finding::new(need, &check.name, check.ok, check.detail, &check.remedy)
    }

    fn word(&self) -> &'static str {
        match (self.ok, self.optional) {
            (true, _) => "ok",
            (false, true) => "optional",
            (false, false) => "MISSING",
        }
    }

    /// Whether it stands against `weir lab` or `weir run`.
    fn forbids(&self, verb: Need) -> bool {
        !self.ok && (self.need == verb || self.need == Need::Both)
    }
}

/// Which verbs will work here.
#[derive(Clone, Copy, Debug, Serialize)]
struct Can {
    lab: bool,
    run: bool,
}

#[derive(Debug, Serialize)]
struct Diagnosis {
    checks: Vec<Finding>,
    /// The interfaces of this network namespace, and what `weir run` would do with each.
    ports: Vec<PortSurvey>,
    can: Can,
    #[serde(flatten)]
    cleaning: Cleaning,
}

/// What came of removing what killed runs left, in words.
#[derive(Debug, Default, Serialize)]
struct Cleaning {
    /// What was done.
    cleaned: Vec<String>,
    /// What could not be done.
    not_cleaned: Vec<String>,
    /// What lies there and is nothing of Weir's, or was changed by others meanwhile.
    left_alone: Vec<String>,
}

impl Cleaning {
    fn of(all: Vec<PutBack>) -> Cleaning {
        let mut cleaning = Cleaning::default();
        for one in all {
            match one {
                PutBack::Done(line) => cleaning.cleaned.push(line),
                PutBack::Failed(line) => cleaning.not_cleaned.push(line),
                PutBack::LeftAlone(line) => cleaning.left_alone.push(line),
            }
        }
        cleaning
    }

    fn is_whole(&self) -> bool {
        self.not_cleaned.is_empty()
    }

    /// A line each, or that there was nothing.
    fn text(&self) -> String {
        let lines: Vec<&str> = [&self.cleaned, &self.not_cleaned, &self.left_alone]
            .into_iter()
            .flatten()
            .map(|line| line.as_str())
            .collect();
        if lines.is_empty() { "Nothing was left by killed runs.".into() } else { lines.join("\n") }
    }
}

/// Runs the verb.
pub fn main(arguments: Arguments, output: &Output) -> Done {
    if arguments.clean_only {
        return only_clean(output);
    }
    let cleaning = if arguments.clean { clean() } else { Cleaning::default() };
    let checks = examine();
    let can = |verb| !checks.iter().any(|finding| finding.forbids(verb));
    let can = Can { lab: can(Need::Lab), run: can(Need::Run) };
    let ports = weir_dataplane::survey();
    let diagnosis = Diagnosis { checks, ports, can, cleaning };
    output.result(&diagnosis, || show(&diagnosis, arguments.clean, output.paint()));
    Ok(if can.lab && can.run { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes what killed runs left.
fn only_clean(output: &Output) -> Done {
    let cleaning = clean();
    let mut json = serde_json::to_value(&cleaning).expect("lists of words are plain data");
    json["whole"] = cleaning.is_whole().into();
    output.result(&json, || cleaning.text());
    Ok(if cleaning.is_whole() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn examine() -> Vec<Finding> {
    let mut findings = vec![kernel()];
    findings.extend(host::checks().into_iter().map(Finding::from_lab));
    findings.extend(packet_paths());
    findings.push(queues_in_bpf());
    findings.push(journals());
    findings.extend(least_privilege());
    findings.extend(scheduling());
    findings.push(leftovers());
    findings.extend(units());
    findings.extend(TOOLS.iter().map(|(name, good_for)| tool(name, good_for)));
    findings
}

fn kernel() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let remedy = "use Linux 5.10 or later; an older one may do AF_PACKET alone";
    Finding::new(Need::Optional, "Linux", version(release) >= KERNEL_MIN, release, remedy)
}

/// Whether the kernel takes queues in BPF.
fn queues_in_bpf() -> Finding {
    let lacking = weir_kernel::qdisc::lacking();
    let remedy = "for `weir run --in-kernel=queue` Linux 6.16 or newer with CONFIG_NET_SCH_BPF and CONFIG_DEBUG_INFO_BTF";
    let ok = lacking.is_none();
    let detail = lacking.unwrap_or_else(|| "for `weir run --in-kernel=queue`".into());
    Finding::new(Need::Optional, "queues in BPF", ok, detail, remedy)
}

/// Which kinds of its queues the kernel has that can be steered.
fn asked_for_kinds(testbed: &Testbed) -> Result<Steerable, String> {
    let ask = || -> Result<Steerable, weir_kernel::Error> {
        let mut link = weir_kernel::Link::open()?;
        let port = link.interfaces()?.into_iter().find(|one| one.name == netns::PORTS[0]);
        port.map_or_else(|| Ok(Steerable::default()), |port| weir_kernel::steerable(&mut link, port.index))
    };
    in_netns(testbed.bottleneck(), ask).map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

fn kernel_queues(found: &Result<Steerable, String>) -> Finding {
    let remedy = "for `weir steer` load modules such as sch_fq_codel, or use a kernel with CONFIG_NET_SCH_FQ_CODEL and the like";
    let (ok, detail) = match found {
        Ok(Steerable { here, missing }) => {
            let named = |list: &[&str]| if list.is_empty() { "none".into() } else { list.join(", ") };
            let ok = !here.is_empty();
            (ok, format!("`weir steer` can steer {}; not in this kernel: {}", named(here), named(missing)))
        }
        Err(why) => (false, format!("not tried: {why}")),
    };
    Finding::new(Need::Optional, "kernel queues", ok, detail, remedy)
}

/// The first two numbers of a kernel's release, such as 6.1 of `6.1.0-18-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn tool(name: &str, good_for: &str) -> Finding {
    let installed = host::has_binary(name);
    let detail = if installed { good_for.into() } else { format!("not installed; {good_for}") };
    Finding::new(Need::Optional, name, installed, detail, "none needed to use Weir")
}

/// How far opening the packet loop got. Its steps come in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reached {
    Nothing,
    /// The BPF programs were loaded.
    Loaded,
    /// The filter that fails open is in place.
    Filtered,
    /// Sockets were made.
    Sockets,
    /// Frames can flow.
    Open,
}

/// An attempt to open the packet loop in a mode.
#[derive(Debug)]
struct Attempt {
    mode: Mode,
    reached: Reached,
    detail: String,
}

impl Attempt {
    fn new(mode: Mode, result: Result<(), String>) -> Attempt {
        match result {
            Ok(()) => Attempt { mode, reached: Reached::Open, detail: "works on veth".into() },
            Err(detail) => Attempt { mode, reached: reached(&detail), detail },
        }
    }
}

/// What was reached when this error ended it.
fn reached(error: &str) -> Reached {
    const STEPS: [(&str, Reached); 4] = [
        ("clsact", Reached::Loaded),
        ("filter that fails open", Reached::Loaded),
        ("AF_XDP", Reached::Filtered),
        ("attach the XDP program", Reached::Sockets),
    ];
    STEPS.iter().find(|(words, _)| error.contains(words)).map_or(Reached::Nothing, |(_, reached)| *reached)
}

/// What BPF, AF_XDP and AF_PACKET can do here, by opening the packet loop in each mode.
fn packet_paths() -> Vec<Finding> {
    match Testbed::new(TestbedConfig::default()) {
        Ok(testbed) => {
            let modes = [Mode::XdpNative, Mode::XdpGeneric, Mode::AfPacket];
            let mut findings = judge(&modes.map(|mode| Attempt::new(mode, open(mode, &testbed))));
            // In place of a queue of its port, with which nothing else is done.
            findings.push(kernel_queues(&asked_for_kinds(&testbed)));
            findings
        }
        Err(e) => {
            let detail = format!("not tried: {e}");
            vec![Finding::new(
                Need::Both,
                "packet loop",
                false,
                detail,
                "see above: it is tried in namespaces",
            )]
        }
    }
}

fn judge(attempts: &[Attempt]) -> Vec<Finding> {
    let xdp = || attempts.iter().filter(|a| a.mode != Mode::AfPacket);
    let mut findings = vec![
        step(attempts.iter(), Reached::Loaded, Need::Both, "BPF", "use a kernel with BPF_SYSCALL, as root"),
        step(
            attempts.iter(),
            Reached::Filtered,
            Need::Both,
            "qdisc clsact",
            "use a kernel with NET_SCH_INGRESS and NET_CLS_BPF: the kernel forwards with it if Weir dies",
        ),
        step(xdp(), Reached::Sockets, Need::Optional, "AF_XDP sockets", "use a kernel with XDP_SOCKETS"),
    ];
    // One way of taking frames is enough.
    let is_open = attempts.iter().any(|a| a.reached == Reached::Open);
    let need = if is_open { Need::Optional } else { Need::Both };
    for Attempt { mode, reached, detail } in attempts {
        let remedy = if is_open { "none needed: another mode works, with more CPU" } else { "see above" };
        findings.push(Finding::new(need, &mode.to_string(), *reached == Reached::Open, detail, remedy));
    }
    findings
}

/// Whether any attempt reached a step; else the error of the one that got furthest.
fn step<'a>(
    attempts: impl Iterator<Item = &'a Attempt>,
    wanted: Reached,
    need: Need,
    name: &str,
    remedy: &str,
) -> Finding {
    match attempts.max_by_key(|attempt| attempt.reached) {
        Some(best) if best.reached >= wanted => Finding::new(need, name, true, "can be used", ""),
        best => Finding::new(need, name, false, best.map_or("", |a| &a.detail), remedy),
    }
}

/// Opens the packet loop in a mode for a moment. Dropping it takes everything off again.
fn open(mode: Mode, testbed: &Testbed) -> Result<(), String> {
    let attempt = || Loop::open(setup(mode)).map(drop).map_err(|e| e.to_string());
    in_netns(testbed.bottleneck(), attempt).map_err(|e| e.to_string())?
}

fn setup(mode: Mode) -> Setup {
    // Shaped, with little room: without a rate, room for a fast link would be taken.
    let link = LinkConfig {
        rate: Some(Rate::from_bps(10_000_000)),
        buffer: Buffer::Bytes(Bytes::new(65_536)),
        ..Channel::unshaped().link
    };
    let channel = Channel { link, ..Channel::unshaped() };
    let direction = |name: &str| DirectionSetup::new(name, channel.clone());
    Setup {
        mode: Some(mode),
        realtime: false,
        ..Setup::in_namespace(netns::PORTS, ["a_to_b", "b_to_a"].map(direction))
    }
}

/// Whether changes to interfaces can be journalled.
fn journals() -> Finding {
    let existed = Path::new(JOURNALS).exists();
    let file = Path::new(JOURNALS).join(format!("doctor-{}", std::process::id()));
    let result = weir_dataplane::make_journals(Path::new(JOURNALS)).and_then(|()| std::fs::write(&file, ""));
    let _ = std::fs::remove_file(&file);
    if !existed {
        // Fails if another run has begun to use it, which is as well.
        let _ = std::fs::remove_dir(JOURNALS);
    }
    let detail =
        result.as_ref().map_or_else(|e| format!("cannot be written: {e}"), |()| "can be written".into());
    Finding::new(Need::Run, JOURNALS, result.is_ok(), detail, "run as root, with a writable /run")
}

/// What a running program can give up of its rights.
fn least_privilege() -> [Finding; 3] {
    let Rehearsed { capabilities, system_calls, files } = privileges::rehearse();
    let finding = |name: &str, result: Result<(), String>, good: &str, remedy: &str| {
        let detail = result.as_ref().err().map_or(good, |why| why);
        Finding::new(Need::Optional, name, result.is_ok(), detail, remedy)
    };
    [
        finding(
            "capabilities",
            capabilities,
            "those that a running program does not need are given up",
            "none needed: it runs with those that it has",
        ),
        finding(
            "seccomp",
            system_calls,
            "system calls that a running program does not need are refused",
            "use a kernel with SECCOMP_FILTER; without it they are not filtered",
        ),
        finding(
            "Landlock",
            files,
            "a running program opens only its own files",
            "use Linux 5.13 or later with SECURITY_LANDLOCK, and `landlock` in `lsm=`; without it files stay open to it",
        ),
    ]
}

/// Whether threads may have a real-time class, and how late they wake.
fn scheduling() -> Vec<Finding> {
    // The packet loop of the lab runs there, too.
    let core = host::cpus().allowed.last().copied();
    match host::probe_jitter(JITTER_LENGTH, true, core) {
        Ok(jitter) => vec![realtime(jitter.realtime), wakeups(&jitter)],
        Err(e) => vec![Finding::new(Need::Optional, "wakeups", false, e.to_string(), "none known")],
    }
}

fn realtime(granted: bool) -> Finding {
    let detail = if granted { "SCHED_FIFO is granted" } else { "SCHED_FIFO is refused" };
    let remedy = "run as root (CAP_SYS_NICE), where no cgroup forbids it: ordinary threads disturb the loop";
    Finding::new(Need::Optional, "real-time class", granted, detail, remedy)
}

fn wakeups(jitter: &host::Jitter) -> Finding {
    let late = &jitter.late_ms;
    let detail = format!("median {:.2}, 99 % {:.2}, max {:.2} ms late", late.p50, late.p99, late.max);
    let remedy = "stop other work on this machine; delays below that cannot be trusted";
    Finding::new(Need::Optional, "wakeups", late.p99 <= JITTER_MAX_MS, detail, remedy)
}

/// Units of systemd, where they are installed: `systemctl` tells how each stands.
fn units() -> Vec<Finding> {
    let installed = ["/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system"]
        .iter()
        .any(|folder| Path::new(folder).join("weir@.service").exists());
    if !installed {
        return Vec::new();
    }
    if !Path::new("/run/systemd/system").exists() {
        let detail = "weir@.service is installed, and systemd does not run here";
        let remedy = "start links with `weir run FILE --keep-forwarding`";
        return vec![Finding::new(Need::Optional, "systemd", false, detail, remedy)];
    }
    let kinds = ["weir@*", "weir-steer@*", "weir-upf@*"];
    let properties = "--property=Id,ActiveState,SubState,StatusText,NRestarts,Result";
    let asked = std::process::Command::new("systemctl").args(["show", properties]).args(kinds).output();
    match asked {
        Ok(answer) if answer.status.success() => told_units(&String::from_utf8_lossy(&answer.stdout)),
        Ok(answer) => {
            let why = String::from_utf8_lossy(&answer.stderr).trim().to_string();
            vec![Finding::new(Need::Optional, "systemd", false, why, "ask `systemctl status 'weir*'`")]
        }
        Err(error) => {
            vec![Finding::new(Need::Optional, "systemd", false, error.to_string(), "install systemctl")]
        }
    }
}

/// The same out of what `systemctl show` prints: a block of lines for each unit.
fn told_units(text: &str) -> Vec<Finding> {
    let found: Vec<Finding> = text.split("\n\n").filter_map(unit).collect();
    if found.is_empty() {
        let detail = "units are installed, and none was started";
        return vec![Finding::new(Need::Optional, "systemd", true, detail, "")];
    }
    found
}

fn unit(block: &str) -> Option<Finding> {
    let value = |key: &str| {
        block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default().trim()
    };
    let name = Some(value("Id")).filter(|name| !name.is_empty())?;
    let (state, sub) = (value("ActiveState"), value("SubState"));
    let mut detail = format!("{state} ({sub})");
    let status = value("StatusText");
    if !status.is_empty() {
        detail.push_str(&format!(": {status}"));
    }
    let restarts: u64 = value("NRestarts").parse().unwrap_or(0);
    if restarts > 0 {
        detail.push_str(&format!("; started anew {restarts} times by systemd"));
    }
    // One that was stopped is in order.
    let is_well = restarts == 0 && (state == "active" || state == "inactive" || state == "reloading");
    if !is_well && value("Result") != "success" {
        detail.push_str(&format!("; the last end: {}", value("Result")));
    }
    let remedy = format!("`journalctl -u {name}` says why");
    Some(Finding::new(Need::Optional, name, is_well, detail, &remedy))
}

/// What killed runs left behind.
fn leftovers() -> Finding {
    let mut left: Vec<String> = match netns::stale_namespaces() {
        Ok(names) => names.iter().map(|name| format!("namespace {name}")).collect(),
        Err(e) => vec![e.to_string()],
    };
    left.extend(weir_dataplane::stale_journals());
    left.extend(weir_kernel::left_behind(Path::new(weir_kernel::JOURNALS)));
    let detail = if left.is_empty() { "none".into() } else { left.join(", ") };
    let remedy = "`weir doctor --clean` as root";
    Finding::new(Need::Optional, "left by killed runs", left.is_empty(), detail, remedy)
}

/// Removes what killed runs left.
fn clean() -> Cleaning {
    let mut said = weir_dataplane::restore_everywhere();
    said.extend(weir_kernel::restore_everywhere(Path::new(weir_kernel::JOURNALS)));
    // Looking for sockets takes those away that nobody listens behind; without the folder there are none.
    let _ = weir_operate::running(Path::new(weir_operate::FOLDER));
    match weir_lab::clean_stale() {
        Ok(stale) => said.extend(stale.into_iter().map(|Stale { name, removed }| match removed {
            Ok(processes) if processes.is_empty() => PutBack::Done(format!("removed namespace {name}")),
            Ok(processes) => {
                PutBack::Done(format!("removed namespace {name}, ended its processes {processes:?}"))
            }
            Err(e) => PutBack::Failed(format!("namespace {name}: NOT removed: {e}")),
        })),
        Err(e) => said.push(PutBack::Failed(format!("NOT cleaned: {e}"))),
    }
    Cleaning::of(said)
}

fn show(diagnosis: &Diagnosis, cleaned: bool, paint: Paint) -> String {
    let mut text = if cleaned { format!("{}\n\n", diagnosis.cleaning.text()) } else { String::new() };
    let width = diagnosis.checks.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
    diagnosis.checks.iter().for_each(|finding| text.push_str(&line(finding, width, paint)));
    diagnosis.ports.iter().for_each(|one| text.push_str(&port(one)));
    text + "\n" + &verdict(diagnosis)
}

/// What there is to know of an interface as a port, in two lines.
fn port(port: &PortSurvey) -> String {
    let PortSurvey { name, driver, mtu, link, queues, queues_most, plan, .. } = port;
    let driver = driver.as_deref().unwrap_or("unknown");
    let link = if *link { "" } else { ", no link" };
    let most = if queues_most > queues { format!(" of {queues_most}") } else { String::new() };
    let plural = if *queues == 1 && most.is_empty() { "" } else { "s" };
    format!(
        "\nport {name}: driver {driver}, MTU {mtu}, {queues}{most} receive queue{plural}{link}\n    `weir run` would {plan}\n"
    )
}

fn line(finding: &Finding, width: usize, paint: Paint) -> String {
    let Finding { name, detail, remedy, .. } = finding;
    let word = hue(&format!("{:8}", finding.word()), finding, paint);
    let mut line = format!("{word}  {name:width$}  {detail}");
    line.truncate(line.trim_end().len());
    line.push('\n');
    if !remedy.is_empty() {
        line.push_str(&format!("{:8}  {:width$}  -> {remedy}\n", "", ""));
    }
    line
}

/// Colours the verdict on a line.
fn hue(text: &str, finding: &Finding, paint: Paint) -> String {
    let code = match (finding.ok, finding.optional) {
        _ if paint == Paint::Plain => return text.into(),
        (true, _) => 32,
        (false, true) => 33,
        (false, false) => 31,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Which verbs will work, in a sentence or two.
fn verdict(diagnosis: &Diagnosis) -> String {
    let Can { lab, run } = diagnosis.can;
    if lab && run {
        return "All verbs will work here; what is marked optional is missing in some of them.\n".into();
    }
    let mut text =
        "Will work here: list, explain, check, sim, sweep, characterize, reproduce --arm sim".to_string();
    text.push_str(if lab { ", lab, compare, reproduce --arm lab.\n" } else { "" });
    text.push_str(if run { ", run.\n" } else { "" });
    text.push_str(if lab || run { "" } else { ".\n" });
    for (verbs, need) in [("lab, compare, reproduce --arm lab", Need::Lab), ("run", Need::Run)] {
        let lacking = diagnosis.checks.iter().filter(|f| f.forbids(need)).map(|f| f.name.as_str());
        let lacking: Vec<_> = lacking.collect();
        if !lacking.is_empty() {
            text.push_str(&format!("Will not work: {verbs}. What is missing: {}.\n", lacking.join("; ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(results: [Result<(), &str>; 3]) -> Vec<Attempt> {
        let modes = [Mode::XdpNative, Mode::XdpGeneric, Mode::AfPacket];
        modes.into_iter().zip(results).map(|(m, r)| Attempt::new(m, r.map_err(String::from))).collect()
    }

    fn missing(findings: &[Finding]) -> Vec<&str> {
        findings.iter().filter(|f| !f.ok && !f.optional).map(|f| f.name.as_str()).collect()
    }

    #[test]
    fn one_mode_is_enough() {
        let refused = "AF_XDP refused on `a` queue 0: Operation not supported (os error 95)";
        let findings = judge(&attempts([Err(refused), Err(refused), Ok(())]));
        assert!(missing(&findings).is_empty(), "{findings:?}");
        let sockets = findings.iter().find(|f| f.name == "AF_XDP sockets").unwrap();
        assert!(!sockets.ok && sockets.detail == refused, "{sockets:?}");
    }

    #[test]
    fn the_step_that_failed_is_named() {
        let clsact = "cannot create the clsact qdisc that fails open: No such file or directory";
        let findings = judge(&attempts([Err(clsact), Err(clsact), Err(clsact)]));
        let names = ["qdisc clsact", "AF_XDP, native", "AF_XDP, generic", "AF_PACKET"];
        assert_eq!(missing(&findings), names);
        let load = "cannot load the BPF programs: Operation not permitted";
        assert_eq!(missing(&judge(&attempts([Err(load), Err(load), Err(load)])))[0], "BPF");
    }

    #[test]
    fn native_that_is_refused_by_the_driver_leaves_sockets_usable() {
        let refused = "cannot attach the XDP program: Operation not supported";
        let findings = judge(&attempts([Err(refused), Ok(()), Ok(())]));
        let bad: Vec<_> = findings.iter().filter(|f| !f.ok).map(|f| f.name.as_str()).collect();
        assert_eq!(bad, ["AF_XDP, native"]);
    }

    #[test]
    fn kinds_of_queues_that_can_be_steered_are_listed() {
        let told = |here: &[&'static str], missing: &[&'static str]| {
            kernel_queues(&Ok(Steerable { here: here.into(), missing: missing.into() }))
        };
        let some = told(&["codel", "bfifo"], &["cake"]);
        assert_eq!(some.detail, "`weir steer` can steer codel, bfifo; not in this kernel: cake");
        assert!(some.ok && some.optional && some.remedy.is_empty());
        let none = told(&[], &["cake"]);
        assert!(!none.ok && none.detail.contains("steer none;") && none.remedy.contains("sch_fq_codel"));
        assert!(!kernel_queues(&Err("no rights".into())).ok);
    }

    #[test]
    fn releases_of_kernels_are_compared_as_numbers() {
        assert!(version("6.1.0-18-amd64") >= KERNEL_MIN && version("5.10") >= KERNEL_MIN);
        assert!(version("5.4.0") < KERNEL_MIN && version("") < KERNEL_MIN);
    }

    #[test]
    fn units_are_told_as_they_stand() {
        let text = "Id=weir@home.service\nActiveState=active\nSubState=running\nStatusText=a <-> b: 5 Mbit/s\nNRestarts=0\nResult=success\n\n\
                    Id=weir@lab.service\nActiveState=activating\nSubState=auto-restart\nStatusText=\nNRestarts=7\nResult=exit-code\n";
        let found = told_units(text);
        assert_eq!(found.iter().map(|f| f.ok).collect::<Vec<_>>(), [true, false]);
        assert_eq!(found[0].detail, "active (running): a <-> b: 5 Mbit/s");
        assert!(found[1].detail.contains("7 times") && found[1].detail.ends_with("exit-code"), "{found:?}");
        assert!(found[1].remedy.contains("journalctl -u weir@lab.service"));
        assert!(told_units("\n")[0].ok);
    }

    #[test]
    fn what_was_not_cleaned_and_what_is_of_others_stand_apart() {
        let all = [
            PutBack::Done("eth0: took the programs off".into()),
            PutBack::Failed("/run/weir: NOT looked into".into()),
            PutBack::LeftAlone("/run/weir/7.json: not a journal; left alone".into()),
        ];
        let cleaning = Cleaning::of(all.to_vec());
        let lists = [&cleaning.cleaned, &cleaning.not_cleaned, &cleaning.left_alone];
        assert!(lists.iter().zip(&all).all(|(list, one)| ***list == [one.text()]), "{cleaning:?}");
        assert!(!cleaning.is_whole() && Cleaning::of(all[2..].to_vec()).is_whole());
        assert_eq!(cleaning.text().lines().count(), 3);
    }

    #[test]
    fn the_verdict_names_what_is_missing() {
        let checks = vec![
            Finding::new(Need::Lab, "iperf3", false, "not installed", "install it"),
            Finding::new(Need::Optional, "valgrind", false, "not installed", "none needed"),
        ];
        let can = Can { lab: false, run: true };
        let diagnosis = Diagnosis { checks, ports: Vec::new(), can, cleaning: Cleaning::default() };
        let text = show(&diagnosis, false, Paint::Plain);
        assert_eq!(
            text,
            "MISSING   iperf3    not installed\n                    -> install it\n\
             optional  valgrind  not installed\n                    -> none needed\n\n\
             Will work here: list, explain, check, sim, sweep, characterize, reproduce --arm sim, run.\nWill not work: lab, compare, reproduce --arm lab. What is missing: iperf3.\n"
        );
    }
}
