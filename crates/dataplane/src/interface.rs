//! Linux interfaces: what they are, and their settings.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An offload that must be off while the packet loop forwards, and why.
pub struct Offload {
    /// Name, as `ethtool -K` takes it.
    pub name: &'static str,
    get: u32,
    set: u32,
    /// Bit in the flags word, for those that share one; 0 for those with a command of their own.
    flag: u32,
}

/// Of `if_arp.h`; the library lacks them.
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_IP6GRE: u16 = 823;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
/// The offloads that must be off.
pub const OFFLOADS: [Offload; 3] = [
    // Merged frames are longer than the MTU of the other side.
    Offload { name: "generic-receive-offload", get: 0x2b, set: 0x2c, flag: 0 },
    Offload { name: "large-receive-offload", get: ETHTOOL_GFLAGS, set: ETHTOOL_SFLAGS, flag: 1 << 15 },
    // XDP does not see a tag that the hardware took off.
    Offload { name: "rx-vlan-offload", get: ETHTOOL_GFLAGS, set: ETHTOOL_SFLAGS, flag: 1 << 8 },
];

/// Whether an interface has a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LinkState {
    /// It is up, and the other end is there.
    Up,
    /// It is up, and there is no carrier.
    NoCarrier,
    /// It is administratively down.
    Down,
}

impl LinkState {
    /// The state of this number (`state as u8`).
    pub(crate) fn from_number(number: u8) -> LinkState {
        let all = [LinkState::Up, LinkState::NoCarrier, LinkState::Down];
        all.into_iter().find(|state| *state as u8 == number).unwrap_or(LinkState::Up)
    }
}

/// What frames begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLayer {
    /// The header of Ethernet.
    Ethernet,
    /// The IP packet; what kind of device that is, in words.
    Bare(&'static str),
}

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
    pub fn name_now(&self) -> Option<CString> {
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

    /// Its address on the link.
    pub fn link_address(&self) -> Result<[u8; 6], Error> {
        let mut request = self.request()?;
        self.ioctl(libc::SIOCGIFHWADDR, &mut request, "cannot read the address")?;
        // SAFETY: the kernel filled this member of the union.
        let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
        Ok([0, 1, 2, 3, 4, 5].map(|at| data[at] as u8))
    }

    /// What its frames begin with. Refuses the loopback interface, and kinds of frames that nobody here reads.
    pub fn link_layer(&self) -> Result<LinkLayer, Error> {
        let name = &self.name;
        if self.flags()? & libc::IFF_LOOPBACK as i16 != 0 {
            return Err(Error::Refused(format!(
                "{name}: it is the loopback interface, which leads to no other host; this one would not reach itself any \
                 more. Remedy: name an interface that leads to other hosts"
            )));
        }
        let bare = |words| Ok(LinkLayer::Bare(words));
        match self.hardware()? {
            libc::ARPHRD_ETHER => Ok(LinkLayer::Ethernet),
            libc::ARPHRD_PPP => bare("a PPP link"),
            libc::ARPHRD_NONE | ARPHRD_RAWIP => {
                bare("a device of bare IP packets, such as TUN, WireGuard or a mobile modem")
            }
            libc::ARPHRD_TUNNEL
            | libc::ARPHRD_TUNNEL6
            | libc::ARPHRD_SIT
            | libc::ARPHRD_IPGRE
            | ARPHRD_IP6GRE => bare("a tunnel of IP packets"),
            other => Err(Error::Refused(format!(
                "{name}: it is of another kind (number {other} of `if_arp.h`), and its frames have no Ethernet header and \
                 no bare IP packet. Remedy: name an interface of one of these"
            ))),
        }
    }

    /// What its frames begin with: a number of `ARPHRD_*`.
    fn hardware(&self) -> Result<u16, Error> {
        let mut request = self.request()?;
        self.ioctl(libc::SIOCGIFHWADDR, &mut request, "cannot read the kind of its frames")?;
        // SAFETY: the kernel filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
    }

    /// Whether the interface is administratively up.
    pub fn is_up(&self) -> Result<bool, Error> {
        Ok(self.flags()? & libc::IFF_UP as i16 != 0)
    }

    /// Whether it has a link.
    pub fn link_state(&self) -> Result<LinkState, Error> {
        let flags = self.flags()?;
        Ok(match () {
            () if flags & libc::IFF_UP as i16 == 0 => LinkState::Down,
            () if flags & libc::IFF_RUNNING as i16 == 0 => LinkState::NoCarrier,
            () => LinkState::Up,
        })
    }

    fn flags(&self) -> Result<i16, Error> {
        let mut request = self.request()?;
        self.ioctl(libc::SIOCGIFFLAGS, &mut request, "cannot read the flags")?;
        // SAFETY: the kernel filled this member of the union.
        Ok(unsafe { request.ifr_ifru.ifru_flags })
    }

    /// Brings the interface up or down.
    pub fn set_up(&self, up: bool) -> Result<(), Error> {
        let (mut request, flags) = (self.request()?, self.flags()?);
        let bit = libc::IFF_UP as i16;
        request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
        self.ioctl(libc::SIOCSIFFLAGS, &mut request, "cannot set the interface up")
    }

    /// Number of receive queues in use, as the driver says; from the directory of queues where it does not,
    /// and one where that cannot be read.
    pub fn receive_queues(&self) -> u32 {
        self.ethtool_channels().or_else(|| self.listed_queues()).unwrap_or(1).max(1)
    }

    /// The mounted directory may be that of another network namespace: it must know the interface by its
    /// index.
    fn listed_queues(&self) -> Option<u32> {
        let folder = format!("/sys/class/net/{}", self.name);
        let index = std::fs::read_to_string(format!("{folder}/ifindex")).ok()?;
        if index.trim().parse() != Ok(self.index) {
            return None;
        }
        let queues = std::fs::read_dir(format!("{folder}/queues")).ok()?.flatten();
        Some(queues.filter(|queue| queue.file_name().to_string_lossy().starts_with("rx-")).count() as u32)
    }

    fn ethtool_channels(&self) -> Option<u32> {
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        // struct ethtool_channels: cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}_count
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        self.ethtool(&mut channels).ok()?;
        Some(channels[5] + channels[8])
    }

    /// Whether an offload is on.
    pub fn feature(&self, offload: &Offload) -> Result<bool, Error> {
        let mut value = [offload.get, 0];
        self.ethtool(&mut value)?;
        Ok(if offload.flag == 0 { value[1] != 0 } else { value[1] & offload.flag != 0 })
    }

    /// Switches an offload.
    pub fn set_feature(&self, offload: &Offload, on: bool) -> Result<(), Error> {
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
