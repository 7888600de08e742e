//! Where whoever runs the program tells how it stands.

use crate::alarms::{Alarms, Limits};
use crate::customers::Customers;
use crate::model::{AlarmStatus, Configuration, Status};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What can be looked at: written by whoever runs the program, as often as it likes.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Shown>>);

#[derive(Debug, Default)]
struct Shown {
    status: Status,
    configuration: Configuration,
    customers: Customers,
    alarms: Alarms,
    /// Alarms that were raised or cleared since somebody asked.
    alarmed: Vec<AlarmStatus>,
    /// When the status was written.
    at: Option<Instant>,
    /// Whether it ended in order.
    is_over: bool,
}

impl Board {
    /// Tells how the program stands.
    pub fn publish(&self, mut status: Status) {
        let mut shown = self.lock();
        let changed = shown.alarms.look(&mut status);
        shown.alarmed.extend(changed);
        (shown.status, shown.at) = (status, Some(Instant::now()));
    }

    /// Alarms that were raised or cleared by what was told since the last call, in their order.
    pub fn take_alarmed(&self) -> Vec<AlarmStatus> {
        std::mem::take(&mut self.lock().alarmed)
    }

    /// Alarms are raised and cleared by these bounds from now on.
    pub fn limit_alarms(&self, limits: Limits) {
        self.lock().alarms.limit(limits);
    }

    /// Tells the configuration in force.
    pub fn configured(&self, configuration: Configuration) {
        self.lock().configuration = configuration;
    }

    /// Tells how all customers stand.
    pub fn count(&self, customers: Customers) {
        self.lock().customers = customers;
    }

    /// All customers.
    pub(crate) fn customers(&self) -> Customers {
        self.lock().customers.clone()
    }

    /// The latest status. Time passes also where nobody writes any more.
    pub fn status(&self) -> Status {
        let shown = self.lock();
        let since = shown.at.map_or(0.0, |at| at.elapsed().as_secs_f64());
        let mut status = shown.status.clone();
        status.silent_s += since;
        status.uptime_s += since;
        status
    }

    /// Tells that it ended in order: nobody is to miss it where others go on.
    pub fn end(&self) {
        self.lock().is_over = true;
    }

    /// Whether it ended in order.
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Configuration {
        self.lock().configuration.clone()
    }

    /// There are no invariants that a panic could break.
    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
