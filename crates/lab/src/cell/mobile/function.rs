//! The user-plane function: what `weir upf` runs, on threads in its namespace.

use crate::error::{Error, Result};
use crate::netns::in_netns;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_config::UpfConfig;
use weir_upf::configured::{pace, plane_setup};
use weir_upf::plane::{Pace, PlaneHandle, Remote};
use weir_upf::rules::{FlowUsage, Plane, Seid};
use weir_upf::server::Server;

/// Longest wait for datagrams of session management.
const TURN: Duration = Duration::from_millis(20);
/// Secret of the hashes: nobody attacks a lab.
const SEED: u64 = 5;

/// Who asks what the queues of sessions have done.
type UsageRequest = (Vec<Seid>, mpsc::Sender<Vec<Vec<FlowUsage>>>);

/// A user-plane function at work. Dropping it ends it.
pub struct Function {
    stop: Arc<AtomicBool>,
    asks: mpsc::Sender<UsageRequest>,
    thread: Option<JoinHandle<Result<()>>>,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Dataplane(format!("the user-plane function: {error}"))
}

impl Function {
    /// Starts it in a namespace; it serves PFCP when this returns.
    pub fn start(namespace: &str, config: UpfConfig) -> Result<Function> {
        let stop = Arc::new(AtomicBool::new(false));
        let (asks, asked) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (namespace, stopped) = (namespace.to_string(), stop.clone());
        let body = move || in_netns(&namespace, move || serve(&config, &stopped, &asked, &ready))?;
        let thread = std::thread::Builder::new()
            .name("weir-upf".into())
            .spawn(body)
            .map_err(|e| Error::system("start the thread of the user-plane function", e))?;
        let mut function = Function { stop, asks, thread: Some(thread) };
        match is_ready.recv() {
            Ok(()) => Ok(function),
            Err(_) => Err(function.finish().err().unwrap_or_else(|| failed("it ended before it began"))),
        }
    }

    /// What the queues of sessions have done.
    pub fn flows(&self, sessions: &[Seid]) -> Result<Vec<Vec<FlowUsage>>> {
        let (answer, answers) = mpsc::channel();
        let gone = |_| failed("it has ended");
        self.asks.send((sessions.to_vec(), answer)).map_err(|_| failed("it has ended"))?;
        answers.recv().map_err(gone)
    }

    /// Ends it.
    pub fn finish(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(ended) => ended.unwrap_or_else(|_| Err(failed("it panicked"))),
        }
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Control on this thread and the packet loop on another, which inherits the namespace.
fn serve(
    config: &UpfConfig,
    stop: &AtomicBool,
    asked: &mpsc::Receiver<UsageRequest>,
    ready: &mpsc::Sender<()>,
) -> Result<()> {
    // The namespace goes away with everything in it.
    let pace = Pace { journal: false, ..pace(config) };
    let (looping, desk) = weir_upf::plane::open(plane_setup(config, SEED), pace).map_err(failed)?;
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| looping.run(&end));
        let served = control(config, desk, stop, asked, ready, &|| running.is_finished());
        end.store(true, Ordering::Relaxed);
        let ran = running.join().map_err(|_| failed("its packet loop panicked"))?;
        ran.map_err(failed)?;
        served
    })
}

fn control(
    config: &UpfConfig,
    desk: PlaneHandle<Remote>,
    stop: &AtomicBool,
    asked: &mpsc::Receiver<UsageRequest>,
    ready: &mpsc::Sender<()>,
    has_ended: &dyn Fn() -> bool,
) -> Result<()> {
    let mut server = Server::open(config, desk).map_err(failed)?;
    // If nobody waits any more, `stop` is set.
    let _ = ready.send(());
    while !stop.load(Ordering::Relaxed) && !has_ended() {
        server.turn(TURN).map_err(failed)?;
        for (sessions, answer) in asked.try_iter() {
            let plane = server.control().plane();
            let _ = answer.send(sessions.into_iter().map(|seid| plane.flows(seid)).collect());
        }
    }
    Ok(())
}
