//! What forwards between the two ports of a testbed: Weir's packet loop, or testpmd.

use crate::error::{Error, Result};
use crate::tools;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_config::{Channel, RunConfig, SenseConfig};
use weir_dataplane::{DirectionSetup, Loop, Outcome, Setup};
use weir_lab::netns::{PORT_A, PORT_B, PORTS};
use weir_lab::{NsChild, SpawnOptions, Testbed, in_netns, spawn_in};

/// Processor of the end hosts: all traffic is made and taken here.
pub const TRAFFIC_CPU: usize = 0;
/// Processor of whatever forwards.
pub const FORWARDER_CPU: usize = 1;
/// Niceness of forwarders and end hosts alike. Not below zero: the kernel's own threads for packets, without
/// which nothing is forwarded, have zero.
const NICE: i32 = 0;

/// Waits until nobody else measures on this machine, and keeps others from it while the value lives.
pub fn alone() -> Result<weir_lab::Exclusive> {
    let say = || eprintln!("weir-bench: waiting for another run on this machine to end");
    Ok(weir_lab::exclusive(weir_lab::waiting(say, || true))?)
}

/// How processes of the end hosts run.
pub fn end_host() -> SpawnOptions {
    SpawnOptions { cpus: vec![TRAFFIC_CPU], nice: NICE, is_end_host: true }
}

/// A direction as a configuration describes it; keys of the direction, tables included.
pub fn channel(keys: &str) -> Result<Channel> {
    let text = format!("[ports]\na = \"{PORT_A}\"\nb = \"{PORT_B}\"\n[a_to_b]\n{keys}\n");
    RunConfig::parse("bench", &text).map(|c| c.a_to_b).map_err(|e| Error::new(e.to_string()))
}

/// How the kernel treats the interrupts of the ports: who takes frames from the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// The processor on which frames arrive takes them, at once.
    Kernel,
    /// The forwarder is to take them (`napi_defer_hard_irqs`).
    Deferred,
}

impl Interrupts {
    /// Sets up both ports; in the namespace and with the /sys of the calling thread.
    fn apply(self) -> Result<()> {
        if self == Interrupts::Kernel {
            return Ok(());
        }
        for port in PORTS {
            for (setting, value) in [("napi_defer_hard_irqs", "2"), ("gro_flush_timeout", "200000")] {
                std::fs::write(format!("/sys/class/net/{port}/{setting}"), value)?;
            }
        }
        Ok(())
    }
}

/// Gives the calling thread a /sys that shows the interfaces of its network namespace.
fn mount_own_sys() -> Result<()> {
    let done = |code: libc::c_int| match code {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    let none = std::ptr::null();
    // SAFETY: a plain integer. Only this thread leaves the mount namespace.
    done(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    let private = libc::MS_REC | libc::MS_SLAVE;
    // SAFETY: strings that end in NUL, and no data. Nothing done here reaches the machine's mounts.
    done(unsafe { libc::mount(c"none".as_ptr(), c"/".as_ptr(), c"none".as_ptr(), private, none) })?;
    // SAFETY: as above.
    done(unsafe { libc::mount(c"sysfs".as_ptr(), c"/sys".as_ptr(), c"sysfs".as_ptr(), 0, none) })?;
    Ok(())
}

/// How the loop runs, apart from what it forwards.
#[derive(Clone, Debug)]
pub struct Manner {
    /// Whether to ask for a real-time class; otherwise the loop is as important as its peers are.
    pub realtime: bool,
    /// Who takes frames from the driver.
    pub interrupts: Interrupts,
    /// Probes behind what goes forward.
    pub sense: Option<SenseConfig>,
}

/// Weir's packet loop on a thread of its own. Dropping it ends it.
pub struct Weir {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Outcome>>>,
}

impl Weir {
    /// Starts the loop between the ports of a testbed.
    pub fn start(testbed: &Testbed, forward: Channel, reverse: Channel, manner: Manner) -> Result<Weir> {
        let setup = setup(forward, reverse, &manner);
        let stop = Arc::new(AtomicBool::new(false));
        let (namespace, stopped) = (testbed.bottleneck().to_string(), stop.clone());
        let (opened, opening) = mpsc::channel();
        let body = move || {
            in_netns(&namespace, || {
                mount_own_sys()?;
                manner.interrupts.apply()?;
                let (looping, _handle) = Loop::open(setup)?;
                let _ = opened.send(looping.mode());
                Ok(looping.run(&stopped)?)
            })?
        };
        let thread = std::thread::Builder::new().name("weir-loop".into()).spawn(body)?;
        if opening.recv().is_err() {
            return Err(join(thread).err().unwrap_or_else(|| Error::new("the loop ended before it began")));
        }
        Ok(Weir { stop, thread: Some(thread) })
    }

    /// Ends the loop; what came of it.
    pub fn finish(mut self) -> Result<Outcome> {
        self.end()
    }

    fn end(&mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or_else(|| Err(Error::new("the loop was ended before")), join)
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn join(thread: JoinHandle<Result<Outcome>>) -> Result<Outcome> {
    thread.join().unwrap_or_else(|_| Err(Error::new("the packet loop panicked")))
}

fn setup(forward: Channel, reverse: Channel, manner: &Manner) -> Setup {
    let expedites = manner.sense.is_some();
    let forward = DirectionSetup { expedites, ..DirectionSetup::new("a_to_b", forward) };
    Setup {
        sense: manner.sense.clone().into_iter().collect(),
        core: Some(FORWARDER_CPU),
        realtime: manner.realtime,
        busy: true,
        ..Setup::in_namespace(PORTS, [forward, DirectionSetup::new("b_to_a", reverse)])
    }
}

/// testpmd between the ports of a testbed. Dropping it ends it.
pub struct Testpmd {
    child: NsChild,
    lines: mpsc::Receiver<String>,
}

impl Testpmd {
    /// Starts testpmd with options of `testpmd.py` and waits until it forwards.
    pub fn start(testbed: &Testbed, options: &[&str]) -> Result<Testpmd> {
        let mut command = Command::new(tools::program("ip")?);
        // Entered by `ip`, which shows the settings of the namespace's interfaces in /sys.
        command
            .args(["netns", "exec", testbed.bottleneck()])
            .arg(tools::python()?)
            .arg(tools::peers().join("testpmd.py"))
            .args([PORT_A, PORT_B, "--seconds", "120"]);
        command.args(["--core", "1", "--main-core", "0", "--follow-stdin"]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let anywhere = SpawnOptions { cpus: Vec::new(), nice: NICE, is_end_host: false };
        let mut child = spawn_in(testbed.bottleneck(), command, &anywhere)?;
        let output = child.child_mut().stdout.take().ok_or_else(|| Error::new("testpmd has no output"))?;
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(|l| l.ok()).try_for_each(|l| sender.send(l))
        });
        let line = lines.recv_timeout(Duration::from_secs(40));
        let ready = line.is_ok_and(|l| event(&l) == "ready");
        if ready { Ok(Testpmd { child, lines }) } else { Err(Error::new("testpmd did not begin to forward")) }
    }

    /// Ends testpmd: it stops at the end of its input.
    pub fn finish(mut self) -> Result<()> {
        drop(self.child.child_mut().stdin.take());
        let ended = self.lines.recv_timeout(Duration::from_secs(30)).is_ok_and(|l| event(&l) == "result");
        self.child.wait_until(Instant::now() + Duration::from_secs(10))?;
        if ended { Ok(()) } else { Err(Error::new("testpmd did not end as it should")) }
    }
}

fn event(line: &str) -> String {
    let json: Value = serde_json::from_str(line).unwrap_or_default();
    json["event"].as_str().unwrap_or_default().to_string()
}
