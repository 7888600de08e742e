//! Where control sockets are, and which of them somebody listens on.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The folder of control sockets: that of journals, which is root's alone.
pub const FOLDER: &str = "/run/weir";
const PREFIX: &str = "control-";
const SUFFIX: &str = ".sock";

/// A socket in the file system; its name goes when it is dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl ControlSocket {
    /// Listens in a folder under the number of this process, as nobody but its owner may ask; takes away the
    /// names that killed runs left there.
    pub fn bind(folder: &Path) -> io::Result<ControlSocket> {
        let _ = running(folder);
        let path = folder.join(format!("{PREFIX}{}{SUFFIX}", std::process::id()));
        // An earlier process of the same number is gone.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
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

/// The sockets in a folder that somebody listens on, by number of the process; names that nobody listens
/// behind are taken away.
pub fn running(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)?.parse().ok());
        let Some(pid) = pid else { continue };
        match UnixStream::connect(&path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&path);
            }
            // Whoever listens and is busy, or is another's, is there all the same.
            _ => found.push((pid, path)),
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_their_owners_and_dead_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("control-1.sock");
        drop(UnixListener::bind(&dead).unwrap());
        fs::write(folder.path().join("12-34.json"), "{}").unwrap();
        let socket = ControlSocket::bind(folder.path()).unwrap();
        assert_eq!(fs::metadata(socket.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!dead.exists());
        assert_eq!(running(folder.path()).unwrap(), [socket.path()]);
        drop(socket);
        assert_eq!(running(folder.path()).unwrap(), [] as [PathBuf; 0]);
        assert!(folder.path().join("12-34.json").exists());
    }
}
