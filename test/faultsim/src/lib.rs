//! Fault simulation: the packet loop as it is, over a simulated kernel, in virtual time, from one seed.
//!
//! A [`plan::Plan`] is made from a seed: two ports, two directions, flows, and faults with their times. It is
//! run by [`life::run`]: the code of `weir run` makes its system calls, which go to a simulated [`kernel`]
//! (see `calls`), and after each of them everything that can be checked is checked. A plan that fails is made
//! smaller by [`campaign`], and says what happened step by step.

pub mod calls;
pub mod campaign;
mod dice;
pub mod faults;
mod files;
pub mod kernel;
pub mod life;
pub mod outside;
pub mod plan;
pub mod rival;
pub mod user;

/// Lets the libraries keep what they find out once in a process, so that each run after it makes the same
/// calls. Memory that a run gives back stays with the process for the next one.
pub fn warm_up() {
    /// `M_ARENA_MAX` of the C library: one, for all threads.
    const ARENAS_MAX: libc::c_int = -8;
    for (option, value) in [(ARENAS_MAX, 1), (libc::M_MMAP_MAX, 0), (libc::M_TRIM_THRESHOLD, 1 << 30)] {
        // SAFETY: it takes plain numbers; where one is refused, runs take longer.
        unsafe { libc::mallopt(option, value) };
    }
    let mut plan = plan::Plan::of(0);
    plan.faults.clear();
    plan.kills.clear();
    plan.mode = None;
    life::run(&plan, false);
}
