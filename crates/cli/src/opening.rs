//! Opening ports takes seconds with many queues and large buffers, as the kernel keeps something of each
//! chunk for each socket: who waits is told, and a request to end is heeded.

use crate::interrupt::interrupted;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_dataplane::Progress;

/// When it is first said that it takes a while, and how often after that.
const WHILE: Duration = Duration::from_secs(1);

/// Whoever waits for ports.
pub struct Opening {
    begun: Instant,
    due: Duration,
    stop: Arc<AtomicBool>,
}

impl Opening {
    /// From now on; a request to end ends it.
    pub fn begin() -> Opening {
        Opening { begun: Instant::now(), due: WHILE, stop: interrupted() }
    }

    /// Before each step: says how far it has come if it takes a while. Whether it is to go on.
    pub fn step(&mut self, at: Progress<'_>, say: impl FnOnce(String)) -> bool {
        let took = self.begun.elapsed();
        if took >= self.due {
            self.due = took + WHILE;
            let Progress { port, queue, queues } = at;
            say(format!(
                "opening {port}: {queue} of {queues} receive queues after {:.0} s; the kernel prepares each chunk of memory \
                 for each of them. Ctrl-C ends it",
                took.as_secs_f64()
            ));
        }
        !self.stop.load(Ordering::Relaxed)
    }
}
