//! Files that are whole or not there.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file could not be written; nothing was left behind in its place. A device or a pipe may have got a part.
#[derive(Debug)]
pub struct WriteError {
    /// The file that was asked for, or the one that a link names.
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
    write_as(path.as_ref(), bytes.as_ref(), None)
}

/// Writes `bytes` to a path that a user chose, as [`write_atomic`] does where a file is there or nothing.
///
/// A file that is there keeps its mode, without set-user-id and set-group-id, and its owner and group as far
/// as this process may give them. Of a symbolic link the file is written that it names, and the link stays;
/// one that names nothing is an error. A device or a pipe gets the bytes and stays, too: a pipe is waited for
/// until somebody reads it.
///
/// # Errors
///
/// If the folder is not there, the path is a folder or a link that names no file, or it cannot be written.
pub fn write_chosen(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
    let (path, bytes) = (path.as_ref(), bytes.as_ref());
    let fail = |step| move |source| WriteError { path: path.to_path_buf(), step, source };
    match fs::metadata(path) {
        Ok(there) if there.is_file() && path.is_symlink() => {
            let file = path.canonicalize().map_err(fail("following the link"))?;
            write_as(&file, bytes, Some(&there))
        }
        Ok(there) if there.is_file() => write_as(path, bytes, Some(&there)),
        Ok(there) if there.is_dir() => {
            let source = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name a file");
            Err(fail("opening it")(source))
        }
        Ok(_) => {
            let file = OpenOptions::new().write(true).open(path).map_err(fail("opening it"))?;
            (&file).write_all(bytes).map_err(fail("writing the bytes"))
        }
        Err(error) if path.is_symlink() => {
            let source = match error.kind() {
                io::ErrorKind::NotFound => {
                    io::Error::new(io::ErrorKind::AlreadyExists, "the link names no file")
                }
                _ => error,
            };
            Err(fail("following the link")(source))
        }
        Err(_) => write_as(path, bytes, None),
    }
}

/// As [`write_atomic`], with the mode and the owner of an old file, if there is one.
fn write_as(path: &Path, bytes: &[u8], old: Option<&Metadata>) -> Result<(), WriteError> {
    let fail = |step| move |source| WriteError { path: path.to_path_buf(), step, source };
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path does not name a file");
    path.file_name().ok_or_else(no_name).map_err(fail("reading the name"))?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let (temporary, file) =
        Temporary::create(folder).map_err(fail("creating a temporary file in its folder"))?;
    if let Some(old) = old {
        take_after(&file, old).map_err(fail("giving it the mode of the old file"))?;
    }
    fill(file, bytes).map_err(fail("writing the bytes"))?;
    temporary.rename(path).map_err(fail("renaming the temporary file"))?;
    sync_folder(folder);
    Ok(())
}

/// Gives a file owner, group and mode of another one.
#[cfg(unix)]
fn take_after(file: &File, old: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    // Who is not root may give its files to nobody else, and to groups of its own alone.
    if fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        let _ = fchown(file, None, Some(old.gid()));
    }
    const SET_ID: u32 = 0o6000;
    file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777 & !SET_ID))
}

/// Gives a file the mode of another one.
#[cfg(not(unix))]
fn take_after(file: &File, old: &Metadata) -> io::Result<()> {
    file.set_permissions(old.permissions())
}

/// Reads a file that was written here. Anything else under its name, as a FIFO that nobody writes to, is an
/// error of kind [`io::ErrorKind::InvalidInput`] instead of waited for.
pub fn read_regular(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    fs::read(path)
}

/// A rename is durable only once its folder is. Some file systems refuse to sync folders, and files are whole
/// either way, so that a refusal is no error.
pub(crate) fn sync_folder(folder: &Path) {
    let _ = File::open(folder).and_then(|f| f.sync_all());
}

fn fill(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// A file under a name of its own, which goes away unless it gets another one.
#[derive(Debug)]
pub(crate) struct Temporary(PathBuf);

/// What stands before and after the numbers in the names of temporary files.
const BEFORE: &str = ".weir-";
const AFTER: &str = ".tmp";

impl Temporary {
    /// A new file. Names are short so that the longest allowed name can be written too.
    pub fn create(folder: &Path) -> io::Result<(Temporary, File)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        const MAX_ATTEMPTS: u32 = 100;
        let mut attempt = 0;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{BEFORE}{}-{number}{AFTER}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                // A crashed process with our number may have left its file.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => attempt += 1,
                other => return other.map(|file| (Temporary(path), file)),
            }
        }
    }

    /// Gives it its name.
    pub fn rename(&self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)
    }

    /// The process that made the file of this name, if it is one of these.
    pub fn owner(name: &str) -> Option<u32> {
        let numbers = name.strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
        let (process, number) = numbers.split_once('-')?;
        number.parse::<u32>().ok()?;
        process.parse().ok()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename nothing has this name; a leftover is the lesser evil.
        let _ = fs::remove_file(&self.0);
    }
}
