//! Linux interfaces: what they are, what has to be changed for forwarding, and how it is put back.
//!
//! Every change is written to a journal before it is made. A clean exit undoes the changes and removes the
//! journal; after a crash the next start (or `weir doctor --clean`) finds the journal of a dead process and
//! undoes them then.

use crate::{Error, Mode, guard};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where journals are kept. A tmpfs on every system with systemd, so it is empty after a reboot, as are
/// the interfaces' settings.
pub const JOURNALS: &str = "/run/weir";

/// An offload that must be off while the packet loop forwards, and why.
struct Offload {
    name: &'static str,
    get: u32,
    set: u32,
    /// Bit in the flags word, for those that share one; 0 for those with a command of their own.
    flag: u32,
}

const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const OFFLOADS: [Offload; 3] = [
    // Merged frames are longer than the MTU of the other side.
    Offload { name: "generic-receive-offload", get: 0x2b, set: 0x2c, flag: 0 },
    Offload { name: "large-receive-offload", get: ETHTOOL_GFLAGS, set: ETHTOOL_SFLAGS, flag: 1 << 15 },
    // XDP does not see a tag that the hardware took off.
    Offload { name: "rx-vlan-offload", get: ETHTOOL_GFLAGS, set: ETHTOOL_SFLAGS, flag: 1 << 8 },
];

/// An interface by name and index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// Index in its network namespace.
    pub index: u32,
}

impl Interface {
    /// Looks an interface up.
    pub fn find(name: &str) -> Result<Interface, Error> {
        let unknown = || Error::NoInterface { name: name.into(), known: list().join(", ") };
        let text = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: the pointer is to a terminated string.
        match unsafe { libc::if_nametoindex(text.as_ptr()) } {
            0 => Err(unknown()),
            index => Ok(Interface { name: name.into(), index }),
        }
    }

    /// Whether the interface is still in this namespace, under whatever name.
    pub fn exists(&self) -> bool {
        self.name_now().is_some()
    }

    /// What the interface is called now: somebody may have renamed it, and its number stays.
    fn name_now(&self) -> Option<CString> {
        let mut name = [0u8; libc::IFNAMSIZ];
        // SAFETY: the buffer has the size that the call asks for.
        let found = unsafe { libc::if_indextoname(self.index, name.as_mut_ptr().cast()) };
        if found.is_null() { None } else { CStr::from_bytes_until_nul(&name).ok().map(CStr::to_owned) }
    }

    /// Largest network packet in bytes.
    pub fn mtu(&self) -> Result<u32, Error> {
        let mut request = self.request()?;
        self.ioctl(libc::SIOCGIFMTU, &mut request, "cannot read the MTU")?;
        // SAFETY: the kernel filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
    }

    /// Whether the interface is administratively up.
    pub fn is_up(&self) -> Result<bool, Error> {
        let mut request = self.request()?;
        self.ioctl(libc::SIOCGIFFLAGS, &mut request, "cannot read the flags")?;
        // SAFETY: the kernel filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_flags } & libc::IFF_UP as i16 != 0)
    }

    fn set_up(&self, up: bool) -> Result<(), Error> {
        let mut request = self.request()?;
        self.ioctl(libc::SIOCGIFFLAGS, &mut request, "cannot read the flags")?;
        // SAFETY: the kernel filled this member of the union.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        let bit = libc::IFF_UP as i16;
        request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
        self.ioctl(libc::SIOCSIFFLAGS, &mut request, "cannot set the interface up")
    }

    /// Number of receive queues, from the directory of queues; one where that cannot be read.
    pub fn receive_queues(&self) -> u32 {
        let channels = self.ethtool_channels().unwrap_or(1);
        channels.clamp(1, crate::QUEUES_MAX)
    }

    fn ethtool_channels(&self) -> Option<u32> {
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        // struct ethtool_channels: cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}_count
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        self.ethtool(&mut channels).ok()?;
        Some(channels[5] + channels[8])
    }

    fn feature(&self, offload: &Offload) -> Result<bool, Error> {
        let mut value = [offload.get, 0];
        self.ethtool(&mut value)?;
        Ok(if offload.flag == 0 { value[1] != 0 } else { value[1] & offload.flag != 0 })
    }

    fn set_feature(&self, offload: &Offload, on: bool) -> Result<(), Error> {
        let mut value = [offload.set, u32::from(on)];
        if offload.flag != 0 {
            let mut now = [offload.get, 0];
            self.ethtool(&mut now)?;
            value[1] = if on { now[1] | offload.flag } else { now[1] & !offload.flag };
        }
        self.ethtool(&mut value)
    }

    fn ethtool<const N: usize>(&self, value: &mut [u32; N]) -> Result<(), Error> {
        let mut request = self.request()?;
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        self.ioctl(libc::SIOCETHTOOL as _, &mut request, "ethtool request refused")
    }

    fn request(&self) -> Result<libc::ifreq, Error> {
        // SAFETY: all-zero is a valid value of this plain struct.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let Some(name) = self.name_now() else {
            return Err(Error::NoInterface { name: self.name.clone(), known: list().join(", ") });
        };
        for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
            *to = *from as libc::c_char;
        }
        Ok(request)
    }

    fn ioctl(&self, code: libc::Ioctl, request: &mut libc::ifreq, what: &str) -> Result<(), Error> {
        // SAFETY: no pointers are involved.
        let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(Error::os("cannot open a control socket"));
        }
        // SAFETY: the descriptor was just opened and is owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        // SAFETY: the request is a valid `ifreq`; what it points to outlives the call.
        match unsafe { libc::ioctl(fd.as_raw_fd(), code, request) } {
            0 => Ok(()),
            _ => Err(Error::os(format!("{}: {what}", self.name))),
        }
    }
}

/// Names of the interfaces of this network namespace.
pub fn list() -> Vec<String> {
    // SAFETY: the array is read up to its terminating entry and freed once.
    unsafe {
        let all = libc::if_nameindex();
        if all.is_null() {
            return Vec::new();
        }
        let mut names = Vec::new();
        let mut at = all;
        while (*at).if_index != 0 && !(*at).if_name.is_null() {
            names.push(std::ffi::CStr::from_ptr((*at).if_name).to_string_lossy().into_owned());
            at = at.add(1);
        }
        libc::if_freenameindex(all);
        names
    }
}

/// A change made to an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Change {
    /// An offload of this name was on and was switched off.
    Offload(String),
    /// The interface was down.
    Up,
    /// Programs were attached.
    Programs { mode: Mode, created_clsact: bool },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    interface: Interface,
    change: Change,
}

/// The changes of one run, undone on drop unless the run panicked.
#[derive(Debug)]
pub struct Journal {
    path: Option<PathBuf>,
    content: Content,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    pid: u32,
    started: u64,
    netns: u64,
    /// The kernel's name for the namespace. The number above is given again to a later one, which must not
    /// be changed by the journal of an earlier one.
    #[serde(default)]
    netns_cookie: Option<u64>,
    records: Vec<Record>,
}

impl Journal {
    /// An empty journal. Kept in memory only if `persistent` is false, as in namespaces that die anyway.
    pub fn open(persistent: bool) -> Result<Journal, Error> {
        let pid = std::process::id();
        let content = Content {
            pid,
            started: start_time(pid).unwrap_or(0),
            netns: this_netns(),
            netns_cookie: netns_cookie(),
            records: Vec::new(),
        };
        let path = if persistent {
            fs::create_dir_all(JOURNALS).map_err(|e| Error::io(format!("cannot create {JOURNALS}"), e))?;
            Some(Path::new(JOURNALS).join(format!("{pid}-{}.json", content.netns)))
        } else {
            None
        };
        Ok(Journal { path, content })
    }

    fn note(&mut self, interface: &Interface, change: Change) -> Result<(), Error> {
        self.content.records.push(Record { interface: interface.clone(), change });
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_vec(&self.content).expect("plain data is always JSON");
        let temporary = path.with_extension("new");
        let written = fs::File::create(&temporary).and_then(|mut file| {
            std::io::Write::write_all(&mut file, &text)?;
            file.sync_all()
        });
        written
            .and_then(|()| fs::rename(&temporary, path))
            .map_err(|e| Error::io(format!("cannot write the journal {}", path.display()), e))
    }

    /// Switches off what would break forwarding and brings the port up; says in words what it did.
    pub fn prepare(&mut self, interface: &Interface) -> Result<Vec<String>, Error> {
        let mut said = Vec::new();
        for offload in &OFFLOADS {
            // An interface without the feature has nothing to switch off.
            if interface.feature(offload).unwrap_or(false) {
                self.note(interface, Change::Offload(offload.name.into()))?;
                match interface.set_feature(offload, false) {
                    Ok(()) => said.push(format!("{}: switched {} off", interface.name, offload.name)),
                    Err(e) => said.push(format!("{}: {} stays on ({e})", interface.name, offload.name)),
                }
            }
        }
        if !interface.is_up()? {
            self.note(interface, Change::Up)?;
            interface.set_up(true)?;
            said.push(format!("{}: brought up", interface.name));
        }
        Ok(said)
    }

    /// Notes that programs are about to be attached.
    pub fn programs(&mut self, interface: &Interface, mode: Mode) -> Result<(), Error> {
        self.note(interface, Change::Programs { mode, created_clsact: false })
    }

    /// Notes that the port had no `clsact` qdisc before.
    pub fn created_clsact(&mut self, interface: &Interface, mode: Mode) -> Result<(), Error> {
        self.note(interface, Change::Programs { mode, created_clsact: true })
    }

    /// Puts everything back, last change first; says in words what it did.
    pub fn restore(&mut self) -> Vec<String> {
        let said = self.content.restore();
        self.content.records.clear();
        if let Some(path) = self.path.take() {
            let _ = fs::remove_file(path);
        }
        said
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After a panic of the loop the kernel goes on forwarding, as after a kill; the next start or
        // `weir doctor --clean` puts everything back then.
        if !std::thread::panicking() {
            self.restore();
        }
    }
}

impl Content {
    /// Whether its run was killed, and its interfaces are in this network namespace.
    fn is_stale(&self) -> bool {
        start_time(self.pid) != Some(self.started)
            && self.netns == this_netns()
            // Where the kernel has no name for the namespace, the number has to do.
            && self.netns_cookie.is_none_or(|cookie| netns_cookie() == Some(cookie))
    }

    fn restore(&self) -> Vec<String> {
        let present = |r: &&Record| r.interface.exists();
        self.records.iter().rev().filter(present).map(restore_one).collect()
    }
}

fn restore_one(record: &Record) -> String {
    let interface = &record.interface;
    let (what, result) = match &record.change {
        Change::Offload(name) => {
            let offload = OFFLOADS.iter().find(|o| o.name == name);
            let result = offload.map_or(Ok(()), |o| interface.set_feature(o, true));
            (format!("switched {name} back on"), result)
        }
        Change::Up => ("brought down again".to_string(), interface.set_up(false)),
        Change::Programs { mode, created_clsact } => {
            guard::detach(interface.index, *mode, *created_clsact);
            ("took the programs off".to_string(), Ok(()))
        }
    };
    match result {
        Ok(()) => format!("{}: {what}", interface.name),
        Err(error) => format!("{}: NOT {what}: {error}", interface.name),
    }
}

/// The right to look at ports and take them: of two runs that start at the same instant, the second sees what the
/// first attached. Given back when dropped, also by a crash.
pub fn starting() -> Result<fs::File, Error> {
    fs::create_dir_all(JOURNALS).map_err(|e| Error::io(format!("cannot create {JOURNALS}"), e))?;
    let path = Path::new(JOURNALS).join("starting.lock");
    let file =
        fs::File::create(&path).map_err(|e| Error::io(format!("cannot create {}", path.display()), e))?;
    file.lock().map_err(|e| Error::io(format!("cannot lock {}", path.display()), e))?;
    Ok(file)
}

/// Undoes what runs left that were killed, in this network namespace; says in words what it did.
pub fn restore_stale() -> Vec<String> {
    let mut said = Vec::new();
    let Ok(entries) = fs::read_dir(JOURNALS) else { return said };
    for path in entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "json")) {
        let Some(content) = fs::read(&path).ok().and_then(|t| serde_json::from_slice::<Content>(&t).ok())
        else {
            said.push(format!("{}: not a journal; left alone", path.display()));
            continue;
        };
        if !content.is_stale() {
            continue;
        }
        said.extend(content.restore());
        let _ = fs::remove_file(&path);
    }
    said
}

/// Journals that [`restore_stale`] would undo and remove.
pub fn stale_journals() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(JOURNALS) else { return Vec::new() };
    let content = |path: &PathBuf| serde_json::from_slice::<Content>(&fs::read(path).ok()?).ok();
    let stale = |path: &PathBuf| content(path).is_some_and(|c| c.is_stale());
    entries.flatten().map(|e| e.path()).filter(stale).collect()
}

/// When a process started, in clock ticks since boot; tells a process from a later one of the same id.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses; fields are counted after its last parenthesis.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // A process that was killed but not yet waited for is dead.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A number of this network namespace that no other ever has; Linux 5.14 and later tell it.
fn netns_cookie() -> Option<u64> {
    const SO_NETNS_COOKIE: libc::c_int = 71;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    let mut cookie = 0u64;
    let mut len = size_of_val(&cookie) as libc::socklen_t;
    // SAFETY: the pointers describe `cookie`.
    let code = unsafe {
        let pointer: *mut u64 = &mut cookie;
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_NETNS_COOKIE, pointer.cast(), &mut len)
    };
    (code == 0).then_some(cookie)
}

fn this_netns() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino())
}
