//! Files that are locked (flock(2)).

use std::fs::File;
use std::ops::{Deref, DerefMut};

/// A file whose lock, if it has one, ends with this value.
///
/// The end of a [`File`] alone does not end it: a process that is being started by another thread has each
/// open file, and so its lock, until it becomes another program.
#[derive(Debug)]
pub struct LockFile(File);

impl From<File> for LockFile {
    fn from(file: File) -> LockFile {
        LockFile(file)
    }
}

impl Deref for LockFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Of a file that was not locked this does nothing.
        let _ = self.0.unlock();
    }
}
