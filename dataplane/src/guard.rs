//! Fail open: the BPF programs on each port, and the heartbeat that decides who forwards.
//!
//! Program and filter are attached over netlink and stay when the process dies. `port_tc` then forwards
//! every frame to the peer port in the kernel, until the next start takes over or `restore` puts the
//! interface back as it was found.

use crate::{Error, Mode};
use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, TC_INGRESS, TcHook, TcHookBuilder, Xdp,
    XdpFlags,
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_units::{Duration, Time};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/port.bpf.o"));
/// Handle and priority of the filter, so that a later start finds it.
const FILTER: u32 = 0x5765;
/// Name of the XDP program, which the kernel keeps with it.
const XDP_NAME: &str = "port_xdp";
/// Size of the mapping that holds one `Control`.
const PAGE: usize = 4096;

/// What the loop and the BPF programs share; `struct control` in `port.bpf.c`.
#[repr(C)]
struct Control {
    beat_ns: AtomicU64,
    after_ns: AtomicU64,
    bypassed: AtomicU64,
    peer: u32,
    copied: u32,
}

/// The programs on one port.
pub struct Guard {
    object: Object,
    control: NonNull<Control>,
    ifindex: u32,
    mode: Mode,
}

// SAFETY: the control page is shared with the kernel through atomics only.
unsafe impl Send for Guard {}

fn bpf_error(what: &str, error: &libbpf_rs::Error) -> Error {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied => ". Remedy: run as root (CAP_BPF and CAP_NET_ADMIN)",
        _ => "",
    };
    Error::Refused(format!("{what}: {error}{remedy}"))
}

/// Creates the qdisc that holds the filter; says whether it was not there before. The library's own call
/// does not tell, and a qdisc that others brought must stay with their filters.
fn create_clsact(ifindex: u32) -> Result<bool, Error> {
    let mut hook = libbpf_rs::libbpf_sys::bpf_tc_hook {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_tc_hook>() as _,
        ifindex: ifindex as i32,
        attach_point: TC_INGRESS,
        ..Default::default()
    };
    // SAFETY: the pointer is to a whole, initialised struct whose size it states.
    match unsafe { libbpf_rs::libbpf_sys::bpf_tc_hook_create(&mut hook) } {
        0 => Ok(true),
        code if code == -libc::EEXIST => Ok(false),
        code => {
            let error = libbpf_rs::Error::from_raw_os_error(-code);
            Err(bpf_error("cannot create the clsact qdisc that fails open", &error))
        }
    }
}

/// A hook that names our filter on the ingress of an interface.
fn hook(fd: BorrowedFd<'_>, ifindex: u32) -> TcHook {
    let mut builder = TcHookBuilder::new(fd);
    builder.ifindex(ifindex as i32).handle(FILTER).priority(FILTER).replace(true);
    builder.hook(TC_INGRESS)
}

impl Guard {
    /// Loads the programs for a port and attaches the fail-open filter. Frames bypass the loop from now on.
    /// Also says whether the port had no `clsact` qdisc before.
    pub fn attach(ifindex: u32, peer: u32, mode: Mode, after: Duration) -> Result<(Guard, bool), Error> {
        // The library's own messages say less than its errors.
        libbpf_rs::set_print(Some((PrintLevel::Debug, |_, _| {})));
        let mut builder = ObjectBuilder::default();
        let open = builder.open_memory(OBJECT).map_err(|e| bpf_error("cannot read the BPF object", &e))?;
        let object = open.load().map_err(|e| bpf_error("cannot load the BPF programs", &e))?;
        let map = object.maps().find(|m| m.name() == "control").expect("the object has this map");
        let control = map_control(map.as_fd().as_raw_fd())?;
        let guard = Guard { object, control, ifindex, mode };
        let shared = guard.control();
        shared.after_ns.store(after.as_nanos(), Ordering::Relaxed);
        // SAFETY: nothing reads these fields before the programs are attached below.
        unsafe {
            (*guard.control.as_ptr()).peer = peer;
            (*guard.control.as_ptr()).copied = u32::from(mode == Mode::AfPacket);
        }
        let created = guard.attach_filter()?;
        Ok((guard, created))
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

    fn attach_filter(&self) -> Result<bool, Error> {
        let created = create_clsact(self.ifindex)?;
        let mut hook = hook(self.program("port_tc"), self.ifindex);
        hook.attach().map_err(|e| bpf_error("cannot attach the filter that fails open", &e))?;
        Ok(created)
    }

    /// Attaches the XDP program. Frames go to the sockets as soon as the heart beats.
    pub fn attach_xdp(&self) -> Result<(), libbpf_rs::Error> {
        let flags = match self.mode {
            Mode::XdpNative => XdpFlags::DRV_MODE,
            _ => XdpFlags::SKB_MODE,
        };
        Xdp::new(self.program(XDP_NAME)).attach(self.ifindex as i32, flags | XdpFlags::UPDATE_IF_NOEXIST)
    }

    /// Enters a socket for a receive queue.
    pub fn add_socket(&self, queue: u32, socket: RawFd) -> Result<(), Error> {
        let map = self.object.maps().find(|m| m.name() == "sockets").expect("the object has this map");
        map.update(&queue.to_ne_bytes(), &(socket as u32).to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| bpf_error("cannot enter the AF_XDP socket", &e))
    }

    /// Descriptor of the program that decides which copies an AF_PACKET socket gets.
    pub fn copy_filter(&self) -> RawFd {
        self.program("port_copy").as_raw_fd()
    }

    /// The loop ends: from now on the kernel forwards.
    pub fn retire(&self) {
        self.control().beat_ns.store(0, Ordering::Relaxed);
    }

    /// The loop lives.
    pub fn beat(&self, now: Time) {
        self.control().beat_ns.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Frames the kernel forwarded past the loop.
    pub fn bypassed(&self) -> u64 {
        self.control().bypassed.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
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
    // The query needs no program; any descriptor does.
    // SAFETY: descriptor 0 is only carried along and never used by the query.
    let xdp = Xdp::new(unsafe { BorrowedFd::borrow_raw(0) });
    let id = xdp.query_id(ifindex as i32, XdpFlags::NONE).ok()?;
    (id != 0).then_some(id)
}

/// Whether our filter is on an interface: another loop forwards there, or was killed.
pub fn is_guarded(ifindex: u32) -> bool {
    // SAFETY: the query names no program, so the descriptor is only carried along.
    let none = unsafe { BorrowedFd::borrow_raw(0) };
    hook(none, ifindex).query().is_ok()
}

/// Whether the XDP program on an interface is ours, by its name.
fn is_ours(ifindex: u32) -> bool {
    let Some(fd) = xdp_program(ifindex).and_then(|id| libbpf_rs::Program::fd_from_id(id).ok()) else {
        return false;
    };
    let mut info = libbpf_rs::libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    // SAFETY: the pointers describe `info`, which the kernel fills up to `len`.
    let code = unsafe { libbpf_rs::libbpf_sys::bpf_prog_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut len) };
    let name = info.name.iter().map(|c| *c as u8).take_while(|c| *c != 0);
    code == 0 && name.eq(XDP_NAME.bytes())
}

/// Takes our programs off an interface; `clsact` too if we had brought it. Safe to call twice, and leaves
/// an XDP program alone that somebody put in place of ours.
pub fn detach(ifindex: u32, mode: Mode, created_clsact: bool) {
    // SAFETY: detaching names no program, so the descriptor is only carried along.
    let none = unsafe { BorrowedFd::borrow_raw(0) };
    if mode != Mode::AfPacket && is_ours(ifindex) {
        let flags = if mode == Mode::XdpNative { XdpFlags::DRV_MODE } else { XdpFlags::SKB_MODE };
        let _ = Xdp::new(none).detach(ifindex as i32, flags);
    }
    let mut filter = hook(none, ifindex);
    let _ = filter.detach();
    if created_clsact {
        let mut builder = TcHookBuilder::new(none);
        builder.ifindex(ifindex as i32);
        // Both directions together name the qdisc itself.
        let mut qdisc = builder.hook(libbpf_rs::TC_INGRESS | libbpf_rs::TC_EGRESS);
        let _ = qdisc.destroy();
    }
}
