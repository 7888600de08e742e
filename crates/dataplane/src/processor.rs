//! A processor for the packet loop, as far as the system grants one.
//!
//! The loop turns all the time. The kernel takes the core away from a real-time thread that does so for
//! 50 ms in each second (`sched_rt_runtime_us`, or the fair server since Linux 6.8) as soon as anything else
//! waits for that core. The loop therefore naps by itself, for less time than a packet notices, so that
//! nothing on its core ever starves.

use weir_units::{Duration, Time};

const FIFO_PRIORITY: i32 = 50;
/// A nap of this length in each period gives other threads more than the 5 % the kernel would take.
const NAP: Duration = Duration::from_micros(70);
const NAP_PERIOD: Duration = Duration::from_millis(1);

/// What was granted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    /// A real-time scheduling class.
    pub realtime: bool,
    /// The core asked for.
    pub core: bool,
    nap_due: Time,
}

impl Claim {
    /// Moves this thread to a core and to a real-time class, where it may.
    pub fn make(core: Option<usize>, realtime: bool) -> Claim {
        let core = core.is_some_and(stay_on);
        let parameters = libc::sched_param { sched_priority: FIFO_PRIORITY };
        // SAFETY: the pointer is to a valid parameter block.
        let realtime = realtime && unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0 };
        Claim { realtime, core, nap_due: Time::ZERO }
    }

    /// To be called when there is nothing to do: naps if one is due.
    pub fn idle(&mut self, now: Time) {
        if !self.realtime || now < self.nap_due {
            return std::hint::spin_loop();
        }
        self.nap_due = now + NAP_PERIOD;
        let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as libc::c_long };
        // SAFETY: the pointer is to a valid time; the rest of an interrupted nap is not wanted.
        unsafe { libc::nanosleep(&nap, std::ptr::null_mut()) };
    }
}

fn stay_on(core: usize) -> bool {
    if core >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: all-zero is an empty set; the index was checked.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set) == 0
    }
}
