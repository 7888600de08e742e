//! What a service manager is told (sd_notify(3)): that it works, that it reads its configuration, that it
//! ends.
//!
//! The socket is connected before files and system calls are confined, and each message is one datagram that
//! nobody waits for. Without `NOTIFY_SOCKET` nothing is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest text of a state that is told.
const STATUS_MAX: usize = 200;
/// Between two texts of how it stands.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// The service manager that started this program, if one did, as one link of the program tells it: it hears
/// that all work, that one reads its configuration, and that the last ends.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Mutex<Shared>>,
    /// Which of the links this is.
    link: usize,
}

/// What links have in common.
#[derive(Debug, Default)]
struct Shared {
    socket: Option<UnixDatagram>,
    /// How often it must hear of this program.
    watchdog: Option<Duration>,
    /// When it was told last that this program works, and how it stands.
    alive: Option<Instant>,
    status: Option<Instant>,
    links: Vec<State>,
}

/// What a link told.
#[derive(Debug, Default)]
struct State {
    is_ready: bool,
    /// Whether it works since that was told last.
    is_alive: bool,
    is_over: bool,
    /// How it stands, and when it was asked for that.
    line: String,
    asked: Option<Instant>,
}

impl Service {
    /// As the environment says.
    pub fn find() -> Service {
        let told = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = told("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = told("WATCHDOG_USEC").filter(|usec| *usec > 0 && is_ours);
        Service::of(Shared {
            socket: std::env::var_os("NOTIFY_SOCKET").and_then(|name| connect(name.as_bytes()).ok()),
            watchdog: watchdog.map(Duration::from_micros),
            ..Shared::default()
        })
    }

    fn of(mut shared: Shared) -> Service {
        shared.links.push(State::default());
        Service { shared: Arc::new(Mutex::new(shared)), link: 0 }
    }

    /// The same for one more link.
    pub fn beside(&self) -> Service {
        let mut shared = self.shared();
        shared.links.push(State::default());
        Service { shared: self.shared.clone(), link: shared.links.len() - 1 }
    }

    /// There are no invariants that a panic could break.
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It works now, for the first time or again.
    pub fn ready(&self) {
        let mut shared = self.shared();
        shared.links[self.link].is_ready = true;
        if shared.running().all(|link| link.is_ready) {
            shared.tell("READY=1");
        }
    }

    /// It reads its configuration; [`Service::ready`] ends that.
    pub fn reloading(&self) {
        // Since its version 253 systemd asks for the time, to know which request this answers.
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to `now`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.shared().tell(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// It ends.
    pub fn stopping(&self) {
        let mut shared = self.shared();
        shared.links[self.link].is_over = true;
        if shared.running().next().is_none() {
            shared.tell("STOPPING=1");
        }
    }

    /// It works: told twice in the time after which the service manager would start it anew, if all links
    /// that have not ended do. Whoever does not work does not call this.
    pub fn alive(&self) {
        let mut shared = self.shared();
        let Some(period) = shared.watchdog else { return };
        shared.links[self.link].is_alive = true;
        let is_due = shared.alive.is_none_or(|last| last.elapsed() >= period / 2);
        if is_due && shared.running().all(|link| link.is_alive) {
            shared.tell("WATCHDOG=1");
            shared.alive = Some(Instant::now());
            shared.links.iter_mut().for_each(|link| link.is_alive = false);
        }
    }

    /// How it stands, in a line that `systemctl status` shows; every ten seconds at most.
    pub fn status(&self, text: impl FnOnce() -> String) {
        let mut shared = self.shared();
        let is_early = |at: Option<Instant>| at.is_some_and(|last| last.elapsed() < STATUS_PERIOD);
        let own = &mut shared.links[self.link];
        if !is_early(own.asked) {
            (own.asked, own.line) = (Some(Instant::now()), text());
        }
        if is_early(shared.status) {
            return;
        }
        let lines: Vec<&str> =
            shared.running().map(|link| link.line.as_str()).filter(|line| !line.is_empty()).collect();
        let text: String = lines.join("; ").chars().filter(|c| !c.is_control()).take(STATUS_MAX).collect();
        shared.tell(&format!("STATUS={text}"));
        shared.status = Some(Instant::now());
    }
}

impl Shared {
    fn running(&self) -> impl Iterator<Item = &State> {
        self.links.iter().filter(|link| !link.is_over)
    }

    /// A message that is lost if the service manager does not take it: nothing here waits for it.
    fn tell(&self, text: &str) {
        if let Some(socket) = &self.socket {
            let _ = socket.send(text.as_bytes());
        }
    }
}

/// A socket by its path, or in the abstract namespace where its name begins with `@`.
fn connect(name: &[u8]) -> std::io::Result<UnixDatagram> {
    let address = match name.strip_prefix(b"@") {
        Some(rest) => SocketAddr::from_abstract_name(rest)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(listener: &UnixDatagram) -> Vec<String> {
        let mut all = Vec::new();
        let mut text = [0; 512];
        while let Ok(length) = listener.recv(&mut text) {
            all.push(String::from_utf8_lossy(&text[..length]).into_owned());
        }
        all
    }

    #[test]
    fn a_service_manager_is_told_by_path_and_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("weir-service-test-{}", std::process::id());
        let abstract_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (listener, name) in [
            (by_path, path.into_os_string().into_encoded_bytes()),
            (abstract_name, format!("@{name}").into_bytes()),
        ] {
            listener.set_nonblocking(true).unwrap();
            let service = Service::of(Shared {
                socket: Some(connect(&name).unwrap()),
                watchdog: Some(Duration::from_secs(3600)),
                ..Shared::default()
            });
            service.ready();
            service.alive();
            service.alive();
            service.status(|| "a\nREADY=0".repeat(100));
            service.status(|| panic!("nobody asks again so soon"));
            service.reloading();
            service.stopping();
            let told = heard(&listener);
            assert_eq!(told[..2], ["READY=1", "WATCHDOG=1"]);
            assert!(told[2].starts_with("STATUS=aREADY=0aREADY") && told[2].len() <= 7 + STATUS_MAX);
            assert!(told[3].starts_with("RELOADING=1\nMONOTONIC_USEC="), "{told:?}");
            assert_eq!(told[4..], ["STOPPING=1"]);
            service.shared().watchdog = Some(Duration::from_millis(2));
            std::thread::sleep(Duration::from_millis(2));
            service.alive();
            assert_eq!(heard(&listener), ["WATCHDOG=1"]);
        }
    }

    #[test]
    fn of_several_links_all_must_work_and_the_last_one_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let socket = connect(path.as_os_str().as_bytes()).unwrap();
        let watchdog = Some(Duration::from_nanos(1));
        let first = Service::of(Shared { socket: Some(socket), watchdog, ..Shared::default() });
        let second = first.beside();
        first.ready();
        assert_eq!(heard(&listener), [""; 0]);
        second.ready();
        assert_eq!(heard(&listener), ["READY=1"]);
        (0..3).for_each(|_| first.alive());
        assert_eq!(heard(&listener), [""; 0], "nobody knows of the other");
        second.alive();
        assert_eq!(heard(&listener), ["WATCHDOG=1"]);
        first.status(|| "one".into());
        second.status(|| "two".into());
        assert_eq!(heard(&listener), ["STATUS=one"]);
        first.shared().status = None;
        first.status(|| panic!("nobody asks again so soon"));
        assert_eq!(heard(&listener), ["STATUS=one; two"]);
        first.stopping();
        assert_eq!(heard(&listener), [""; 0]);
        second.alive();
        assert_eq!(heard(&listener), ["WATCHDOG=1"], "who has ended is not missed");
        second.stopping();
        assert_eq!(heard(&listener), ["STOPPING=1"]);
    }

    #[test]
    fn nobody_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let socket = connect(path.as_os_str().as_bytes()).unwrap();
        let service = Service::of(Shared { socket: Some(socket), ..Shared::default() });
        // More than fits.
        (0..10_000).for_each(|_| service.ready());
        drop(listener);
        service.ready();
        // Without a service manager nothing is told.
        let none = Service::of(Shared::default());
        none.ready();
        none.alive();
        none.status(|| "unheard".into());
        assert!(connect(b"").is_err() && connect(b"/no/such/socket").is_err());
    }
}
