//! The clock of the host.

use weir_units::Time;

/// The clock that link times are on; BPF's `bpf_ktime_get_ns` reads the same.
pub fn clock() -> Time {
    // SAFETY: all-zero is a valid value of this plain struct, which the call fills.
    let t = unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t);
        t
    };
    Time::from_nanos(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}
