//! The system calls of a program that contains this crate: on a thread that simulates they go to the
//! simulated kernel, on all others to that of the machine.
//!
//! The code under test calls `sendto`, `ppoll`, `mmap` and so on of the C library. A program's own definition
//! of such a function goes before that of the library when the program is linked, for Rust's standard library
//! and for libbpf as well. So the code under test is the one that runs in production, to the instruction: it
//! has neither a trait nor a parameter nor a feature for the sake of the simulation.
//!
//! What the C library calls inside of itself (memory, threads) is not met by this.

use crate::kernel::Kernel;
use libc::{c_char, c_int, c_long, c_uint, c_ulong, c_void, size_t, socklen_t, ssize_t};
use std::cell::Cell;
use std::ffi::CStr;

thread_local! {
    static KERNEL: Cell<*mut Kernel> = const { Cell::new(std::ptr::null_mut()) };
}

/// From now on this thread's system calls go to a simulated kernel, until [`leave`].
///
/// # Safety
/// The kernel must live, and nobody else may use it, until then.
pub unsafe fn enter(kernel: *mut Kernel) {
    KERNEL.set(kernel);
}

/// This thread's system calls go to the machine's kernel again.
pub fn leave() {
    KERNEL.set(std::ptr::null_mut());
}

/// As [`leave`]: which kernel it was, to enter it again.
pub(crate) fn pause() -> Option<*mut Kernel> {
    Some(KERNEL.replace(std::ptr::null_mut())).filter(|kernel| !kernel.is_null())
}

/// Gives the simulated kernel of this thread to `f`, if there is one. What the simulated kernel itself calls
/// goes to the machine's.
#[inline]
pub(crate) fn simulated<T>(f: impl FnOnce(&mut Kernel) -> T) -> Option<T> {
    let kernel = KERNEL.get();
    if kernel.is_null() {
        return None;
    }
    KERNEL.set(std::ptr::null_mut());
    // SAFETY: `enter` was promised that it lives, and the cell is empty while this reference exists.
    let result = f(unsafe { &mut *kernel });
    KERNEL.set(kernel);
    Some(result)
}

fn set_errno(number: c_int) {
    // SAFETY: the library gives each thread a valid place.
    unsafe { *libc::__errno_location() = number };
}

/// A result of the simulated kernel as the C library returns it: negative numbers are errors.
pub(crate) fn returned(value: i64) -> i64 {
    if (-4095..0).contains(&value) {
        set_errno(-value as c_int);
        return -1;
    }
    value
}

/// A call of the machine's kernel.
///
/// # Safety
/// As the call demands.
pub(crate) unsafe fn machine(number: c_long, a: [usize; 6]) -> i64 {
    let result: i64;
    // SAFETY: the calling convention of Linux on this processor; what the call does is up to the caller.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!(
            "syscall", inlateout("rax") number => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], out("rcx") _, out("r11") _, options(nostack)
        );
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!(
            "svc 0", in("x8") number as i64, inlateout("x0") a[0] => result, in("x1") a[1], in("x2") a[2],
            in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack)
        );
    }
    returned(result)
}

macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $result:ty = $number:ident, |$kernel:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the call demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> $result {
            match simulated(|$kernel| -> Option<i64> { $body }) {
                Some(Some(value)) => returned(value) as $result,
                // SAFETY: as the caller promises.
                _ => unsafe { machine(libc::$number, arguments(&[$($arg as usize),*])) as $result },
            }
        }
    )*};
}

pub(crate) fn arguments(given: &[usize]) -> [usize; 6] {
    let mut all = [0; 6];
    all[..given.len()].copy_from_slice(given);
    all
}

calls! {
    /// The clocks.
    fn clock_gettime(clock: c_int, to: *mut libc::timespec) -> c_int = SYS_clock_gettime, |k| k.clock(clock, to);
    /// Opens a socket.
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = SYS_socket, |k| k.socket(domain, kind, protocol);
    /// Binds a socket.
    fn bind(fd: c_int, to: *const libc::sockaddr, len: socklen_t) -> c_int = SYS_bind, |k| k.bind(fd, to, len);
    /// Address of a socket.
    fn getsockname(fd: c_int, to: *mut libc::sockaddr, len: *mut socklen_t) -> c_int = SYS_getsockname, |k| k.socket_name(fd, to, len);
    /// Sets an option.
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t) -> c_int = SYS_setsockopt,
        |k| k.set_option(fd, level, name, value, len);
    /// Reads an option.
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int = SYS_getsockopt,
        |k| k.option(fd, level, name, value, len);
    /// Sends, or wakes the sending side.
    fn sendto(fd: c_int, data: *const c_void, len: size_t, flags: c_int, to: *const libc::sockaddr, to_len: socklen_t) -> ssize_t = SYS_sendto,
        |k| { let _ = (flags, to, to_len); k.send(fd, data, len) };
    /// Receives, or wakes the receiving side.
    fn recvfrom(fd: c_int, data: *mut c_void, len: size_t, flags: c_int, from: *mut libc::sockaddr, from_len: *mut socklen_t) -> ssize_t = SYS_recvfrom,
        |k| { let _ = (from, from_len); k.receive(fd, data, len, flags) };
    /// Receives a message.
    fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t = SYS_recvmsg, |k| k.receive_message(fd, message, flags);
    /// Interface and driver requests.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = SYS_ioctl, |k| k.ioctl(fd, request, argument);
    /// Unmaps memory.
    fn munmap(at: *mut c_void, len: size_t) -> c_int = SYS_munmap, |k| k.unmap(at, len);
    /// Reads.
    fn read(fd: c_int, data: *mut c_void, len: size_t) -> ssize_t = SYS_read, |k| k.read(fd, data, len);
    /// Writes.
    fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t = SYS_write, |k| k.write(fd, data, len);
    /// Closes a descriptor.
    fn close(fd: c_int) -> c_int = SYS_close, |k| k.close(fd);
    /// Makes a descriptor that counts.
    fn eventfd(count: c_uint, flags: c_int) -> c_int = SYS_eventfd2, |k| { let _ = (count, flags); k.event_descriptor() };
    /// Sets the scheduling class.
    fn sched_setscheduler(pid: libc::pid_t, class: c_int, parameters: *const c_void) -> c_int = SYS_sched_setscheduler,
        |k| { let _ = (pid, class, parameters); k.claim() };
    /// Keeps a thread on processors.
    fn sched_setaffinity(pid: libc::pid_t, len: size_t, set: *const c_void) -> c_int = SYS_sched_setaffinity,
        |k| { let _ = (pid, len, set); k.claim() };
    /// Number of the process.
    fn getpid() -> libc::pid_t = SYS_getpid, |k| Some(i64::from(k.pid()));
    /// Random numbers.
    fn getrandom(to: *mut c_void, len: size_t, flags: c_uint) -> ssize_t = SYS_getrandom, |k| { let _ = flags; k.random(to, len) };
}

/// Sleeps until a descriptor is ready. What another thread of the process would do in this time is done here.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ppoll(
    fds: *mut libc::pollfd,
    count: libc::nfds_t,
    timeout: *const libc::timespec,
    mask: *const c_void,
    size: size_t,
) -> c_int {
    do_chores();
    match simulated(|kernel| kernel.poll(fds, count as usize, timeout)).flatten() {
        Some(value) => returned(value) as c_int,
        None => {
            let a = [fds as usize, count as usize, timeout as usize, mask as usize, size];
            // SAFETY: as the caller promises.
            unsafe { machine(libc::SYS_ppoll, arguments(&a)) as c_int }
        }
    }
}

/// Sleeps. What another thread of the process would do in this time is done here.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(span: *const libc::timespec, rest: *mut libc::timespec) -> c_int {
    do_chores();
    // SAFETY: the process gives a time.
    let ns = unsafe { (*span).tv_sec as u64 * 1_000_000_000 + (*span).tv_nsec as u64 };
    if KERNEL.get().is_null() {
        // SAFETY: as the caller promises.
        return unsafe { machine(libc::SYS_nanosleep, arguments(&[span as usize, rest as usize])) as c_int };
    }
    if crate::rival::sleep(ns) {
        return 0;
    }
    match simulated(|kernel| kernel.sleep(span)).flatten() {
        Some(value) => returned(value) as c_int,
        // SAFETY: as the caller promises.
        None => unsafe { machine(libc::SYS_nanosleep, arguments(&[span as usize, rest as usize])) as c_int },
    }
}

/// Sleeps, as the standard library does.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    span: *const libc::timespec,
    rest: *mut libc::timespec,
) -> c_int {
    if KERNEL.get().is_null() || flags & libc::TIMER_ABSTIME != 0 {
        let a = arguments(&[clock as usize, flags as usize, span as usize, rest as usize]);
        // SAFETY: as the caller promises. This call gives its error, and does not leave it behind.
        return match unsafe { machine(libc::SYS_clock_nanosleep, a) } {
            0 => 0,
            // SAFETY: the library gives each thread a valid place.
            _ => unsafe { *libc::__errno_location() },
        };
    }
    // SAFETY: as the caller promises.
    unsafe { nanosleep(span, rest) };
    0
}

/// The work of the thread that looks after ports, if it is due: its calls are of the same process. The loop
/// sleeps just now, so it holds no lock.
fn do_chores() {
    if let Some(chores) = simulated(Kernel::due_chores).flatten() {
        chores.look();
    }
    if simulated(|kernel| kernel.begin_takeover()) == Some(true)
        && let Some(kernel) = pause()
    {
        // SAFETY: this thread has the word, and its calls do not go to the kernel just now.
        unsafe {
            crate::rival::give_word(kernel);
            enter(kernel);
        }
    }
}

/// Sends on a bound socket.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, data: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe { sendto(fd, data, len, flags, std::ptr::null(), 0) }
}

/// Receives on a bound socket.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, data: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe { recvfrom(fd, data, len, flags, std::ptr::null_mut(), std::ptr::null_mut()) }
}

/// Maps memory. That of the simulated kernel is memory of the machine that both sides write to.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    match simulated(|kernel| kernel.map(at, len, flags, fd, offset)).flatten() {
        Some(value) => returned(value) as *mut c_void,
        // SAFETY: as the caller promises.
        None => unsafe { map_of_machine(at, len, protection, flags, fd, offset) },
    }
}

/// Memory of the machine.
///
/// # Safety
/// As `mmap` demands.
pub unsafe fn map_of_machine(
    at: *mut c_void,
    len: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    let a = [at as usize, len, protection as usize, flags as usize, fd as usize, offset as usize];
    // SAFETY: as the caller promises.
    unsafe { machine(libc::SYS_mmap, a) as *mut c_void }
}

/// Gives memory of the machine back.
///
/// # Safety
/// As `munmap` demands.
pub unsafe fn unmap_of_machine(at: *mut c_void, len: size_t) {
    // SAFETY: as the caller promises.
    unsafe { machine(libc::SYS_munmap, arguments(&[at as usize, len])) };
}

/// Any call by its number: libbpf makes its own so.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    match simulated(|kernel| kernel.by_number(number, [a, b, c, d, e, f])).flatten() {
        Some(value) => returned(value),
        // SAFETY: as the caller promises.
        None => unsafe { machine(number, [a, b, c, d, e, f]) },
    }
}

/// Requests about a descriptor.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    match simulated(|kernel| kernel.fcntl(fd, command)).flatten() {
        Some(value) => returned(value) as c_int,
        // SAFETY: as the caller promises.
        None => unsafe {
            machine(libc::SYS_fcntl, arguments(&[fd as usize, command as usize, argument])) as c_int
        },
    }
}

/// The same, by the name that programs for large files use.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { fcntl(fd, command, argument) }
}

/// The function of this name in the C library.
pub(crate) fn of_library(name: &CStr) -> *mut c_void {
    // SAFETY: a terminated name.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Index of an interface.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_nametoindex(name: *const c_char) -> c_uint {
    // SAFETY: the caller gives a terminated name.
    let text = unsafe { CStr::from_ptr(name) };
    match simulated(|kernel| kernel.index_of(&text.to_string_lossy())) {
        Some(index) => index.unwrap_or_else(|| {
            set_errno(libc::ENODEV);
            0
        }),
        None => {
            type Function = unsafe extern "C" fn(*const c_char) -> c_uint;
            // SAFETY: the library's function has this type.
            unsafe { std::mem::transmute::<*mut c_void, Function>(of_library(c"if_nametoindex"))(name) }
        }
    }
}

/// Name of an interface.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_indextoname(index: c_uint, to: *mut c_char) -> *mut c_char {
    match simulated(|kernel| kernel.name_of(index)) {
        Some(None) => {
            set_errno(libc::ENXIO);
            std::ptr::null_mut()
        }
        Some(Some(name)) => {
            // SAFETY: the caller's buffer has room for `IFNAMSIZ` bytes, and names here are shorter.
            unsafe {
                std::ptr::copy_nonoverlapping(name.as_ptr().cast(), to, name.len());
                *to.add(name.len()) = 0;
            }
            to
        }
        None => {
            type Function = unsafe extern "C" fn(c_uint, *mut c_char) -> *mut c_char;
            // SAFETY: the library's function has this type.
            unsafe { std::mem::transmute::<*mut c_void, Function>(of_library(c"if_indextoname"))(index, to) }
        }
    }
}

/// All interfaces; none are listed for those that simulate, who name theirs.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn if_nameindex() -> *mut libc::if_nameindex {
    if simulated(|_| ()).is_some() {
        return std::ptr::null_mut();
    }
    type Function = unsafe extern "C" fn() -> *mut libc::if_nameindex;
    // SAFETY: the library's function has this type.
    unsafe { std::mem::transmute::<*mut c_void, Function>(of_library(c"if_nameindex"))() }
}

/// All addresses; simulated interfaces have none.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getifaddrs(to: *mut *mut libc::ifaddrs) -> c_int {
    if simulated(|_| ()).is_some() {
        // SAFETY: the caller gives a place.
        unsafe { *to = std::ptr::null_mut() };
        return 0;
    }
    type Function = unsafe extern "C" fn(*mut *mut libc::ifaddrs) -> c_int;
    // SAFETY: the library's function has this type.
    unsafe { std::mem::transmute::<*mut c_void, Function>(of_library(c"getifaddrs"))(to) }
}
