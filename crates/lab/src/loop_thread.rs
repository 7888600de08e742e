//! A packet loop on a thread of its own.

use crate::error::{Error, Result};
use crate::netns::in_netns;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use weir_dataplane::{Handle, Loop, Outcome, RunClock, Setup};

fn from_dataplane(error: weir_dataplane::Error) -> Error {
    Error::Dataplane(error.to_string())
}

/// A packet loop on a thread of its own in a namespace. Dropping it stops the loop.
pub(crate) struct LoopThread {
    handle: Handle,
    messages: Vec<String>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Outcome>>>,
}

impl LoopThread {
    /// Opens the loop in a namespace and starts it.
    pub fn start(namespace: &str, setup: Setup) -> Result<LoopThread> {
        let stop = Arc::new(AtomicBool::new(false));
        let (namespace, stopped) = (namespace.to_string(), stop.clone());
        let (opened, opening) = mpsc::channel();
        let body = move || {
            in_netns(&namespace, || {
                let (looping, handle) = Loop::open(setup).map_err(from_dataplane)?;
                let messages = looping.said().to_vec();
                // If nobody waits any more, the loop is not wanted either.
                if opened.send((handle, messages)).is_err() {
                    stopped.store(true, Ordering::Relaxed);
                }
                looping.run(&stopped).map_err(from_dataplane)
            })?
        };
        let thread = std::thread::Builder::new()
            .name("weir-loop".into())
            .spawn(body)
            .map_err(|e| Error::system("start the packet loop's thread", e))?;
        match opening.recv() {
            Ok((handle, messages)) => Ok(LoopThread { handle, messages, stop, thread: Some(thread) }),
            Err(_) => Err(join(thread).err().unwrap_or_else(ended_early)),
        }
    }

    /// What the loop said when it was opened.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Samples and events of the loop while it runs, and the rest of them at its end.
    pub fn handle(&mut self) -> &mut Handle {
        &mut self.handle
    }

    /// The clock of the loop's samples and events.
    pub fn clock(&self) -> RunClock {
        self.handle.clock()
    }

    /// Whether the loop has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; what came of it.
    pub fn finish(&mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or_else(|| Err(ended_early()), join)
    }
}

impl Drop for LoopThread {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn ended_early() -> Error {
    Error::Dataplane("the packet loop ended before it began".into())
}

fn join(thread: JoinHandle<Result<Outcome>>) -> Result<Outcome> {
    thread.join().unwrap_or_else(|_| Err(Error::Dataplane("the packet loop panicked".into())))
}
