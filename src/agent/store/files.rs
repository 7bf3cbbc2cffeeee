//! The few file operations that durability rests on.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces `dir/name` in one step: after a power cut it has the old or the new
/// content, never a mixture.
pub(in crate::agent) fn replace(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let temporary = dir.join(format!("{name}.new"));
    make_way(&temporary)?;
    make_way(&dir.join(name))?;
    // Ours alone: it may hold passwords.
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(name))?;
    sync_dir(dir)
}

/// Makes names in `dir` durable: created, renamed or removed.
pub(in crate::agent) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes a directory, its files and its own name durable. (sled creates files
/// without doing so: a fresh store could vanish with the power.)
pub(super) fn sync_tree(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        File::open(entry?.path())?.sync_all()?;
    }
    sync_dir(dir)?;
    dir.parent().map_or(Ok(()), sync_dir)
}

/// Removes the files of `dir` whose name `is` accepts.
pub(in crate::agent) fn remove_matching(dir: &Path, is: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&is) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes way for a file: whatever else has its name (a directory, a pipe, a
/// dangling link) is removed.
pub(in crate::agent) fn make_way(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if found.is_dir() {
        fs::remove_dir_all(path)
    } else if fs::metadata(path).is_ok_and(|target| target.is_file()) {
        Ok(())
    } else {
        fs::remove_file(path)
    }
}

/// Removes what is neither a file nor a directory, at the end of its links:
/// opening a pipe waits for ever.
pub(super) fn remove_special(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// True for an error that says "no space".
pub(in crate::agent) fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull || error.kind() == io::ErrorKind::QuotaExceeded
}

/// Bytes that a program without privileges may still write where `path` is.
pub(in crate::agent) fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// A moment between two operations at which the process may be killed: the tests look
/// at what is on the disk then.
#[cfg(not(test))]
pub(in crate::agent) fn step() {}

#[cfg(test)]
pub(in crate::agent) use steps::step;

#[cfg(test)]
pub(super) mod steps {
    use std::cell::RefCell;

    type AtStep = Box<dyn FnMut()>;

    thread_local! {
        static AT_STEP: RefCell<Option<AtStep>> = const { RefCell::new(None) };
    }

    pub(in crate::agent) fn step() {
        AT_STEP.with_borrow_mut(|at_step| at_step.as_mut().map_or((), |at_step| at_step()));
    }

    /// Has `at_step` called at each step of `work`.
    pub(in super::super) fn watch<T>(at_step: impl FnMut() + 'static, work: impl FnOnce() -> T) -> T {
        AT_STEP.set(Some(Box::new(at_step)));
        let result = work();
        AT_STEP.set(None);
        result
    }
}
