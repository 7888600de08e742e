//! Keeping the end hosts' processors from halting while a run measures.
//!
//! A virtual processor that has nothing to do halts, and its host gives its time to others. When a packet
//! arrives for it, the host has to find time for it again, which on a busy one takes milliseconds: then
//! acknowledgements come in gaps and bursts that no real network has. A thread that runs only when nothing
//! else wants to (`SCHED_IDLE`) keeps the processor; whatever else becomes ready takes it at once.

use crate::error::{Error, Result};
use crate::process::set_affinity;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Processors that do not halt. They may again when this is dropped.
#[derive(Debug)]
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Keeps `cpus` from halting.
    pub fn keep(cpus: &[usize]) -> Result<Awake> {
        let mut awake = Awake { stop: Arc::default(), threads: Vec::new() };
        for &cpu in cpus {
            let stop = awake.stop.clone();
            let thread = std::thread::Builder::new()
                .name("weir-awake".into())
                .spawn(move || turn(cpu, &stop))
                .map_err(|e| Error::system("start a thread that keeps a processor awake", e))?;
            awake.threads.push(thread);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Without the scheduling class it would be in the way, elsewhere it would be of no use: then it ends.
fn turn(cpu: usize, stop: &AtomicBool) {
    if set_affinity(&[cpu]).is_err() || !yield_to_all() {
        return;
    }
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn yield_to_all() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: valid parameters; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Time that this program has used, in ticks of a hundredth of a second.
    fn used() -> u64 {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    #[test]
    fn a_processor_is_kept_until_the_end_and_no_longer() {
        let cpu = crate::host::cpus().allowed[0];
        let before = used();
        let awake = Awake::keep(&[cpu]).unwrap();
        let patience = Instant::now() + Duration::from_secs(120);
        // Other tests may want the processor, and come first.
        while used() < before + 5 {
            assert!(Instant::now() < patience, "nobody kept the processor");
            std::thread::sleep(Duration::from_millis(20));
        }
        let stop = awake.stop.clone();
        drop(awake);
        assert_eq!(Arc::strong_count(&stop), 1, "a thread still turns");
    }

    #[test]
    fn a_processor_that_is_not_there_is_nobodys_trouble() {
        drop(Awake::keep(&[1_000_000]).unwrap());
    }
}
