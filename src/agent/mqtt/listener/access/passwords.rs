//! The password file: one `user:$argon2id$…` per line, `#` begins a comment.
//!
//! It is looked at on each login, at most once a second, and read again when it has changed. A file
//! that cannot be used then leaves the users as they were, which is told once. Nobody but its
//! owner and group may read it: hashes of short passwords can be guessed at home.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tracing::info;

use crate::model::time::{ProcTime, Span};

use super::fingerprint::Fingerprint;
use super::hash;

/// Bytes of a user name.
const USER_BYTES_MAX: usize = 256;
/// Users of one file.
const USERS_MAX: usize = 10_000;
/// Bytes of one file: some 400 for each user.
pub const FILE_BYTES_MAX: u64 = 4 * 1_024 * 1_024;
/// How often it is looked at.
const LOOK_EVERY: Span = Span::from_secs(1);
/// What everybody may do with a file: read it, write it. The agent uses no such file.
pub const MODE_OTHERS: u32 = 0o006;

/// Why a password file cannot be used. Shows no part of it but user names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("password file {}: {problem}", path.display())]
pub struct PasswordFileError {
    path: PathBuf,
    problem: String,
}

/// The users, and what is remembered of them.
#[derive(Debug)]
pub(super) struct Passwords {
    path: PathBuf,
    users: BTreeMap<String, User>,
    stamp: Stamp,
    looked: Option<ProcTime>,
    /// The last trouble with the file, so that it is told once.
    trouble: Option<String>,
    /// Not asked for yet. Empty: nothing is wrong any more.
    notice: Option<String>,
}

#[derive(Debug)]
struct User {
    hash: String,
    /// Of the password that was right for this hash.
    verified: Option<Fingerprint>,
}

/// A hash to verify a password against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) hash: String,
    /// Else it is another user's, for the time that it takes.
    pub(super) is_of_user: bool,
}

/// What tells one content of the file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    mode: u32,
}

impl Passwords {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or a line is wrong.
    pub(super) fn open(path: &Path) -> Result<Passwords, PasswordFileError> {
        let (hashes, stamp) = read(path)?;
        let users = hashes.into_iter().map(|(user, hash)| (user, User { hash, verified: None })).collect();
        Ok(Passwords { path: path.to_owned(), users, stamp, looked: None, trouble: None, notice: None })
    }

    /// Reads the file again if it has changed.
    pub(super) fn refresh(&mut self, now: ProcTime) {
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK_EVERY) {
            return;
        }
        self.looked = Some(now);
        let stamp = std::fs::metadata(&self.path).map(|found| Stamp::of(&found));
        if stamp.is_ok_and(|stamp| stamp == self.stamp) && self.trouble.is_none() {
            return;
        }
        match read(&self.path) {
            Ok((hashes, stamp)) => {
                let mut before = core::mem::take(&mut self.users);
                let user = |(user, hash): (String, String)| {
                    let same = before.remove(&user).filter(|before| before.hash == hash);
                    let verified = same.and_then(|same| same.verified);
                    (user, User { hash, verified })
                };
                self.users = hashes.into_iter().map(user).collect();
                self.stamp = stamp;
                self.trouble = None;
                info!(file = %self.path.display(), users = self.users.len(), "password file read again");
                self.notice = Some(String::new());
            }
            Err(error) => {
                let trouble = error.to_string();
                if self.trouble.as_ref() != Some(&trouble) {
                    self.notice = Some(format!("{trouble}; users and passwords stay as they were"));
                    self.trouble = Some(trouble);
                }
            }
        }
    }

    /// Whether this was right before, for the hash that the user still has.
    pub(super) fn is_verified(&self, user: &str, fingerprint: &Fingerprint) -> bool {
        self.users.get(user).is_some_and(|user| user.verified.as_ref() == Some(fingerprint))
    }

    /// Remembers that it is, unless the line has changed meanwhile.
    pub(super) fn set_verified(&mut self, user: &str, hash: &str, fingerprint: Fingerprint) {
        if let Some(user) = self.users.get_mut(user).filter(|user| user.hash == hash) {
            user.verified = Some(fingerprint);
        }
    }

    /// The hash of `user`, or for one that is unknown any other: lines are usually alike, so that
    /// it takes the same time. `None`: the file has no users, and there is nothing to find out.
    pub(super) fn stored(&self, user: &str) -> Option<Stored> {
        if let Some(user) = self.users.get(user) {
            return Some(Stored { hash: user.hash.clone(), is_of_user: true });
        }
        let (_, other) = self.users.first_key_value()?;
        Some(Stored { hash: other.hash.clone(), is_of_user: false })
    }

    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }
}

impl Stamp {
    fn of(found: &std::fs::Metadata) -> Stamp {
        let modified = (found.mtime(), found.mtime_nsec());
        Stamp { inode: found.ino(), size: found.size(), modified, mode: found.mode() }
    }
}

fn read(path: &Path) -> Result<(BTreeMap<String, String>, Stamp), PasswordFileError> {
    let refuse = |problem: String| PasswordFileError { path: path.to_owned(), problem };
    // A pipe would be waited for.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(refuse("is no file".to_owned()));
    }
    let file = File::open(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let found = file.metadata().map_err(|error| refuse(format!("cannot be read: {error}")))?;
    if found.mode() & MODE_OTHERS != 0 {
        let mode = found.mode() & 0o777;
        return Err(refuse(format!(
            "everybody may read or write it (mode {mode:04o}): chmod 0600, or 0640 with the agent's group"
        )));
    }
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| refuse(format!("cannot be read: {error}")))?;
    Ok((parse(&text).map_err(refuse)?, Stamp::of(&found)))
}

/// Users and hashes of a file's text.
///
/// # Errors
/// The first line that is wrong, and why; no part of a hash.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes"));
    }
    let mut users = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let refuse = |problem: &str| Err(format!("line {}: {problem}", index + 1));
        let Some((user, stored)) = line.split_once(':') else {
            return refuse("must be `user:$argon2id$…`; `tidegate password` makes such lines");
        };
        if let Err(problem) = check_user(user) {
            return refuse(&problem);
        }
        if let Err(problem) = hash::check(stored) {
            return refuse(&format!("user \"{user}\": {problem}; `tidegate password` makes a new one"));
        }
        if users.insert(user.to_owned(), stored.to_owned()).is_some() {
            return refuse(&format!("user \"{user}\" is there twice"));
        }
        if users.len() > USERS_MAX {
            return refuse(&format!("more than {USERS_MAX} users"));
        }
    }
    Ok(users)
}

/// Looks at a user name.
///
/// # Errors
/// Why it cannot stand in the file.
pub fn check_user(user: &str) -> Result<(), String> {
    if user.is_empty() || user.len() > USER_BYTES_MAX || user.chars().any(char::is_control) {
        return Err(format!("a user name has 1 to {USER_BYTES_MAX} bytes without control characters"));
    }
    if user.contains(':') || user.starts_with('#') {
        return Err("a user name holds no `:`, and does not begin with `#`".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_users_and_comments() {
        let one = hash::cheap(b"1");
        let users = parse(&format!("# devices\n\nanna:{one}\r\nsensor 7:{one}\n")).expect("good");
        assert_eq!(users.keys().collect::<Vec<_>>(), ["anna", "sensor 7"]);
        assert_eq!(users["anna"], one);
        assert_eq!(parse(""), Ok(BTreeMap::new()));
        for (text, part) in [
            ("anna".to_owned(), "line 1: must be `user:"),
            (format!("# x\n:{one}"), "line 2: a user name has 1 to 256 bytes"),
            ("anna:secret".to_owned(), "line 1: user \"anna\": no hash"),
            ("anna:$7$101$abc$def".to_owned(), "`tidegate password` makes a new one"),
            (format!("anna:{one}\nanna:{one}"), "line 2: user \"anna\" is there twice"),
        ] {
            let error = parse(&text).expect_err(&text);
            assert!(error.contains(part) && !error.contains("secret") && !error.contains("101"), "{text}: {error}");
        }
    }
}
