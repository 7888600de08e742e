//! What a link would do: somebody asks, and whoever runs the program computes it, on a thread that has only
//! what nobody else wants of the processors.

use crate::answers::{Answer, json, refuse};
use crate::model::{Configuration, Forecast, Refused, WhatIf};
use hyper::StatusCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// Computes what a link would do. It looks at the flag often, and ends when that is set: nobody waits any
/// more.
pub type Simulate =
    Arc<dyn Fn(&WhatIf, &Configuration, &AtomicBool) -> Result<Forecast, Refused> + Send + Sync>;

/// Who computes, one question at a time.
#[derive(Clone)]
pub(crate) struct Simulator {
    simulate: Simulate,
    is_busy: Arc<AtomicBool>,
}

/// Sets a flag when it is dropped: whoever asked has gone.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Gives the place free when it is dropped.
struct Busy(Arc<AtomicBool>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Leaves the processors to everybody else (SCHED_IDLE); which takes no right.
fn step_back() {
    // SAFETY: the struct is plain data, and the call reads it.
    unsafe {
        let none: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &none);
    }
}

impl Simulator {
    pub(crate) fn new(simulate: Simulate) -> Simulator {
        Simulator { simulate, is_busy: Arc::default() }
    }

    /// Has it computed, as long as whoever asked waits.
    pub(crate) async fn answer(&self, asked: WhatIf, configuration: Configuration) -> Answer {
        if self.is_busy.swap(true, Ordering::Acquire) {
            let why = "another one is computed. Remedy: ask again when it is done";
            return refuse(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        let busy = Busy(self.is_busy.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let gone = Gone(stop.clone());
        let (tell, told) = oneshot::channel();
        let simulate = self.simulate.clone();
        let compute = move || {
            // The place is free before the answer is there.
            let answer = {
                let _busy = busy;
                step_back();
                simulate(&asked, &configuration, &stop)
            };
            let _ = tell.send(answer);
        };
        if let Err(error) = std::thread::Builder::new().name("weir-what-if".into()).spawn(compute) {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, format!("there is no thread for it: {error}"));
        }
        let answer = told.await;
        drop(gone);
        match answer {
            Ok(Ok(forecast)) => json(StatusCode::OK, &forecast),
            Ok(Err((status, refusal))) => {
                json(StatusCode::from_u16(status).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY), &refusal)
            }
            Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the computation broke off"),
        }
    }
}
