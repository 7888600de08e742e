//! What a service manager is told (sd_notify(3)): that it works, that it reads its configuration, that it
//! ends.
//!
//! The socket is connected before files and system calls are confined, and each message is one datagram that
//! nobody waits for. Without `NOTIFY_SOCKET` nothing is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// Longest text of a state that is told.
const STATUS_MAX: usize = 200;
/// Between two texts of how it stands.
const STATUS_PERIOD: Duration = Duration::from_secs(10);

/// The service manager that started this program, if one did.
#[derive(Debug, Default)]
pub struct Service {
    socket: Option<UnixDatagram>,
    /// How often it must hear of this program.
    watchdog: Option<Duration>,
    /// When it was told last that this program works, and how it stands.
    alive: Option<Instant>,
    status: Option<Instant>,
}

impl Service {
    /// As the environment says.
    pub fn find() -> Service {
        let told = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_ours = told("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = told("WATCHDOG_USEC").filter(|usec| *usec > 0 && is_ours);
        Service {
            socket: std::env::var_os("NOTIFY_SOCKET").and_then(|name| connect(name.as_bytes()).ok()),
            watchdog: watchdog.map(Duration::from_micros),
            ..Service::default()
        }
    }

    /// It works now, for the first time or again.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// It reads its configuration; [`Service::ready`] ends that.
    pub fn reloading(&self) {
        // Since its version 253 systemd asks for the time, to know which request this answers.
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to `now`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let usec = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// It ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// It works: told twice in the time after which the service manager would start it anew. Whoever does not
    /// work does not call this.
    pub fn alive(&mut self) {
        let Some(period) = self.watchdog else { return };
        if self.alive.is_none_or(|last| last.elapsed() >= period / 2) {
            self.tell("WATCHDOG=1");
            self.alive = Some(Instant::now());
        }
    }

    /// How it stands, in a line that `systemctl status` shows; every ten seconds at most.
    pub fn status(&mut self, text: impl FnOnce() -> String) {
        if self.socket.is_none() || self.status.is_some_and(|last| last.elapsed() < STATUS_PERIOD) {
            return;
        }
        let text: String = text().chars().filter(|c| !c.is_control()).take(STATUS_MAX).collect();
        self.tell(&format!("STATUS={text}"));
        self.status = Some(Instant::now());
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
            let mut service = Service {
                socket: Some(connect(&name).unwrap()),
                watchdog: Some(Duration::from_secs(3600)),
                ..Service::default()
            };
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
            service.watchdog = Some(Duration::from_millis(2));
            std::thread::sleep(Duration::from_millis(2));
            service.alive();
            assert_eq!(heard(&listener), ["WATCHDOG=1"]);
        }
    }

    #[test]
    fn nobody_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let socket = connect(path.as_os_str().as_bytes()).unwrap();
        let service = Service { socket: Some(socket), ..Service::default() };
        // More than fits.
        (0..10_000).for_each(|_| service.ready());
        drop(listener);
        service.ready();
        // Without a service manager nothing is told.
        let mut none = Service::default();
        none.ready();
        none.alive();
        none.status(|| panic!("nobody asks"));
        assert!(connect(b"").is_err() && connect(b"/no/such/socket").is_err());
    }
}
