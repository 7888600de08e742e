//! Files that are whole or not there.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file could not be written; nothing was left behind in its place.
#[derive(Debug)]
pub struct WriteError {
    /// The file that was asked for.
    pub path: PathBuf,
    /// What was being done.
    pub step: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: {}: {}", self.path.display(), self.step, self.source)?;
        if self.source.kind() == io::ErrorKind::NotFound {
            write!(f, " (does the folder exist?)")?;
        }
        Ok(())
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Writes `bytes` to `path` so that a reader sees the old file or the whole new one, never a part.
///
/// The bytes go to a temporary file in the same folder, are forced to the disk, and are then renamed over
/// `path`. The folder must exist.
pub fn write_atomic(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
    let path = path.as_ref();
    let fail = |step| move |source| WriteError { path: path.to_path_buf(), step, source };
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path does not name a file");
    path.file_name().ok_or_else(no_name).map_err(fail("reading the name"))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (temporary, file) =
        create_temporary(folder).map_err(fail("creating a temporary file in its folder"))?;
    let written = fill(file, bytes.as_ref())
        .map_err(fail("writing the bytes"))
        .and_then(|()| fs::rename(&temporary, path).map_err(fail("renaming the temporary file")));
    if written.is_err() {
        // The first error is the one to tell; a leftover temporary file is the lesser evil.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    // The rename itself is durable only once the folder is. Some file systems refuse to sync folders, and
    // the file is whole either way, so a refusal is not an error.
    let _ = File::open(folder).and_then(|f| f.sync_all());
    Ok(())
}

fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// A new file with a name of its own. Names are short so that the longest allowed name can be written too.
fn create_temporary(folder: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const MAX_ATTEMPTS: u32 = 100;
    let mut attempt = 0;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!(".weir-{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            // A crashed process with our number may have left its file.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => attempt += 1,
            other => return other.map(|file| (path, file)),
        }
    }
}
