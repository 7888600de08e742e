//! Fail open: the BPF programs on each port, and the heartbeat that decides who forwards.
//!
//! The filter is attached over netlink and stays when the process dies: `port_tc` then forwards every frame
//! to the peer port in the kernel, until the next start takes over or `restore` puts the interface back as it
//! was found. The XDP program is attached by a link, which the kernel ends with its descriptor: it goes when
//! the process dies, wherever the interface is then, also in another network namespace.

use crate::heart::Heart;
use crate::interface::Interface;
use crate::{Error, Mode};
use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, TC_INGRESS, TcHook, TcHookBuilder, Xdp,
    XdpFlags, libbpf_sys,
};
use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Once;
use weir_units::{Duration, Time};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));
/// The same with an XDP program that puts back the VLAN tag which a driver took off. An object of its own, as
/// the library refuses one that names functions of the kernel where the kernel's types are not described.
static OBJECT_WITH_TAGS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port_tags.bpf.o"));
/// Handle and priority of the filter, so that a later start finds it.
const FILTER: u32 = 0x5765;
/// Size of the mapping that holds one `Control`.
const PAGE: usize = 4096;
/// The program may use what the driver of its interface tells of frames (`bpf.h`).
const BPF_F_XDP_DEV_BOUND_ONLY: u32 = 1 << 6;

/// What the loop and the BPF programs share; `struct control` in `port.bpf.c`.
#[repr(C)]
struct Control {
    heart: Heart,
    peer: u32,
    copied: u32,
}

/// The programs on one port.
pub struct Guard {
    /// Keeps the XDP program on the port. Closed before the program goes.
    link: Option<OwnedFd>,
    /// Whether frames are the kernel's, whatever the loop does.
    is_left: bool,
    object: Object,
    control: NonNull<Control>,
    ifindex: u32,
    mode: Mode,
}

// SAFETY: the control page is shared with the kernel through atomics only.
unsafe impl Send for Guard {}

thread_local! {
    /// What the kernel said about the last request it refused.
    static KERNEL_SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps the library from printing: its messages say less than its errors, but for those of the kernel, which
/// are kept for the error.
fn quiet() {
    static ONCE: Once = Once::new();
    fn keep(_: PrintLevel, message: String) {
        if let Some((_, text)) = message.split_once("Kernel error message: ") {
            KERNEL_SAID.set(Some(text.trim().to_string()));
        }
    }
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Debug, keep)));
    });
}

/// Makes a request of the library; its error says what was tried, and what the kernel said.
pub fn request<T>(what: &str, call: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, Error> {
    quiet();
    KERNEL_SAID.set(None);
    call().map_err(|error| {
        let said = KERNEL_SAID.take().map_or(String::new(), |text| format!(" ({text})"));
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => ". Remedy: run as root (CAP_BPF and CAP_NET_ADMIN)",
            _ => "",
        };
        Error::Refused(format!("{what}: {error}{said}{remedy}"))
    })
}

/// Creates the qdisc that holds the filter; says whether it was not there before. The library's own call
/// does not tell, and a qdisc that others brought must stay with their filters.
pub fn create_clsact(ifindex: u32) -> Result<bool, Error> {
    let mut hook = libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_sys::bpf_tc_hook>() as _,
        ifindex: ifindex as i32,
        attach_point: TC_INGRESS,
        ..Default::default()
    };
    request("cannot create the clsact qdisc that fails open", || {
        // SAFETY: the pointer is to a whole, initialised struct whose size it states.
        match unsafe { libbpf_sys::bpf_tc_hook_create(&mut hook) } {
            0 => Ok(true),
            code if code == -libc::EEXIST => Ok(false),
            code => Err(libbpf_rs::Error::from_raw_os_error(-code)),
        }
    })
}

/// What is at the place of our filter on an interface.
#[derive(PartialEq, Eq)]
enum Place {
    /// A filter, of this program or of an earlier run.
    Taken(u32),
    /// The qdisc without it.
    Free,
    /// Not even the qdisc, or no such interface.
    Missing,
    /// The system does not tell.
    Unknown,
}

impl Place {
    fn of(ifindex: u32) -> Place {
        // SAFETY: the query names no program, so the descriptor is only carried along.
        let none = unsafe { BorrowedFd::borrow_raw(0) };
        let told = hook(none, ifindex).query();
        let code = std::io::Error::last_os_error().raw_os_error();
        match (told, code) {
            (Ok(program), _) => Place::Taken(program),
            (Err(_), Some(libc::ENOENT)) => Place::Free,
            (Err(_), Some(libc::EINVAL | libc::ENODEV)) => Place::Missing,
            (Err(_), _) => Place::Unknown,
        }
    }
}

/// Whether an interface has the qdisc that holds the filter. One that cannot be asked about has it, so that
/// nobody takes it for his own.
pub fn has_clsact(ifindex: u32) -> bool {
    Place::of(ifindex) != Place::Missing
}

/// A hook that names our filter on the ingress of an interface.
fn hook(fd: BorrowedFd<'_>, ifindex: u32) -> TcHook {
    quiet();
    let mut builder = TcHookBuilder::new(fd);
    builder.ifindex(ifindex as i32).handle(FILTER).priority(FILTER).replace(true);
    builder.hook(TC_INGRESS)
}

fn attach_filter(program: BorrowedFd<'_>, ifindex: u32) -> Result<(), Error> {
    let mut hook = hook(program, ifindex);
    request("cannot attach the filter that fails open", || hook.attach()).map(drop)
}

impl Guard {
    /// Attaches the fail-open filter of a port, to the qdisc that [`create_clsact`] makes. Frames bypass the
    /// loop from now on: to the peer, or to the host where there is none.
    pub fn attach(
        Loaded { ifindex, mode, object }: Loaded,
        peer: Option<u32>,
        after: Duration,
    ) -> Result<Guard, Error> {
        let map = object.maps().find(|m| m.name() == "control").expect("the object has this map");
        let control = map_control(map.as_fd().as_raw_fd())?;
        let guard = Guard { link: None, is_left: false, object, control, ifindex, mode };
        guard.control().heart.set_after(after);
        // SAFETY: nothing reads these fields before the programs are attached below.
        unsafe {
            (*guard.control.as_ptr()).peer = peer.unwrap_or(0);
            (*guard.control.as_ptr()).copied = u32::from(mode == Mode::AfPacket);
        }
        attach_filter(guard.program("port_tc"), ifindex)?;
        Ok(guard)
    }

    fn control(&self) -> &Control {
        // SAFETY: the page stays mapped while the guard lives.
        unsafe { self.control.as_ref() }
    }

    fn program(&self, name: &str) -> BorrowedFd<'_> {
        let program = self.object.progs().find(|p| p.name() == name).expect("the object has this program");
        // SAFETY: the descriptor belongs to the object, which outlives the returned borrow.
        unsafe { BorrowedFd::borrow_raw(program.as_fd().as_raw_fd()) }
    }

    /// Attaches the XDP program. Frames go to the sockets as soon as the heart beats. Where an earlier run's
    /// link is still open, its program is exchanged for this one: some drivers take the link down for a new
    /// one.
    pub fn attach_xdp(&mut self, earlier: Option<OwnedFd>) -> Result<(), Error> {
        let program = self.xdp();
        let exchanged = earlier.filter(|link| exchange(link, program));
        self.link = Some(match exchanged {
            Some(link) => link,
            None => attach_xdp(program, self.ifindex, self.mode == Mode::XdpNative)?,
        });
        Ok(())
    }

    fn xdp(&self) -> BorrowedFd<'_> {
        self.program("port_xdp")
    }

    /// What is needed to see that the programs are still there, and to put them back.
    pub fn programs(&self) -> Result<Programs, Error> {
        let own = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|e| Error::io("cannot duplicate a descriptor", e))
        };
        Ok(Programs {
            ifindex: self.ifindex,
            is_native: self.mode == Mode::XdpNative,
            filter: own(self.program("port_tc"))?,
            xdp: own(self.xdp())?,
            link: self.link.as_ref().map(|link| own(link.as_fd())).transpose()?,
        })
    }

    /// The XDP program hangs on a new link.
    pub fn relink(&mut self, link: OwnedFd) {
        self.link = Some(link);
    }

    /// From now on frames are the kernel's, whatever the loop does.
    pub fn leave(&mut self) {
        self.is_left = true;
        self.retire();
    }

    /// Enters a socket for a receive queue.
    pub fn add_socket(&self, queue: u32, socket: RawFd) -> Result<(), Error> {
        let map = self.object.maps().find(|m| m.name() == "sockets").expect("the object has this map");
        request("cannot enter the AF_XDP socket", || {
            map.update(&queue.to_ne_bytes(), &(socket as u32).to_ne_bytes(), MapFlags::ANY)
        })
    }

    /// Descriptor of the program that decides which copies an AF_PACKET socket gets.
    pub fn copy_filter(&self) -> RawFd {
        self.program("port_copy").as_raw_fd()
    }

    /// The loop ends: from now on the kernel forwards.
    pub fn retire(&self) {
        self.control().heart.stop();
    }

    /// The loop lives.
    pub fn beat(&self, now: Time) {
        if !self.is_left {
            self.control().heart.beat(now);
        }
    }

    /// Frames the kernel forwarded past the loop.
    pub fn bypassed(&self) -> u64 {
        self.control().heart.bypassed()
    }
}

/// Attaches an XDP program to an interface, in its driver or behind it. The kernel takes it off when the
/// descriptor is closed.
pub fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32, native: bool) -> Result<OwnedFd, Error> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags: if native { libbpf_sys::XDP_FLAGS_DRV_MODE } else { libbpf_sys::XDP_FLAGS_SKB_MODE },
        ..Default::default()
    };
    let (program, ifindex) = (program.as_raw_fd(), ifindex as i32);
    let fd = request("cannot attach the XDP program", || {
        // SAFETY: the pointer is to a whole, initialised struct whose size it states.
        match unsafe { libbpf_sys::bpf_link_create(program, ifindex, libbpf_sys::BPF_XDP, &options) } {
            code if code < 0 => Err(libbpf_rs::Error::from_raw_os_error(-code)),
            fd => Ok(fd),
        }
    })?;
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Descriptors of the programs of a port, for whoever looks after them.
pub struct Programs {
    ifindex: u32,
    is_native: bool,
    filter: OwnedFd,
    xdp: OwnedFd,
    link: Option<OwnedFd>,
}

impl Programs {
    /// Whether the filter that fails open is there, and is ours.
    pub fn has_filter(&self) -> bool {
        match Place::of(self.ifindex) {
            Place::Taken(program) => program_id(self.filter.as_fd()) == Some(program),
            // Whether it is there is seen at the next look.
            Place::Unknown => true,
            Place::Free | Place::Missing => false,
        }
    }

    /// Puts the filter back, to the qdisc that [`create_clsact`] makes.
    pub fn attach_filter(&self) -> Result<(), Error> {
        attach_filter(self.filter.as_fd(), self.ifindex)
    }

    /// Whether the XDP program, if there is to be one, is on the port.
    pub fn has_xdp(&self) -> bool {
        self.link
            .as_ref()
            .is_none_or(|link| link_info(link.as_fd()).is_some_and(|info| info.0 == self.ifindex))
    }

    /// Attaches a native XDP program anew; its link. A veth does not give it to queues that were added, and
    /// does not look at them either when the same program is put in its own place.
    pub fn reattach_xdp(&mut self) -> Option<Result<OwnedFd, Error>> {
        let link = self.link.as_ref().filter(|_| self.is_native)?;
        // SAFETY: a plain descriptor.
        unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
        Some(self.attach_xdp())
    }

    /// Puts the XDP program back; its link.
    pub fn attach_xdp(&mut self) -> Result<OwnedFd, Error> {
        // The link of before holds nothing any more.
        let link = attach_xdp(self.xdp.as_fd(), self.ifindex, self.is_native)?;
        let copy = link.try_clone().map_err(|e| Error::io("cannot duplicate a descriptor", e))?;
        self.link = Some(link);
        Ok(copy)
    }
}

/// The programs for a port, which the kernel has and does not run yet.
pub struct Loaded {
    ifindex: u32,
    mode: Mode,
    object: Object,
}

/// Loads the programs for a port. Where the kernel tells native programs the tag that a driver took off, the
/// program that puts it back is used; it is bound to the interface.
pub fn load(ifindex: u32, mode: Mode) -> Result<Loaded, Error> {
    let mut builder = ObjectBuilder::default();
    let mut attempt = |with_tags: bool| {
        let object = if with_tags { OBJECT_WITH_TAGS } else { OBJECT };
        let mut open = request("cannot read the BPF object", || builder.open_memory(object))?;
        if with_tags {
            let mut xdp =
                open.progs_mut().find(|p| p.name() == "port_xdp").expect("the object has this program");
            xdp.set_ifindex(ifindex);
            xdp.set_flags(BPF_F_XDP_DEV_BOUND_ONLY);
        }
        request("cannot load the BPF programs", || open.load())
    };
    let object = match mode == Mode::XdpNative {
        true => attempt(true).or_else(|_| attempt(false))?,
        false => attempt(false)?,
    };
    Ok(Loaded { ifindex, mode, object })
}

/// Exchanges the program of a link; whether that could be done.
fn exchange(link: &OwnedFd, program: BorrowedFd<'_>) -> bool {
    // SAFETY: plain descriptors, and no options.
    unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null()) == 0 }
}

/// Id of a program.
fn program_id(program: BorrowedFd<'_>) -> Option<u32> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the pointers describe `info`, which the call fills up to `len`.
    let code = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len) };
    (code == 0).then_some(info.id)
}

/// Index of the interface that the XDP program of a link is on, zero for none any more, and id of the
/// program.
fn link_info(link: BorrowedFd<'_>) -> Option<(u32, u32)> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the pointers describe `info`, which the call fills up to `len`; of the union this member is
    // read only where the type says so.
    unsafe {
        let code = libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut len);
        let is_xdp = code == 0 && info.type_ == libbpf_sys::BPF_LINK_TYPE_XDP;
        if is_xdp { Some((info.__bindgen_anon_1.xdp.ifindex, info.prog_id)) } else { None }
    }
}

/// The link that holds the XDP program of an interface, if there is one and this process may open it.
pub fn xdp_link(ifindex: u32) -> Option<OwnedFd> {
    let wanted = (ifindex, xdp_program(ifindex)?);
    let mut id = 0;
    // SAFETY: the pointer is to `id`.
    while unsafe { libbpf_sys::bpf_link_get_next_id(id, &mut id) } == 0 {
        // SAFETY: a plain number; the descriptor is owned by nobody else.
        let link = unsafe {
            let raw = libbpf_sys::bpf_link_get_fd_by_id(id);
            if raw < 0 {
                continue;
            }
            OwnedFd::from_raw_fd(raw)
        };
        if link_info(link.as_fd()) == Some(wanted) {
            return Some(link);
        }
    }
    None
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Also where the loop panicked: nobody takes frames any more.
        self.retire();
        // SAFETY: mapped in `map_control`; the object keeps the map itself alive until after this.
        unsafe { libc::munmap(self.control.as_ptr().cast(), PAGE) };
    }
}

fn map_control(fd: RawFd) -> Result<NonNull<Control>, Error> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let page = unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), PAGE, protection, libc::MAP_SHARED, fd, 0)
    };
    if page == libc::MAP_FAILED {
        return Err(Error::os("cannot map the control block of the BPF programs"));
    }
    Ok(NonNull::new(page.cast()).expect("a successful mmap is not null"))
}

/// Id of the XDP program on an interface, in whichever mode.
pub fn xdp_program(ifindex: u32) -> Option<u32> {
    quiet();
    // The query needs no program; any descriptor does.
    // SAFETY: descriptor 0 is only carried along and never used by the query.
    let xdp = Xdp::new(unsafe { BorrowedFd::borrow_raw(0) });
    let id = xdp.query_id(ifindex as i32, XdpFlags::NONE).ok()?;
    (id != 0).then_some(id)
}

/// Whether our filter is on an interface: another loop forwards there, or was killed.
pub fn is_guarded(ifindex: u32) -> bool {
    matches!(Place::of(ifindex), Place::Taken(_))
}

/// Refuses a port that another run or program has.
pub fn refuse_taken(port: &Interface) -> Result<(), Error> {
    if is_guarded(port.index) {
        return Err(Error::Refused(format!(
            "{}: the filter of another run is attached already. Remedy: end that run, or take over from it with \
             `weir run --takeover`; if it was killed, the next `weir run` takes over by itself, and `weir doctor --clean` puts \
             its ports back; where that finds nothing, as /run/weir was emptied since, `tc qdisc del dev {} clsact`",
            port.name, port.name
        )));
    }
    refuse_other_xdp(port)
}

/// Refuses a port that has an XDP program.
pub fn refuse_other_xdp(port: &Interface) -> Result<(), Error> {
    if let Some(id) = xdp_program(port.index) {
        return Err(Error::Refused(format!(
            "{}: XDP program {id} is attached already. Remedy: end the program that owns it, or \
             `ip link set {} xdp off`",
            port.name, port.name
        )));
    }
    Ok(())
}

/// Takes our filter off an interface; `clsact` too if we had brought it. What is not there any more is no
/// error, so that it can be called twice.
pub fn detach(ifindex: u32, created_clsact: bool) -> Result<(), Error> {
    // SAFETY: detaching names no program, so the descriptor is only carried along.
    let none = unsafe { BorrowedFd::borrow_raw(0) };
    let mut filter = hook(none, ifindex);
    let taken_off = request("cannot take the filter off", || filter.detach());
    if created_clsact {
        let mut builder = TcHookBuilder::new(none);
        builder.ifindex(ifindex as i32);
        // Both directions together name the qdisc itself, which takes the filter along.
        let mut qdisc = builder.hook(libbpf_rs::TC_INGRESS | libbpf_rs::TC_EGRESS);
        let removed = request("cannot remove the clsact qdisc", || qdisc.destroy());
        return if Place::of(ifindex) == Place::Missing { Ok(()) } else { removed };
    }
    if matches!(Place::of(ifindex), Place::Free | Place::Missing) { Ok(()) } else { taken_off }
}
