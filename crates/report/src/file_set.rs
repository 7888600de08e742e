//! The files of one run, which appear in a folder together.

use crate::files::{Temporary, WriteError, read_regular, sync_folder};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

/// Lists what Weir wrote to a folder: nothing else is ever removed from it. The last line names the file that
/// is the sign of completeness; folders end with a slash.
const LIST: &str = ".weir-files";

/// The files of one run on their way into a folder.
///
/// They are written under other names first, so that an old set stays whole until the new one is. Then they
/// take their places, what an older run left is removed, and the file that was added last comes last: it is
/// the sign that the set is complete. Whatever ends the program between, a folder with that file has all
/// files of one run and no others. A set that is not published leaves nothing.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    staged: Vec<Staged>,
    kept: BTreeSet<String>,
    folders: BTreeSet<String>,
}

/// A file that is whole, under another name.
#[derive(Debug)]
struct Staged {
    name: String,
    temporary: Temporary,
}

/// A file of a set that is written little by little.
#[derive(Debug)]
pub struct SetFile {
    out: BufWriter<File>,
    staged: Staged,
}

impl Write for SetFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl FileSet {
    /// A set for a folder, which must exist. What killed programs left half written there is removed.
    pub fn new(folder: impl Into<PathBuf>) -> FileSet {
        let folder = folder.into();
        remove_leftovers(&folder);
        FileSet { folder, staged: Vec::new(), kept: BTreeSet::new(), folders: BTreeSet::new() }
    }

    /// Where the files go.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds a file.
    pub fn add(&mut self, name: impl Into<String>, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
        let name = name.into();
        assert!(is_plain(&name), "`{name}` is no name of a file");
        self.staged.push(self.stage(name, bytes)?);
        Ok(())
    }

    /// Begins a file that is added with [`FileSet::close`].
    pub fn open(&self, name: impl Into<String>) -> Result<SetFile, WriteError> {
        let name = name.into();
        assert!(is_plain(&name), "`{name}` is no name of a file");
        self.begin(name)
    }

    /// Adds a file that was begun with [`FileSet::open`].
    pub fn close(&mut self, file: SetFile) -> Result<(), WriteError> {
        self.staged.push(self.end(file)?);
        Ok(())
    }

    /// Takes over a file of the set that is in the folder: one that has grown there since.
    pub fn keep(&mut self, name: impl Into<String>) {
        let name = name.into();
        assert!(is_plain(&name), "`{name}` is no name of a file");
        self.kept.insert(name);
    }

    /// Those of `names` that are in a folder and were not written there by a set of files.
    pub fn foreign<'a>(folder: &Path, names: &[&'a str]) -> Vec<&'a str> {
        let own = List::read(folder);
        names.iter().copied().filter(|name| own.is_foreign(folder, name)).collect()
    }

    /// Adds a folder with a set of its own, which is there already: it stays.
    pub fn add_folder(&mut self, name: impl Into<String>) {
        let name = name.into();
        assert!(is_plain(&name), "`{name}` is no name of a folder");
        self.folders.insert(name);
    }

    /// Takes away the files of an older set, but for its folders and those of `kept`: for a set whose folders
    /// are written one by one, so that old and new do not stand side by side under the sign of the old.
    pub fn withdraw(folder: &Path, kept: &[&str]) -> Result<(), WriteError> {
        let list = List::read(folder);
        let old = list.sign.iter().chain(&list.files).filter(|name| !kept.contains(&name.as_str()));
        old.into_iter().try_for_each(|name| remove(&folder.join(name)))?;
        sync_folder(folder);
        Ok(())
    }

    /// Moves the files of the set that is in a folder to another one on the same disk, which is made; its
    /// folders stay.
    pub fn move_to(folder: &Path, to: &Path) -> Result<(), WriteError> {
        let failed = |path: &Path, step: &'static str| {
            let path = path.to_path_buf();
            move |source| WriteError { path, step, source }
        };
        fs::create_dir_all(to).map_err(failed(to, "making a folder for what an older run left"))?;
        let List { sign, files, folders } = List::read(folder);
        let (own, there) = (FileSet::new(folder), FileSet::new(to));
        // Before the files: whatever ends the program between, each is known where it is.
        let moved = List { sign: sign.clone(), files: files.clone(), folders: BTreeSet::new() };
        there.place(&there.stage(LIST.into(), moved.text())?)?;
        for name in sign.iter().chain(&files) {
            match fs::rename(folder.join(name), to.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&folder.join(name), "moving what an older run left")(error));
                }
                _ => {}
            }
        }
        sync_folder(to);
        own.place(&own.stage(LIST.into(), List { folders, ..List::default() }.text())?)?;
        sync_folder(folder);
        Ok(())
    }

    /// Whether there is a set in a folder.
    pub fn is_in(folder: &Path) -> bool {
        folder.join(LIST).symlink_metadata().is_ok_and(|about| about.is_file())
    }

    /// Removes the set that is in a folder, and the folder if nothing else is in it.
    pub fn remove(folder: &Path) -> Result<(), WriteError> {
        clear(folder)
    }

    /// Writes a file beside the set that is in a folder, which it belongs to from now on: it goes when
    /// another set comes. A file of that name that is somebody else's stays, and that is an error.
    pub fn append(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), WriteError> {
        let mut set = FileSet::new(folder);
        set.add(name, bytes)?;
        let mut list = List::read(folder);
        if list.is_foreign(folder, name) {
            return Err(set.failed(name, LOOKING)(foreign()));
        }
        list.files.insert(name.into());
        // Before the file: whatever ends the program between, it is known to the next run.
        set.place(&set.stage(LIST.into(), list.text())?)?;
        set.staged.iter().try_for_each(|file| set.place(file))?;
        sync_folder(folder);
        Ok(())
    }

    /// Puts the files in their places; none where a file of somebody else has the place of one.
    pub fn publish(self) -> Result<(), WriteError> {
        let FileSet { folder, staged, kept, folders } = &self;
        let old = List::read(folder);
        let files: BTreeSet<String> =
            staged.iter().map(|s| s.name.clone()).chain(kept.iter().cloned()).collect();
        if let Some(name) = files.iter().find(|name| old.is_foreign(folder, name)) {
            return Err(self.failed(name, LOOKING)(foreign()));
        }
        let new = List { sign: staged.last().map(|s| s.name.clone()), files, folders: folders.clone() };
        let both = self.stage(LIST.into(), old.and(&new).text())?;
        // A file that has grown there may be all that the old set is, and so its sign.
        let signs = old.sign.iter().chain(&new.sign).filter(|sign| !kept.contains(*sign));
        signs.into_iter().try_for_each(|sign| remove(&folder.join(sign)))?;
        sync_folder(folder);
        // Whatever happens from here on, everything that may be here is known to the next run.
        self.place(&both)?;
        let (last, others) = match staged.split_last() {
            Some((last, others)) => (Some(last), others),
            None => (None, &[][..]),
        };
        others.iter().try_for_each(|file| self.place(file))?;
        old.files.difference(&new.files).try_for_each(|name| remove(&folder.join(name)))?;
        old.folders.difference(&new.folders).try_for_each(|name| clear(&folder.join(name)))?;
        sync_folder(folder);
        last.map_or(Ok(()), |file| self.place(file))?;
        sync_folder(folder);
        self.place(&self.stage(LIST.into(), new.text())?)
    }

    fn stage(&self, name: String, bytes: impl AsRef<[u8]>) -> Result<Staged, WriteError> {
        let mut file = self.begin(name)?;
        let written = file.write_all(bytes.as_ref());
        written.map_err(self.failed(&file.staged.name, "writing the bytes"))?;
        self.end(file)
    }

    fn begin(&self, name: String) -> Result<SetFile, WriteError> {
        let (temporary, file) = Temporary::create(&self.folder)
            .map_err(self.failed(&name, "creating a temporary file in its folder"))?;
        Ok(SetFile { out: BufWriter::new(file), staged: Staged { name, temporary } })
    }

    fn end(&self, mut file: SetFile) -> Result<Staged, WriteError> {
        let written = file.out.flush().and_then(|()| file.out.get_ref().sync_all());
        written.map_err(self.failed(&file.staged.name, "writing the bytes"))?;
        Ok(file.staged)
    }

    fn place(&self, file: &Staged) -> Result<(), WriteError> {
        let renamed = file.temporary.rename(&self.folder.join(&file.name));
        renamed.map_err(self.failed(&file.name, "renaming the temporary file"))
    }

    fn failed(&self, name: &str, step: &'static str) -> impl FnOnce(io::Error) -> WriteError + use<> {
        let path = self.folder.join(name);
        move |source| WriteError { path, step, source }
    }
}

const LOOKING: &str = "looking for what is there";

/// A file of somebody else has the name.
fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "it is there, and weir did not write it")
}

/// What is in a folder by its list.
#[derive(Clone, Debug, Default)]
struct List {
    sign: Option<String>,
    files: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl List {
    /// The list of a folder; empty where there is none. A name that leads out of the folder is no name.
    fn read(folder: &Path) -> List {
        let bytes = read_regular(folder.join(LIST)).unwrap_or_default();
        let text = String::from_utf8(bytes).unwrap_or_default();
        let mut list = List::default();
        for line in text.lines() {
            match line.strip_suffix('/') {
                Some(name) if is_plain(name) => {
                    list.folders.insert(name.to_string());
                }
                None if is_plain(line) => {
                    list.files.insert(line.to_string());
                    list.sign = Some(line.to_string());
                }
                _ => {}
            }
        }
        list
    }

    /// Whether a file of this name is there that is not on the list.
    fn is_foreign(&self, folder: &Path, name: &str) -> bool {
        !self.files.contains(name) && folder.join(name).symlink_metadata().is_ok()
    }

    fn and(&self, other: &List) -> List {
        List {
            sign: other.sign.clone(),
            files: self.files.union(&other.files).cloned().collect(),
            folders: self.folders.union(&other.folders).cloned().collect(),
        }
    }

    fn text(&self) -> String {
        let folders = self.folders.iter().map(|name| format!("{name}/\n"));
        let files = self.files.iter().filter(|name| Some(*name) != self.sign.as_ref()).chain(&self.sign);
        folders.chain(files.map(|name| format!("{name}\n"))).collect()
    }
}

/// Whether it names something in a folder and nothing outside, and is no name of this module.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let is_one = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    is_one && name != LIST && !name.contains(['\n', '/', '\\'])
}

fn remove(path: &Path) -> Result<(), WriteError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(|source| {
            let step = "removing what an older run left";
            WriteError { path: path.to_path_buf(), step, source }
        }),
    }
}

/// Removes what the list of a folder names, and the folder if nothing else is in it.
fn clear(folder: &Path) -> Result<(), WriteError> {
    let list = List::read(folder);
    list.sign.iter().chain(&list.files).try_for_each(|name| remove(&folder.join(name)))?;
    list.folders.iter().try_for_each(|name| clear(&folder.join(name)))?;
    remove(&folder.join(LIST))?;
    // It stays where a user keeps something in it.
    let _ = fs::remove_dir(folder);
    Ok(())
}

/// Removes temporary files of programs that are no more.
pub fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(Temporary::owner).is_some_and(|process| !is_running(process)) {
            // Another program may have been quicker, and what cannot be removed harms nobody.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether there is a process of this number. Where that is not known there is none.
fn is_running(process: u32) -> bool {
    process == std::process::id() || Path::new("/proc").join(process.to_string()).exists()
}
