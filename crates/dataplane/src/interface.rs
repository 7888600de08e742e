//! Linux interfaces: what they are, and their settings.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An offload that must be off while the packet loop forwards, and why.
pub struct Offload {
    /// Name, as `ethtool -K` takes it.
    pub name: &'static str,
    /// Whether it takes VLAN tags off frames.
    pub strips_tags: bool,
    switch: Switch,
}

/// How an offload is asked for and switched.
enum Switch {
    /// By two commands of its own.
    Commands(u32, u32),
    /// By its bit in the word of flags.
    Flag(u32),
    /// By its name among the features, which the kernel numbers anew with each release.
    Feature(&'static str),
}

/// Of `if_arp.h`; the library lacks them.
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_IP6GRE: u16 = 823;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
/// Most features and receive queues that are asked for.
const FEATURES_MAX: usize = 256;
/// The offloads that must be off.
pub const OFFLOADS: [Offload; 4] = [
    // Merged frames are longer than the MTU of the other side.
    Offload { name: "generic-receive-offload", strips_tags: false, switch: Switch::Commands(0x2b, 0x2c) },
    Offload { name: "large-receive-offload", strips_tags: false, switch: Switch::Flag(1 << 15) },
    // XDP does not see a tag that the hardware took off.
    Offload { name: "rx-vlan-offload", strips_tags: true, switch: Switch::Flag(1 << 8) },
    Offload {
        name: "rx-vlan-stag-hw-parse",
        strips_tags: true,
        switch: Switch::Feature("rx-vlan-stag-hw-parse"),
    },
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
            0 => {
                let error = std::io::Error::last_os_error();
                Err(match error.raw_os_error() {
                    // The call asks through a socket of its own.
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS) => {
                        Error::io(format!("cannot look for the interface `{name}`"), error)
                    }
                    _ => unknown(),
                })
            }
            index => Ok(Interface { name: name.into(), index }),
        }
    }

    /// Whether the interface is still in this namespace, under whatever name. One that cannot be asked about,
    /// as for want of memory or descriptors, is there.
    pub fn exists(&self) -> bool {
        self.name_now().is_some()
            || !matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENXIO | libc::ENODEV))
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

    /// What its frames begin with. Refuses the loopback interface, and kinds of frames that nobody here
    /// reads.
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
        self.channels().map(|channels| channels[5] + channels[8])
    }

    fn channels(&self) -> Option<[u32; 9]> {
        const ETHTOOL_GCHANNELS: u32 = 0x3c;
        // struct ethtool_channels: cmd, max_{rx,tx,other,combined}, {rx,tx,other,combined}_count
        let mut channels = [0u32; 9];
        channels[0] = ETHTOOL_GCHANNELS;
        self.ethtool(&mut channels).ok()?;
        Some(channels)
    }

    /// Whether an offload is on.
    pub fn feature(&self, offload: &Offload) -> Result<bool, Error> {
        match offload.switch {
            Switch::Commands(get, _) => {
                let mut value = [get, 0];
                self.ethtool(&mut value)?;
                Ok(value[1] != 0)
            }
            Switch::Flag(flag) => {
                let mut value = [ETHTOOL_GFLAGS, 0];
                self.ethtool(&mut value)?;
                Ok(value[1] & flag != 0)
            }
            Switch::Feature(name) => {
                let (place, words) = self.place_of_feature(name)?;
                // struct ethtool_gfeatures: cmd, size, {available, requested, active, never_changed}
                let mut value = [0u32; 2 + 4 * FEATURES_MAX / 32];
                value[..2].copy_from_slice(&[ETHTOOL_GFEATURES, words]);
                self.ethtool(&mut value)?;
                Ok(value[2 + 4 * (place / 32) + 2] & (1 << (place % 32)) != 0)
            }
        }
    }

    /// Switches an offload. A driver may refuse without saying so: look at it afterwards.
    pub fn set_feature(&self, offload: &Offload, on: bool) -> Result<(), Error> {
        match offload.switch {
            Switch::Commands(_, set) => self.ethtool(&mut [set, u32::from(on)]),
            Switch::Flag(flag) => {
                let mut value = [ETHTOOL_GFLAGS, 0];
                self.ethtool(&mut value)?;
                let flags = if on { value[1] | flag } else { value[1] & !flag };
                self.ethtool(&mut [ETHTOOL_SFLAGS, flags])
            }
            Switch::Feature(name) => {
                let (place, words) = self.place_of_feature(name)?;
                // struct ethtool_sfeatures: cmd, size, {valid, requested}
                let mut value = [0u32; 2 + 2 * FEATURES_MAX / 32];
                value[..2].copy_from_slice(&[ETHTOOL_SFEATURES, words]);
                let bit = 1 << (place % 32);
                value[2 + 2 * (place / 32)] = bit;
                value[2 + 2 * (place / 32) + 1] = if on { bit } else { 0 };
                self.ethtool(&mut value)
            }
        }
    }

    /// The number of a feature, and how many words of 32 features there are.
    fn place_of_feature(&self, name: &str) -> Result<(usize, u32), Error> {
        const HEAD: usize = 3;
        // struct ethtool_sset_info: cmd, reserved, mask (64 bits), length of each set asked for
        let mut count = [0x37u32, 0, 1 << ETH_SS_FEATURES, 0, 0];
        self.ethtool(&mut count)?;
        let unknown = || Error::Refused(format!("{}: the kernel does not know `{name}`", self.name));
        let known = count[4] as usize;
        if known > FEATURES_MAX {
            return Err(unknown());
        }
        // struct ethtool_gstrings: cmd, set, number, names
        let mut names = vec![0u32; HEAD + FEATURES_MAX * ETH_GSTRING_LEN / 4];
        names[..HEAD].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, known as u32]);
        self.ethtool(&mut names[..])?;
        let bytes: Vec<u8> = names[HEAD..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let is_it = |text: &[u8]| text.split(|byte| *byte == 0).next() == Some(name.as_bytes());
        let place = bytes.chunks(ETH_GSTRING_LEN).take(known).position(is_it).ok_or_else(unknown)?;
        Ok((place, known.div_ceil(32) as u32))
    }

    /// Offloads that take VLAN tags off frames and are on.
    pub fn strips_tags(&self) -> Vec<&'static str> {
        let stripping = OFFLOADS.iter().filter(|offload| offload.strips_tags);
        stripping.filter(|o| self.feature(o).unwrap_or(false)).map(|o| o.name).collect()
    }

    /// The driver, as ethtool tells it.
    pub fn driver(&self) -> Option<String> {
        const ETHTOOL_GDRVINFO: u32 = 3;
        // struct ethtool_drvinfo: cmd, driver (32 bytes), and more, 196 bytes in all
        let mut info = [0u32; 49];
        info[0] = ETHTOOL_GDRVINFO;
        self.ethtool(&mut info).ok()?;
        let bytes: Vec<u8> = info[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let name = bytes.split(|byte| *byte == 0).next()?;
        (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
    }

    /// Most receive queues that the driver can have; as many as there are where it does not say.
    pub fn most_receive_queues(&self) -> u32 {
        let most = self.channels().map_or(0, |channels| channels[1] + channels[4]);
        most.max(self.receive_queues())
    }

    fn ethtool(&self, value: &mut [u32]) -> Result<(), Error> {
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
