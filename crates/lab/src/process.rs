//! Child processes inside namespaces that end with this program, and where threads run.

use crate::error::{Error, Result};
use crate::netns::open_namespace;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Where and how a child runs.
#[derive(Clone, Debug, Default)]
pub struct SpawnOptions {
    /// CPUs it may use; empty for all.
    pub cpus: Vec<usize>,
    /// Niceness, from -20 (gets much) to 19 (gets little).
    pub nice: i32,
    /// Whether it is an end host's program, which has none of root's capabilities but NET_ADMIN: Linux asks
    /// for that where a socket is to have a congestion control that is not for all.
    pub is_end_host: bool,
}

/// A child process; killed and reaped when dropped.
#[derive(Debug)]
pub struct NsChild {
    child: Child,
    status: Option<ExitStatus>,
}

struct Request {
    command: Command,
    reply: mpsc::Sender<io::Result<Child>>,
}

/// Starts `command` inside the namespace `name`, in a process group of its own.
///
/// The kernel kills the child as soon as this program ends, however it ends.
pub fn spawn_in(name: &str, mut command: Command, options: &SpawnOptions) -> Result<NsChild> {
    let what = format!("start `{}` in `{name}`", command.get_program().to_string_lossy());
    let namespace = open_namespace(name)?;
    let cpus = cpu_set(&options.cpus)?;
    let (nice, is_end_host) = (options.nice, options.is_end_host);
    let parent = std::process::id();
    let weight = nice.to_string();
    // SAFETY: the closure only makes system calls that are allowed between fork and exec; it neither
    // allocates nor locks.
    unsafe {
        command.pre_exec(move || {
            prepare_child(&namespace, cpus.as_ref(), nice, &weight, parent)?;
            if is_end_host { give_up_capabilities() } else { Ok(()) }
        })
    };
    let child = on_spawner(command).map_err(|e| Error::system(what, e))?;
    Ok(NsChild { child, status: None })
}

/// Lets the calling thread run only on `cpus`; on all if empty.
pub fn set_affinity(cpus: &[usize]) -> Result<()> {
    let Some(set) = cpu_set(cpus)? else { return Ok(()) };
    apply_affinity(&set).map_err(|e| Error::system(format!("run on CPUs {cpus:?}"), e))
}

/// Sets the niceness of the calling thread.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: plain integers; on Linux 0 means the calling thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// Runs on the calling thread alone what waits for sockets and timers, until it ends.
pub(crate) fn block_on<T>(future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, future)
}

impl NsChild {
    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for instance to take its pipes.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The exit status, if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let pid = self.pid();
            self.status =
                self.child.try_wait().map_err(|e| Error::system(format!("wait for process {pid}"), e))?;
        }
        Ok(self.status)
    }

    /// Waits until it ends, at most until `deadline`; `None` if it still runs then.
    pub fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            let status = self.try_wait()?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal, unless it has ended already.
    pub fn signal(&mut self, signal: i32) -> Result<()> {
        if self.try_wait()?.is_none() {
            // SAFETY: plain integers. The child was not reaped yet, so its id belongs to nobody else.
            unsafe { libc::kill(self.pid() as i32, signal) };
        }
        Ok(())
    }

    /// Kills and reaps it.
    pub fn kill(&mut self) {
        if self.status.is_none() {
            // Fails only if it has ended already.
            let _ = self.child.kill();
            self.status = self.child.wait().ok();
        }
    }
}

impl Drop for NsChild {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the command on a thread that lives as long as the program: the kernel sends the death signal
/// when the *thread* that forked ends, not when the process does.
fn on_spawner(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    let gone = || io::Error::other("the thread that starts processes has ended");
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, requests) = mpsc::channel::<Request>();
        // If no thread can be started, `requests` is dropped and each use of `sender` fails.
        let _ = std::thread::Builder::new().name("weir-spawner".into()).spawn(move || {
            for mut request in requests {
                let _ = request.reply.send(request.command.spawn());
            }
        });
        sender
    });
    let (reply, result) = mpsc::channel();
    spawner.send(Request { command, reply }).map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

fn prepare_child(
    namespace: &OwnedFd,
    cpus: Option<&libc::cpu_set_t>,
    nice: i32,
    weight: &str,
    parent: u32,
) -> io::Result<()> {
    // Ctrl-C reaches all processes of the terminal's group: children are ended by us, in order.
    // SAFETY: no arguments.
    check(unsafe { libc::setsid() })?;
    // SAFETY: plain integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })?;
    // The parent may have died before the line above: then no signal will ever come.
    // SAFETY: no arguments.
    if unsafe { libc::getppid() } as u32 != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the descriptor is open; setns checks that it is a network namespace.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })?;
    if let Some(set) = cpus {
        apply_affinity(set)?;
    }
    if nice != 0 {
        set_nice(nice)?;
        weigh_session(weight);
    }
    Ok(())
}

/// Lets the program that comes next have no capability but NET_ADMIN, though it is root's, and none that it
/// starts.
fn give_up_capabilities() -> io::Result<()> {
    const CAP_NET_ADMIN: libc::c_ulong = 12;
    // The kernel has numbers for as many, and refuses those that it does not know.
    for capability in (0..64).filter(|number| *number != CAP_NET_ADMIN) {
        // SAFETY: plain integers.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    // SAFETY: plain integers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// Niceness compares processes of one session only where the kernel groups them by session (sched(7), "The
/// autogroup feature"); this is the session's own. Kernels without that feature have no such file, and need
/// none.
fn weigh_session(weight: &str) {
    // SAFETY: a path that ends with zero; then a descriptor that is open, and a buffer of the length given.
    unsafe {
        let fd = libc::open(c"/proc/self/autogroup".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, weight.as_ptr().cast(), weight.len());
            libc::close(fd);
        }
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn apply_affinity(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` is a valid CPU set of the size given; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) })
}

fn cpu_set(cpus: &[usize]) -> Result<Option<libc::cpu_set_t>> {
    if cpus.is_empty() {
        return Ok(None);
    }
    // SAFETY: a CPU set is an array of integers, for which zero is a valid value: the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(Error::invalid(
                format!("CPU {cpu} cannot be used"),
                "name a CPU listed in /proc/cpuinfo",
            ));
        }
        // SAFETY: `cpu` is within the set, as checked above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    Ok(Some(set))
}
