//! Where control sockets are, and which of them somebody listens on.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The folder of control sockets: that of journals, which is root's alone.
pub const FOLDER: &str = "/run/weir";
const PREFIX: &str = "control-";
const SUFFIX: &str = ".sock";
/// The end of the name of one that nobody may ask yet.
const UNBORN: &str = "new";

/// A socket in the file system; its name goes when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl ControlSocket {
    /// Listens in a folder under the number of this process, as nobody but its owner may ask; takes away the
    /// names that killed runs left there. Of several links of a process each listens for itself: `link`
    /// counts them, from zero, and all but the first have their number in the name, from two. A name that a
    /// running program has is passed over for the next one: programs in several containers that share the
    /// folder may have the same process number.
    pub fn bind(folder: &Path, link: usize) -> io::Result<ControlSocket> {
        // One program at a time chooses a name. A file system without locks is no reason to have no socket.
        let alone = fs::File::open(folder)?;
        let _ = alone.lock();
        let _ = running(folder);
        let path = free_name(folder, link);
        // Between its two steps, to bind and to listen, it seems to be one that nobody listens behind: until
        // then it has a name that nobody looks for.
        let unborn = path.with_extension(UNBORN);
        let _ = fs::remove_file(&unborn);
        let listener = UnixListener::bind(&unborn)?;
        let named = fs::set_permissions(&unborn, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&unborn, &path));
        if let Err(error) = named {
            let _ = fs::remove_file(&unborn);
            return Err(error);
        }
        Ok(ControlSocket { path, listener: Some(listener) })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its listening end, once.
    pub fn take(&mut self) -> Option<UnixListener> {
        self.listener.take()
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The first name in a folder that nobody has, from that of this link on.
fn free_name(folder: &Path, mut link: usize) -> PathBuf {
    loop {
        let number = if link == 0 { String::new() } else { format!("-{}", link + 1) };
        let path = folder.join(format!("{PREFIX}{}{number}{SUFFIX}", std::process::id()));
        if fs::symlink_metadata(&path).is_err() {
            return path;
        }
        link += 1;
    }
}

/// The sockets in a folder that somebody listens on, by number of the process and of its links; names that
/// nobody listens behind are taken away.
pub fn running(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<((u32, u32), PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let numbers = name.strip_prefix(PREFIX).and_then(|rest| numbers(rest.strip_suffix(SUFFIX)?));
        let Some(numbers) = numbers else { continue };
        match UnixStream::connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                // Whatever else has such a name is nobody's to ask, and not ours to remove.
                if fs::symlink_metadata(&path).is_ok_and(|about| about.file_type().is_socket()) {
                    let _ = fs::remove_file(&path);
                }
            }
            // Whoever listens and is busy, or is another's, is there all the same.
            _ => found.push((numbers, path)),
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Of the process, and of its link.
fn numbers(text: &str) -> Option<(u32, u32)> {
    match text.split_once('-') {
        Some((pid, link)) => Some((pid.parse().ok()?, link.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn sockets_are_their_owners_and_dead_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("control-1.sock");
        drop(UnixListener::bind(&dead).unwrap());
        let plain = folder.path().join("control-2.sock");
        fs::write(&plain, "mine").unwrap();
        fs::write(folder.path().join("12-34.json"), "{}").unwrap();
        let tenth = ControlSocket::bind(folder.path(), 9).unwrap();
        let third = ControlSocket::bind(folder.path(), 2).unwrap();
        let socket = ControlSocket::bind(folder.path(), 0).unwrap();
        assert_eq!(fs::metadata(socket.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!dead.exists());
        let of_links = [socket.path(), third.path(), tenth.path()];
        assert!(third.path().ends_with(format!("control-{}-3.sock", std::process::id())));
        assert_eq!(running(folder.path()).unwrap(), of_links);
        drop((socket, third, tenth));
        assert_eq!(running(folder.path()).unwrap(), [] as [PathBuf; 0]);
        assert!(folder.path().join("12-34.json").exists());
    }

    #[test]
    fn a_name_that_a_running_program_has_is_left_to_it() {
        let folder = tempfile::tempdir().unwrap();
        // As in two containers, in which both programs have the same number.
        let first = ControlSocket::bind(folder.path(), 0).unwrap();
        let second = ControlSocket::bind(folder.path(), 0).unwrap();
        let third = ControlSocket::bind(folder.path(), 1).unwrap();
        assert!(second.path().ends_with(format!("control-{}-2.sock", std::process::id())));
        assert_eq!(running(folder.path()).unwrap(), [first.path(), second.path(), third.path()]);
        drop((second, third));
        assert_eq!(running(folder.path()).unwrap(), [first.path()]);
        drop(first);
        let again = ControlSocket::bind(folder.path(), 0).unwrap();
        assert!(again.path().ends_with(format!("control-{}.sock", std::process::id())));
    }

    #[test]
    fn nobody_who_looks_takes_away_what_is_about_to_listen() {
        let folder = tempfile::tempdir().unwrap();
        let (path, done) = (folder.path().to_path_buf(), std::sync::Arc::new(AtomicBool::new(false)));
        let is_done = done.clone();
        let looking = std::thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                running(&path).unwrap();
            }
        });
        for _ in 0..2000 {
            let socket = ControlSocket::bind(folder.path(), 0).unwrap();
            assert!(UnixStream::connect(socket.path()).is_ok());
        }
        done.store(true, Ordering::Relaxed);
        looking.join().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
