//! The password file, read and replaced: a file beside it, fsync, rename, fsync of the directory.
//!
//! A new file has mode 0600. One that was there keeps its owner, group and mode, but for what
//! everybody may do: the agent refuses a file that others can read. Where we may not give a file
//! away, its new owner is told, because the agent has to be able to read it.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use crate::agent::mqtt::listener::access::passwords::{FILE_BYTES_MAX, MODE_OTHERS};

use super::users;

/// Of a new file.
const MODE: u32 = 0o600;
/// What a file's mode says beside its kind.
const MODE_BITS: u32 = 0o777;

/// Users and hashes; `None`: there is no file.
///
/// # Errors
/// It cannot be read, or a line of it is wrong.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<BTreeMap<String, String>>> {
    let Some((users, found)) = read_with_metadata(path)? else { return Ok(None) };
    if found.mode() & MODE_OTHERS != 0 {
        let (at, mode) = (path.display(), found.mode() & MODE_BITS);
        warn(&format!("{at}: everybody may read or write it (mode {mode:04o}), so the agent will not use it"));
    }
    Ok(Some(users))
}

/// As [`read`], for somebody who is about to [`change`] the file, which mends its mode.
///
/// # Errors
/// As for [`read`].
pub(super) fn read_before_change(path: &Path) -> anyhow::Result<Option<BTreeMap<String, String>>> {
    Ok(read_with_metadata(path)?.map(|(users, _)| users))
}

fn read_with_metadata(path: &Path) -> anyhow::Result<Option<(BTreeMap<String, String>, Metadata)>> {
    let at = || path.display().to_string();
    let Some((text, found)) = read_text(path).with_context(at)? else { return Ok(None) };
    Ok(Some((users(&text).with_context(at)?, found)))
}

/// Replaces the text by what `edit` makes of it; `edit` gets `None` where there is no file.
///
/// # Errors
/// What cannot be read or written, or what `edit` says; then nothing was changed.
pub(super) fn change(path: &Path, edit: impl FnOnce(Option<&str>) -> anyhow::Result<String>) -> anyhow::Result<()> {
    let at = || path.display().to_string();
    // Behind a link: the file that it leads to is replaced, and not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = directory_of(path);
    let opened = File::open(&directory)
        .map_err(|error| anyhow!("directory {} cannot be opened: {error}", directory.display()))
        .with_context(at)?;
    // Two at a time would lose what one of them did. Not every file system has locks.
    let _ = opened.lock();
    let found = read_text(path).with_context(at)?;
    let before = found.as_ref().map(|(text, _)| text.as_str());
    if let Some(text) = before {
        users(text).with_context(at)?;
    }
    let text = edit(before).with_context(at)?;
    // What the agent would refuse is not written.
    users(&text).with_context(at)?;
    let temporary = beside(path)?;
    let written = write(&temporary, &text, found.as_ref().map(|(_, metadata)| metadata))
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // It may not be there at all.
        let _ = fs::remove_file(&temporary);
        let hint = if error.kind() == io::ErrorKind::PermissionDenied { "; try it with sudo" } else { "" };
        return Err(anyhow!("cannot be written: {error}{hint}")).with_context(at);
    }
    opened.sync_all().context("making the change durable").with_context(at)
}

fn read_text(path: &Path) -> anyhow::Result<Option<(String, Metadata)>> {
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_be_read(&error)),
        Ok(metadata) => metadata,
    };
    // A pipe would be waited for.
    if !metadata.is_file() {
        bail!("is no file");
    }
    let file = File::open(path).map_err(|error| cannot_be_read(&error))?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| cannot_be_read(&error))?;
    Ok(Some((text, metadata)))
}

fn cannot_be_read(error: &io::Error) -> anyhow::Error {
    let hint = if error.kind() == io::ErrorKind::PermissionDenied { "; try it with sudo" } else { "" };
    anyhow!("cannot be read: {error}{hint}")
}

fn write(temporary: &Path, text: &str, before: Option<&Metadata>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(temporary)?;
    file.write_all(text.as_bytes())?;
    if let Some(before) = before {
        let ours = file.metadata()?;
        if (ours.uid(), ours.gid()) != (before.uid(), before.gid()) {
            let kept = fchown(&file, Some(before.uid()), Some(before.gid()));
            // The group may be one of ours.
            if kept.is_err() && fchown(&file, None, Some(before.gid())).is_err() {
                warn("the file belongs to you now, and not to whom it did: can the agent read it?");
            }
        }
        // Last: until here nobody else may read it.
        let mode = before.mode() & MODE_BITS;
        if mode & MODE_OTHERS != 0 {
            warn(&format!("everybody could read or write the file (mode {mode:04o}); now they cannot"));
        }
        file.set_permissions(Permissions::from_mode(mode & !MODE_OTHERS))?;
    }
    file.sync_all()
}

/// A name that no other process uses.
fn beside(path: &Path) -> anyhow::Result<PathBuf> {
    let Some(name) = path.file_name() else { bail!("{}: is no name of a file", path.display()) };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.new", std::process::id()));
    Ok(path.with_file_name(temporary))
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

fn warn(what: &str) {
    let _ = writeln!(io::stderr(), "warning: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::mqtt::listener::access::hash;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & MODE_BITS
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    fn add(path: &Path, user: &str) -> anyhow::Result<()> {
        change(path, |text| Ok(format!("{}{user}:{}\n", text.unwrap_or_default(), hash::cheap(b"1"))))
    }

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_one_that_was_there_keeps_its_mode() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("passwords");
        assert_eq!(read(&path).expect("no file is no error"), None);
        add(&path, "anna").expect("written");
        assert_eq!(mode(&path), 0o600);
        for (before, after) in [(0o640, 0o640), (0o644, 0o640), (0o666, 0o660)] {
            fs::set_permissions(&path, Permissions::from_mode(before)).expect("set");
            add(&path, &format!("user-{before}")).expect("written");
            assert_eq!(mode(&path), after, "{before:o}");
        }
        assert_eq!(read(&path).expect("readable").map(|users| users.len()), Some(4));
        assert_eq!(names(dir.path()), ["passwords"], "nothing is left beside it");
    }

    #[test]
    fn behind_a_link_the_file_is_replaced_and_not_the_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("passwords"), dir.path().join("link"));
        add(&path, "anna").expect("written");
        std::os::unix::fs::symlink("passwords", &link).expect("a link");
        add(&link, "bert").expect("written");
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert_eq!(read(&path).expect("readable").map(|users| users.len()), Some(2));
    }

    #[test]
    fn a_change_that_fails_leaves_the_file_and_names_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("passwords");
        add(&path, "anna").expect("written");
        let before = fs::read(&path).expect("readable");
        let twice = add(&path, "anna").expect_err("anna is there").to_string();
        let refused = change(&path, |_| bail!("no")).expect_err("as it says");
        assert!(twice.contains("passwords") && format!("{refused:#}").ends_with("passwords: no"), "{twice}");
        assert_eq!(fs::read(&path).expect("readable"), before);
        fs::write(&path, "anna:secret\n").expect("written");
        let error = format!("{:#}", add(&path, "bert").expect_err("a wrong line"));
        assert!(error.contains("line 1: user \"anna\": no hash") && !error.contains("secret"), "{error}");
        let error = format!("{:#}", add(&dir.path().join("none/passwords"), "anna").expect_err("no directory"));
        assert!(error.contains("none/passwords: directory") && error.contains("cannot be opened"), "{error}");
        assert_eq!(format!("{:#}", read(dir.path()).expect_err("a directory")).rsplit(": ").next(), Some("is no file"));
    }

    #[test]
    fn changes_at_the_same_time_lose_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("passwords");
        std::thread::scope(|scope| {
            for index in 0..4 {
                let path = &path;
                // One process has one name for the file beside it; the lock keeps them apart here, too.
                scope.spawn(move || add(path, &format!("user-{index}")).expect("written"));
            }
        });
        assert_eq!(read(&path).expect("readable").map(|users| users.len()), Some(4));
    }
}
