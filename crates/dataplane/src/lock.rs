//! Files that are locked (flock(2)).

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A file whose lock, if it has one, ends with this value.
///
/// The end of a [`File`] alone does not end it: a process that is being started by another thread has each
/// open file, and so its lock, until it becomes another program.
#[derive(Debug)]
pub struct LockFile(File);

impl LockFile {
    /// Opens a file to read it, or to look at its lock. Of a pipe with its name nobody waits for the other
    /// end.
    pub fn open(path: &Path) -> io::Result<LockFile> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path).map(LockFile)
    }

    /// Whether somebody else has the lock for himself.
    pub fn is_taken(&self) -> bool {
        matches!(self.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

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
