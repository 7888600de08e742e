//! Files of the simulated machine: the journals, in a folder of their own. Each call is a step at which the
//! process can be killed; what it did before stays.

use crate::calls;
use crate::kernel::Kernel;
use libc::{c_char, c_int, c_uint, c_void, mode_t};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where journals are, to those who run.
const JOURNALS: &[u8] = b"/run/weir";
/// Where a kernel describes its types, if it does.
const KERNEL_TYPES: &CStr = c"/sys/kernel/btf/vmlinux";
/// Folders that were made so far.
static FOLDERS: AtomicU64 = AtomicU64::new(0);

/// A folder of the machine that stands for the one of the journals.
pub struct Folder(PathBuf);

impl Folder {
    /// One that is not there yet: whoever needs it makes it.
    pub fn new() -> Folder {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = root.join(format!("weir-faultsim-{}-{number}", std::process::id()));
        // A campaign of the same number that was killed left its own, with journals in it.
        let _ = std::fs::remove_dir_all(&folder);
        Folder(folder)
    }

    /// The file of the machine that a path of the process stands for; `None` for its own.
    fn instead_of(&self, path: &CStr) -> Option<CString> {
        let rest = path.to_bytes().strip_prefix(JOURNALS)?;
        CString::new([self.0.as_os_str().as_encoded_bytes(), rest].concat()).ok()
    }

    /// Files in it, by name.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Kernel {
    /// The path to be opened, and whether the call is to fail.
    fn path(&mut self, path: *const c_char) -> Result<Option<CString>, i64> {
        // SAFETY: the process gives a terminated path.
        let path = unsafe { CStr::from_ptr(path) };
        let own = format!("/proc/{}/", self.pid());
        if let Some(rest) = path.to_bytes().strip_prefix(own.as_bytes()) {
            return match self.is_dead {
                true => Err(-i64::from(libc::ENOENT)),
                false => Ok(CString::new([b"/proc/self/", rest].concat()).ok()),
            };
        }
        if path == KERNEL_TYPES {
            let types = if self.tells_types { types() } else { None };
            return types.map(Some).ok_or(-i64::from(libc::ENOENT));
        }
        let Some(instead) = self.folder.instead_of(path) else { return Ok(None) };
        match self.step() {
            // A process looks all the time whether another one asks for its ports; here nobody does.
            Ok(()) if self.rival.is_none() && path.to_bytes().ends_with(b".takeover") => {
                Err(-i64::from(libc::ENOENT))
            }
            Ok(()) => Ok(Some(instead)),
            Err(_) => Err(-i64::from(libc::EIO)),
        }
    }
}

/// A file of the machine with the types of a kernel: those that the programs ask for, in the BPF type
/// format. A kernel's own has 150 000, which take longer to read than the rest of a run, and are not the
/// same everywhere.
fn types() -> Option<CString> {
    static FILE: OnceLock<Option<CString>> = OnceLock::new();
    FILE.get_or_init(|| {
        const INT: u32 = 1 << 24;
        const POINTER: u32 = 2 << 24;
        const STRUCT: u32 = 4 << 24;
        const FUNCTION: u32 = 12 << 24 | 1;
        const PROTOTYPE: u32 = 13 << 24;
        let mut names = vec![0];
        let mut name = |text: &str| {
            let at = names.len() as u32;
            names.extend_from_slice(text.as_bytes());
            names.push(0);
            at
        };
        let types: Vec<u32> = [
            vec![name("int"), INT, 4, 1 << 24 | 32],
            vec![name("xdp_md"), STRUCT, 24],
            vec![0, POINTER, 2],
            vec![name("unsigned short"), INT, 2, 16],
            vec![0, POINTER, 4],
            vec![0, PROTOTYPE | 3, 1, 0, 3, 0, 5, 0, 5],
            vec![name("bpf_xdp_metadata_rx_vlan_tag"), FUNCTION, 6],
        ]
        .concat();
        let (types_len, names_len) = (4 * types.len() as u32, names.len() as u32);
        let head = [0x0001_eb9f, 24, 0, types_len, types_len, names_len];
        let words = head.iter().chain(&types).flat_map(|word| word.to_le_bytes());
        let octets: Vec<u8> = words.chain(names).collect();
        // SAFETY: a terminated name; the descriptor stays open for as long as the program runs.
        let fd = unsafe { libc::memfd_create(c"kernel-types".as_ptr(), libc::MFD_CLOEXEC) };
        // SAFETY: as above, and the pointer and length are those of the octets.
        let written = unsafe {
            calls::machine(
                libc::SYS_write,
                calls::arguments(&[fd as usize, octets.as_ptr() as usize, octets.len()]),
            )
        };
        let path = CString::new(format!("/proc/{}/fd/{fd}", std::process::id())).ok();
        path.filter(|_| written == octets.len() as i64)
    })
    .clone()
}

/// A path for the machine, or the error that the simulated kernel gives.
fn path_for_machine(path: *const c_char) -> Result<Option<CString>, i64> {
    calls::simulated(|kernel| kernel.path(path)).unwrap_or(Ok(None))
}

macro_rules! with_path {
    ($($(#[$doc:meta])* fn $name:ident($path:ident $(, $arg:ident: $kind:ty)*) = $number:ident [$($given:expr),*];)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As the call demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($path: *const c_char $(, $arg: $kind)*) -> c_int {
            match path_for_machine($path) {
                Err(error) => calls::returned(error) as c_int,
                Ok(instead) => {
                    let $path = instead.as_ref().map_or($path, |path| path.as_ptr());
                    // SAFETY: as the caller promises.
                    unsafe { calls::machine(libc::$number, calls::arguments(&[$($given as usize),*])) as c_int }
                }
            }
        }
    )*};
}

with_path! {
    /// Opens a file.
    fn open64(path, flags: c_int, mode: mode_t) = SYS_openat [libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode];
    /// Makes a folder.
    fn mkdir(path, mode: mode_t) = SYS_mkdirat [libc::AT_FDCWD, path, mode];
    /// Removes a file.
    fn unlink(path) = SYS_unlinkat [libc::AT_FDCWD, path, 0];
}

/// Renames a file.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let (first, second) = match (path_for_machine(from), path_for_machine(to)) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(error), _) | (_, Err(error)) => return calls::returned(error) as c_int,
    };
    let from = first.as_ref().map_or(from, |path| path.as_ptr());
    let to = second.as_ref().map_or(to, |path| path.as_ptr());
    let here = libc::AT_FDCWD as usize;
    let a = calls::arguments(&[here, from as usize, here, to as usize, 0]);
    // SAFETY: as the caller promises.
    unsafe { calls::machine(libc::SYS_renameat2, a) as c_int }
}

/// Whether a file may be used.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    match path_for_machine(path) {
        Err(error) => calls::returned(error) as c_int,
        Ok(instead) => {
            let path = instead.as_ref().map_or(path, |path| path.as_ptr());
            let given = [folder as usize, path as usize, mode as usize, flags as usize];
            // SAFETY: as the caller promises.
            unsafe { calls::machine(libc::SYS_faccessat2, calls::arguments(&given)) as c_int }
        }
    }
}

/// What a file is.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    to: *mut c_void,
) -> c_int {
    match path_for_machine(path) {
        Err(error) => calls::returned(error) as c_int,
        Ok(instead) => {
            let path = instead.as_ref().map_or(path, |path| path.as_ptr());
            let a = calls::arguments(&[
                folder as usize,
                path as usize,
                flags as usize,
                mask as usize,
                to as usize,
            ]);
            // SAFETY: as the caller promises.
            unsafe { calls::machine(libc::SYS_statx, a) as c_int }
        }
    }
}

/// Opens a folder to list it.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut libc::DIR {
    match path_for_machine(path) {
        Err(error) => {
            calls::returned(error);
            std::ptr::null_mut()
        }
        Ok(instead) => {
            let path = instead.as_ref().map_or(path, |path| path.as_ptr());
            type Function = unsafe extern "C" fn(*const c_char) -> *mut libc::DIR;
            // SAFETY: the library's function has this type.
            unsafe { std::mem::transmute::<*mut c_void, Function>(calls::of_library(c"opendir"))(path) }
        }
    }
}

/// Writes a file through. The folder is in memory, so there is nothing to do but to be a step.
///
/// # Safety
/// As the call demands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    match calls::simulated(|kernel| kernel.step()) {
        Some(Ok(())) => 0,
        Some(Err(_)) => calls::returned(-i64::from(libc::EIO)) as c_int,
        // SAFETY: as the caller promises.
        None => unsafe { calls::machine(libc::SYS_fsync, calls::arguments(&[fd as usize])) as c_int },
    }
}
