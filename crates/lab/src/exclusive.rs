//! One measuring run at a time on a machine: two packet loops on one core measure each other.

use crate::error::{Error, Result};
use std::fs::File;
use std::path::Path;

/// Held by the run that measures; in a folder that every system has and empties at boot.
const LOCK: &str = "/run/weir-lab.lock";

/// The right to measure. Given back when dropped, also by a crash.
#[derive(Debug)]
pub struct Exclusive(#[expect(dead_code, reason = "the lock lives as long as the open file")] File);

/// Waits until no other run measures; calls `waiting` once if it has to.
pub fn exclusive(waiting: impl FnOnce()) -> Result<Exclusive> {
    let file = File::create(Path::new(LOCK)).map_err(|e| Error::system(format!("open {LOCK}"), e))?;
    match file.try_lock() {
        Ok(()) => return Ok(Exclusive(file)),
        Err(std::fs::TryLockError::WouldBlock) => waiting(),
        Err(std::fs::TryLockError::Error(e)) => return Err(Error::system(format!("lock {LOCK}"), e)),
    }
    file.lock().map_err(|e| Error::system(format!("wait for {LOCK}"), e))?;
    Ok(Exclusive(file))
}
