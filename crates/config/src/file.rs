//! Reading files that people name: never more than is allowed, and never waiting for what may not come.

use crate::errors::Wrong;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Reads a regular file, at most `most` bytes and one more, which tells a file that is too large from one
/// that just fits. Anything else is refused: a pipe or a terminal would wait for somebody to write, and a
/// device may never end.
pub(crate) fn read(path: &Path, most: usize) -> Result<Vec<u8>, Wrong> {
    let unreadable = |e: io::Error| Wrong::new(format!("cannot be read: {e}"), "check the path");
    // Of what is no regular file the name is known before it is opened; opening can act on a device. A look
    // at what was opened guards against an exchange in between.
    check(std::fs::metadata(path).map_err(unreadable)?.file_type())?;
    let file = open(path).map_err(unreadable)?;
    check(file.metadata().map_err(unreadable)?.file_type())?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Opens without waiting, where the system can: what was a file a moment ago may be a pipe now.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

fn check(kind: FileType) -> Result<(), Wrong> {
    if kind.is_file() {
        return Ok(());
    }
    let problem = format!("is {}, not a regular file", name(kind));
    let remedy = if kind.is_dir() { "name a file in it" } else { "save the content to a file and name that" };
    Err(Wrong::new(problem, remedy))
}

#[cfg(unix)]
fn name(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

#[cfg(not(unix))]
fn name(kind: FileType) -> &'static str {
    if kind.is_dir() { "a folder" } else { "a device" }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = std::env::temp_dir().join(format!("weir-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (pipe, socket) = (folder.join("pipe"), folder.join("socket"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let _listener = UnixListener::bind(&socket).unwrap();
        let cases = [
            (folder.as_path(), "is a folder, not a regular file"),
            (&pipe, "is a pipe, not a regular file"),
            (&socket, "is a socket, not a regular file"),
            (Path::new("/dev/zero"), "is a device, not a regular file"),
        ];
        let told = cases.map(|(path, expected)| (read(path, 10).map_err(|wrong| wrong.problem), expected));
        // Between the look at the name and the opening a pipe could take the place of a file.
        let opened = open(&pipe).and_then(|file| file.metadata());
        std::fs::remove_dir_all(&folder).unwrap();
        for (told, expected) in told {
            assert_eq!(told, Err(expected.to_string()));
        }
        assert!(check(opened.unwrap().file_type()).is_err());
    }

    #[test]
    fn no_more_is_read_than_tells_that_it_is_too_much() {
        let path = std::env::temp_dir().join(format!("weir-bytes-{}", std::process::id()));
        std::fs::write(&path, [7; 100]).unwrap();
        let lengths = [200, 100, 99, 10].map(|most| read(&path, most).unwrap().len());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(lengths, [100, 100, 100, 11]);
    }
}
