//! Opening ports takes seconds with many queues and large buffers, as the kernel keeps something of each
//! chunk for each socket, and one program does it at a time: who waits is told, and a request to end is
//! heeded.

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
            let s = took.as_secs();
            say(match at {
                Progress::Waiting => {
                    format!("waiting for {s} s for another program that opens its ports. Ctrl-C ends it")
                }
                Progress::Opening { port, queue, queues } => format!(
                    "opening {port}: {queue} of {queues} receive queues after {s} s; the kernel prepares each chunk of memory for \
                     each of them. Ctrl-C ends it"
                ),
            });
        }
        !self.stop.load(Ordering::Relaxed)
    }
}
