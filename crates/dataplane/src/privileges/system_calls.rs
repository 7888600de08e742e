//! The system calls of a running program: of its packet loop, of what watches it, and of putting everything
//! back at the end.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// Kinds of sockets: for control and results, and to ask about interfaces; those of the rings.
const FAMILIES: [i32; 6] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];

/// Calls that are allowed whatever their arguments. The kernel keeps for each of them that it needs no look
/// at the filter.
const ALLOWED: &[libc::c_long] = &[
    // Files and descriptors: results, the journal, settings of the kernel.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_lseek,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_umask,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_brk,
    libc::SYS_memfd_create,
    // Rings, sockets, interfaces, programs on them.
    libc::SYS_ioctl,
    libc::SYS_bpf,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_socketpair,
    // Waiting, and clocks.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    // Threads, and which processor they run on; giving up more.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_set_tid_address,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    // Whether a live view may have the terminal.
    libc::SYS_getpgid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_getpriority,
    libc::SYS_prctl,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_setgroups,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    libc::SYS_getcpu,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getrandom,
    // Signals, also those that a panic raises.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
];

/// Older forms of the calls above, which libraries still make where there are any.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_getpgrp,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_chmod,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_accept,
    libc::SYS_arch_prctl,
    libc::SYS_getrlimit,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Whether there is a list for this processor.
pub fn is_filtered_here() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// Filters the calls of all threads of this process, those to come included.
pub fn filter_all_threads() -> Result<(), String> {
    filters()?.iter().try_for_each(|filter| {
        seccompiler::apply_filter_all_threads(filter).map_err(|error| error.to_string())
    })
}

/// Filters the calls of this thread, and looks whether one that is not in the list is refused.
pub fn rehearse() -> Result<(), String> {
    filters()?
        .iter()
        .try_for_each(|filter| seccompiler::apply_filter(filter).map_err(|error| error.to_string()))?;
    // SAFETY: changes nothing: the directory is the one that is already the root, and the call is refused.
    match unsafe { libc::chroot(c"/".as_ptr()) } {
        -1 if std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) => Ok(()),
        _ => Err("a call that is not in the list was made all the same".into()),
    }
}

/// The filters, of which the strictest counts.
fn filters() -> Result<[BpfProgram; 2], String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("there is no list of system calls for {}", std::env::consts::ARCH))?;
    let text = |error: seccompiler::BackendError| error.to_string();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(OLDER).map(|call| (*call, Vec::new())).collect();
    let equal = |argument, value, op| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    };
    let families = FAMILIES.iter().map(|family| equal(0, *family as u64, SeccompCmpOp::Eq));
    rules.insert(libc::SYS_socket, families.collect::<Result<_, _>>().map_err(text)?);
    // Threads, and no processes.
    let thread = libc::CLONE_THREAD as u64;
    let is_thread = equal(0, thread, SeccompCmpOp::MaskedEq(thread)).map_err(text)?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    // The next filter answers it.
    rules.insert(libc::SYS_clone3, Vec::new());
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let list = SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch).map_err(text)?;
    // A filter cannot look at what clone3 is to make; the C library falls back to clone where the kernel does
    // not know it.
    let unknown = SeccompAction::Errno(libc::ENOSYS as u32);
    let clone3 = [(libc::SYS_clone3, Vec::new())].into_iter().collect();
    let clone3 = SeccompFilter::new(clone3, SeccompAction::Allow, unknown, arch).map_err(text)?;
    let program = |filter: SeccompFilter| BpfProgram::try_from(filter).map_err(text);
    Ok([program(clone3)?, program(list)?])
}
