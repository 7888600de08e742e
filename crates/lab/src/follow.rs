//! Who follows a run: is told what is new, and may ask its packet loops for changes.

use std::ops::ControlFlow;
use std::time::Duration;
use weir_dataplane::Handle;
use weir_measure::result::{LinkSample, Progress};

/// A packet loop of a run.
pub struct Playing<'a> {
    /// The way to it.
    pub handle: &'a mut Handle,
    /// Names of the links that its directions play; none for a way that is only delayed.
    pub names: [Option<&'a str>; 2],
    /// Samples of its directions since the last time, where they are told.
    pub samples: [&'a [LinkSample]; 2],
}

/// Who follows a run.
pub trait Follow {
    /// Lets so much time pass, during which the loops may be asked for changes; no samples are told.
    fn pass(&mut self, time: Duration, loops: &mut [Playing<'_>]);

    /// Is told what is new, and says whether the run goes on.
    fn look(&mut self, progress: Progress<'_>, loops: &mut [Playing<'_>]) -> ControlFlow<()>;
}

/// Who only looks.
pub struct Looking<F: FnMut(Progress<'_>) -> ControlFlow<()>>(pub F);

impl<F: FnMut(Progress<'_>) -> ControlFlow<()>> Follow for Looking<F> {
    fn pass(&mut self, time: Duration, _: &mut [Playing<'_>]) {
        std::thread::sleep(time);
    }

    fn look(&mut self, progress: Progress<'_>, _: &mut [Playing<'_>]) -> ControlFlow<()> {
        (self.0)(progress)
    }
}
