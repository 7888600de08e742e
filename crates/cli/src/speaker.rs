//! Lines that are said while something else must go on, whether or not anybody reads them.

use crate::log::Entry;
use crate::output::Output;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Most lines in a second, so that a peer that is refused all the time does not fill a log.
const LINES_MAX: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);
/// Lines that nobody has read yet; more are left out.
const WAITING_MAX: usize = 2 * LINES_MAX as usize;
/// How long a reader is waited for at the end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Says lines in a thread of its own.
pub struct Speaker {
    lines: Option<SyncSender<Entry>>,
    output: Output,
    done: Receiver<()>,
    since: Instant,
    said: u32,
    left_out: u64,
}

impl Speaker {
    /// Says nothing yet.
    pub fn new(output: Output) -> Speaker {
        let (lines, waiting) = sync_channel::<Entry>(WAITING_MAX);
        let (over, done) = sync_channel(1);
        std::thread::spawn(move || {
            waiting.iter().for_each(|entry| output.tell(&entry));
            let _ = over.send(());
        });
        Speaker { lines: Some(lines), output, done, since: Instant::now(), said: 0, left_out: 0 }
    }

    /// Says a line soon, unless there are too many. What is left out is told once lines pass again.
    pub fn say(&mut self, entry: Entry) {
        // What the level leaves out takes no place of what it tells.
        if !self.output.wants(&entry) {
            return;
        }
        if self.since.elapsed() >= SECOND {
            (self.since, self.said) = (Instant::now(), 0);
            if self.left_out > 0 && self.pass(left_out(self.left_out)) {
                self.left_out = 0;
            }
        }
        if self.said >= LINES_MAX || !self.pass(entry) {
            self.left_out += 1;
        }
    }

    /// Whether the line is on its way.
    fn pass(&mut self, entry: Entry) -> bool {
        let Some(lines) = &self.lines else { return false };
        let is_taken = !matches!(lines.try_send(entry), Err(TrySendError::Full(_)));
        self.said += u32::from(is_taken);
        is_taken
    }
}

fn left_out(lines: u64) -> Entry {
    Entry::warn("left_out", format!("{lines} lines were left out")).with("lines", lines)
}

impl Drop for Speaker {
    /// What was said comes before what follows, if somebody reads.
    fn drop(&mut self) {
        if self.left_out > 0 {
            self.pass(left_out(self.left_out));
        }
        self.lines = None;
        let _ = self.done.recv_timeout(PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Level;

    #[test]
    fn a_flood_of_lines_is_cut_and_counted() {
        let mut speaker = Speaker::new(Output::new(true));
        (0..1000).for_each(|n| speaker.say(Entry::info("note", format!("line {n}"))));
        assert!((900..=1000).contains(&(speaker.left_out + 100)), "{}", speaker.left_out);
    }

    #[test]
    fn what_the_level_leaves_out_takes_no_place() {
        let mut speaker = Speaker::new(Output::new(true).logging(Some(Level::Error)));
        (0..1000).for_each(|n| speaker.say(Entry::warn("note", format!("line {n}"))));
        assert_eq!((speaker.said, speaker.left_out), (0, 0));
    }

    #[test]
    fn nobody_is_waited_for_while_it_goes_on() {
        let (lines, unread) = sync_channel(3);
        let (_over, done) = sync_channel(1);
        let output = Output::new(false);
        let mut speaker =
            Speaker { lines: Some(lines), output, done, since: Instant::now(), said: 0, left_out: 0 };
        (0..10).for_each(|n| speaker.say(Entry::info("note", format!("line {n}"))));
        assert_eq!((speaker.said, speaker.left_out), (3, 7));
        drop(unread);
    }
}
