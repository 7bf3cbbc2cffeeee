//! What was sent, what it came to, and how the process ended: `<storage>/remote`, which survives everything that a
//! document can do.
//!
//! ```text
//! <storage>/remote/             mode 0700: documents may hold passwords
//!   journal                     JSON, and a CRC-32 of it; replaced in one step
//!   <hash>.json                 documents that it names, as they were sent
//! ```
//!
//! * **A trial is written down before it begins.** If the process ends in it and was not told to, the document is
//!   never tried again: whatever it did, it did not get to be confirmed.
//! * **Three ends in five minutes** that nobody asked for, under a confirmed document and within one life of the
//!   machine (a power cut proves nothing against a document), and the one before it is back.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::agent::store::files;
use crate::model::time::Span;

/// Confirmed documents that are kept, the present one among them.
const HISTORY_LEN: usize = 5;
/// Documents that are never tried again. The oldest are forgotten.
const ENDED_LEN: usize = 32;
/// Answers by the id of their request, for requests that come twice.
const ANSWERS_LEN: usize = 32;
/// Larger answers are not remembered: those change nothing, and are made again.
const ANSWER_BYTES_MAX: usize = 4 * 1024;
/// So many ends that nobody asked for, within [`CRASHES_WITHIN`].
const CRASHES_MAX: usize = 3;
const CRASHES_WITHIN: Span = Span::from_secs(5 * 60);
const NAME: &str = "journal";

/// A document that has been confirmed, or is being tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub version: u64,
    /// Of the document.
    pub hash: String,
    /// When that was, by the wall clock.
    pub at_ms: i64,
}

/// A document that is never tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its number.
    pub version: u64,
    /// Of the document.
    pub hash: String,
    /// Why.
    pub reason: String,
}

/// An answer that is given again when its request comes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Answered {
    command: String,
    id: String,
    answer: String,
}

/// One life of the machine, and how long it has been up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boot {
    /// Differs in each.
    pub id: String,
    /// Since its begin.
    pub uptime: Span,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct State {
    v: u32,
    /// The last is that which runs; none: the file runs.
    confirmed: Vec<Entry>,
    trial: Option<Entry>,
    ended: Vec<Ended>,
    /// Highest versions of signed documents and commands.
    config_version: u64,
    command_version: u64,
    answers: Vec<Answered>,
    /// Nobody has told the process to end.
    runs: bool,
    boot: String,
    /// When the process began again without having been told to end, in uptime.
    crashes_ms: Vec<u64>,
    safe_mode: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    state: State,
}

impl Journal {
    /// Opens the journal below `storage`, and judges how the process before this one ended. The second: what came
    /// of that, when a document had to go.
    ///
    /// # Errors
    /// The directory cannot be used. A damaged journal is put aside: the file runs then.
    pub fn open(storage: &Path, boot: &Boot) -> io::Result<(Journal, Option<Ended>)> {
        let dir = storage.join("remote");
        match DirBuilder::new().recursive(true).mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let state = match fs::read(dir.join(NAME)) {
            Ok(bytes) => parse(&bytes).unwrap_or_else(|| {
                warn!(dir = %dir.display(), "the journal of configurations is damaged: the file runs");
                // Named, so that a person can look; a second one takes its place.
                let _ = fs::rename(dir.join(NAME), dir.join("journal.damaged"));
                State::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(error),
        };
        let mut journal = Journal { dir, state };
        let ended = journal.judge(boot);
        journal.state.runs = true;
        journal.state.boot.clone_from(&boot.id);
        journal.write()?;
        Ok((journal, ended))
    }

    fn judge(&mut self, boot: &Boot) -> Option<Ended> {
        let State { runs, boot: before, .. } = &self.state;
        let (crashed, same_boot) = (*runs, *before == boot.id);
        if !same_boot {
            self.state.crashes_ms.clear();
        }
        let trial = self.state.trial.take();
        if !crashed {
            return None;
        }
        if let Some(trial) = trial {
            return Some(self.end(&trial, "the agent ended while it was on trial"));
        }
        if !same_boot {
            return None;
        }
        let now = boot.uptime.as_millis();
        self.state.crashes_ms.push(now);
        self.state.crashes_ms.retain(|at| now.saturating_sub(*at) <= CRASHES_WITHIN.as_millis());
        if self.state.crashes_ms.len() < CRASHES_MAX {
            return None;
        }
        self.state.crashes_ms.clear();
        self.state.safe_mode = true;
        let last = self.state.confirmed.pop()?;
        let reason =
            format!("the agent ended {CRASHES_MAX} times in {} minutes under it", CRASHES_WITHIN.as_millis() / 60_000);
        Some(self.end(&last, &reason))
    }

    fn end(&mut self, entry: &Entry, reason: &str) -> Ended {
        let ended = Ended { version: entry.version, hash: entry.hash.clone(), reason: reason.to_owned() };
        self.state.ended.retain(|other| other.hash != ended.hash);
        if self.state.ended.len() >= ENDED_LEN {
            self.state.ended.remove(0);
        }
        self.state.ended.push(ended.clone());
        ended
    }

    /// The document that runs, or would if it were not on trial; `None`: the file.
    pub fn confirmed(&self) -> Option<&Entry> {
        self.state.confirmed.last()
    }

    /// Confirmed ones, the newest last.
    pub fn history(&self) -> &[Entry] {
        &self.state.confirmed
    }

    /// The process has ended too often under a confirmed one.
    pub fn is_safe_mode(&self) -> bool {
        self.state.safe_mode
    }

    /// Why a document is not tried again, if that is so.
    pub fn ended(&self, hash: &str) -> Option<&Ended> {
        self.state.ended.iter().find(|ended| ended.hash == hash)
    }

    /// The text of a document.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn document(&self, hash: &str) -> io::Result<String> {
        fs::read_to_string(self.dir.join(document_name(hash)))
    }

    /// A trial begins. When this returns, a crash ends it.
    ///
    /// # Errors
    /// It could not be made durable, and must not begin.
    pub fn begin(&mut self, entry: Entry, text: &str) -> io::Result<()> {
        files::replace(&self.dir, &document_name(&entry.hash), text.as_bytes())?;
        let before = self.state.trial.replace(entry);
        self.write().inspect_err(|_| self.state.trial = before)
    }

    /// The document on trial is the one that runs. With `at_ms`: when.
    ///
    /// # Errors
    /// It could not be made durable, and is on trial still.
    pub fn confirm(&mut self, at_ms: i64) -> io::Result<()> {
        let before = self.state.clone();
        let Some(trial) = self.state.trial.take() else { return Ok(()) };
        self.state.confirmed.retain(|other| other.hash != trial.hash);
        self.state.confirmed.push(Entry { at_ms, ..trial });
        let too_many = self.state.confirmed.len().saturating_sub(HISTORY_LEN);
        self.state.confirmed.drain(..too_many);
        self.state.safe_mode = false;
        self.state.crashes_ms.clear();
        // Else a later write would confirm what was taken back meanwhile.
        self.write().inspect_err(|_| self.state = before)?;
        self.forget_documents();
        Ok(())
    }

    /// The document on trial is never tried again.
    ///
    /// # Errors
    /// It could not be made durable; a crash has the same outcome.
    pub fn fail(&mut self, reason: &str) -> io::Result<()> {
        let Some(trial) = self.state.trial.take() else { return Ok(()) };
        self.end(&trial, reason);
        self.write()
    }

    /// The confirmed one before the present one runs again, or the file: the present one is never tried again.
    ///
    /// # Errors
    /// It could not be made durable, and has not happened.
    pub fn step_back(&mut self, reason: &str) -> io::Result<()> {
        let before = self.state.clone();
        if let Some(last) = self.state.confirmed.pop() {
            self.end(&last, reason);
        }
        self.write().inspect_err(|_| self.state = before)
    }

    /// Takes the version of a signed document or command, where that is higher than all before.
    ///
    /// # Errors
    /// It could not be made durable, so nothing may come of it.
    pub fn take_version(&mut self, of_command: bool, version: u64) -> io::Result<bool> {
        let seen = if of_command { &mut self.state.command_version } else { &mut self.state.config_version };
        if version <= *seen {
            return Ok(false);
        }
        *seen = version;
        self.write().map(|()| true)
    }

    /// The answer to a request that came before.
    pub fn answer(&self, command: &str, id: &str) -> Option<&str> {
        let answered = self.state.answers.iter().find(|answered| answered.command == command && answered.id == id);
        answered.map(|answered| answered.answer.as_str())
    }

    /// Remembers an answer.
    ///
    /// # Errors
    /// It could not be made durable: after a crash the request is done again.
    pub fn remember(&mut self, command: &str, id: &str, answer: &str) -> io::Result<()> {
        if answer.len() > ANSWER_BYTES_MAX || id.len() > ANSWER_BYTES_MAX {
            return Ok(());
        }
        if self.state.answers.len() >= ANSWERS_LEN {
            self.state.answers.remove(0);
        }
        let (command, id, answer) = (command.to_owned(), id.to_owned(), answer.to_owned());
        self.state.answers.push(Answered { command, id, answer });
        self.write()
    }

    /// The process has been told to end: that is no crash, and a document on trial may come again.
    ///
    /// # Errors
    /// It could not be made durable: it counts as a crash.
    pub fn close(&mut self) -> io::Result<()> {
        (self.state.runs, self.state.trial) = (false, None);
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        self.state.v = 1;
        let body = serde_json::to_string(&self.state).map_err(io::Error::other)?;
        files::replace(&self.dir, NAME, format!("{body}\n{:08x}\n", crc32fast::hash(body.as_bytes())).as_bytes())
    }

    /// Those that nothing speaks of any more.
    fn forget_documents(&self) {
        let known = |name: &str| {
            let entries = self.state.confirmed.iter().chain(&self.state.trial);
            entries.map(|entry| document_name(&entry.hash)).any(|known| known == name)
        };
        let is_one = |name: &str| name.strip_suffix(".json").is_some_and(|hash| hash.len() == 32);
        if let Err(error) = files::remove_matching(&self.dir, |name| is_one(name) && !known(name)) {
            warn!(%error, "old configurations cannot be removed");
        }
    }
}

fn document_name(hash: &str) -> String {
    format!("{hash}.json")
}

fn parse(bytes: &[u8]) -> Option<State> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (body, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    if u32::from_str_radix(crc, 16).ok()? != crc32fast::hash(body.as_bytes()) {
        return None;
    }
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(id: &str, secs: u64) -> Boot {
        Boot { id: id.to_owned(), uptime: Span::from_secs(secs) }
    }

    fn entry(version: u64) -> Entry {
        Entry { version, hash: format!("{version:032x}"), at_ms: 1 }
    }

    fn confirm(journal: &mut Journal, version: u64) {
        journal.begin(entry(version), &format!("document {version}")).expect("written");
        journal.confirm(2).expect("written");
    }

    #[test]
    fn a_document_whose_trial_a_crash_ended_is_never_tried_again_and_one_of_a_stop_is() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (mut journal, ended) = Journal::open(dir.path(), &boot("a", 10)).expect("opened");
        assert_eq!((ended, journal.confirmed()), (None, None));
        confirm(&mut journal, 1);
        journal.begin(entry(2), "document 2").expect("written");
        drop(journal);
        let (mut journal, ended) = Journal::open(dir.path(), &boot("a", 20)).expect("opened");
        assert_eq!(ended.map(|ended| ended.version), Some(2));
        assert_eq!(journal.confirmed().map(|entry| entry.version), Some(1));
        assert!(journal.ended(&entry(2).hash).is_some());
        assert_eq!(journal.document(&entry(1).hash).expect("read"), "document 1");
        journal.begin(entry(3), "document 3").expect("written");
        journal.close().expect("written");
        let (journal, ended) = Journal::open(dir.path(), &boot("a", 30)).expect("opened");
        assert_eq!(ended, None);
        assert!(journal.ended(&entry(3).hash).is_none());
    }

    #[test]
    fn a_confirmation_that_could_not_be_written_is_none_afterwards_either() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (mut journal, _) = Journal::open(dir.path(), &boot("a", 1)).expect("opened");
        journal.begin(entry(1), "document 1").expect("written");
        let (here, away) = (dir.path().join("remote"), dir.path().join("away"));
        fs::rename(&here, &away).expect("moved");
        journal.confirm(2).expect_err("there is no place to write");
        assert_eq!(journal.confirmed(), None);
        fs::rename(&away, &here).expect("moved");
        journal.fail("it could not be written").expect("written");
        drop(journal);
        let (journal, _) = Journal::open(dir.path(), &boot("a", 2)).expect("opened");
        assert_eq!(journal.confirmed(), None);
        assert!(journal.ended(&entry(1).hash).is_some());
    }

    #[test]
    fn three_crashes_in_five_minutes_bring_the_one_before_back_and_power_cuts_do_not() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (mut journal, _) = Journal::open(dir.path(), &boot("a", 1)).expect("opened");
        (1..=2).for_each(|version| confirm(&mut journal, version));
        for (id, secs, expected) in [("b", 5, None), ("c", 5, None), ("d", 5, None), ("d", 10, None), ("d", 400, None)]
        {
            let (journal, ended) = Journal::open(dir.path(), &boot(id, secs)).expect("opened");
            assert_eq!((ended, journal.is_safe_mode()), (expected, false), "{id} {secs}");
        }
        assert_eq!(Journal::open(dir.path(), &boot("d", 500)).expect("opened").1, None);
        let (mut journal, ended) = Journal::open(dir.path(), &boot("d", 600)).expect("opened");
        assert_eq!(ended.map(|ended| ended.version), Some(2));
        assert!(journal.is_safe_mode());
        assert_eq!(journal.confirmed().map(|entry| entry.version), Some(1));
        confirm(&mut journal, 3);
        assert!(!journal.is_safe_mode());
    }

    /// The power goes after each write: which document would run, and which was given up.
    #[test]
    fn after_each_write_a_crash_starts_with_what_was_confirmed_last() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let after_a_crash = || {
            let copy = tempfile::tempdir().expect("a temporary directory");
            fs::create_dir(copy.path().join("remote")).expect("made");
            for file in fs::read_dir(dir.path().join("remote")).expect("read").flatten() {
                fs::copy(file.path(), copy.path().join("remote").join(file.file_name())).expect("copied");
            }
            let (journal, ended) = Journal::open(copy.path(), &boot("other", 1)).expect("opened");
            let confirmed = journal.confirmed().cloned();
            if let Some(entry) = &confirmed {
                assert_eq!(journal.document(&entry.hash).expect("there"), format!("document {}", entry.version));
            }
            (confirmed.map(|entry| entry.version), ended.map(|ended| ended.version))
        };
        let (mut journal, _) = Journal::open(dir.path(), &boot("a", 1)).expect("opened");
        assert_eq!(after_a_crash(), (None, None));
        let begin = |journal: &mut Journal, version| {
            journal.begin(entry(version), &format!("document {version}")).expect("written");
        };
        begin(&mut journal, 1);
        assert_eq!(after_a_crash(), (None, Some(1)));
        journal.confirm(1).expect("written");
        assert_eq!(after_a_crash(), (Some(1), None));
        begin(&mut journal, 2);
        assert_eq!(after_a_crash(), (Some(1), Some(2)));
        journal.fail("not in time").expect("written");
        assert_eq!(after_a_crash(), (Some(1), None));
        begin(&mut journal, 3);
        journal.confirm(1).expect("written");
        assert_eq!(after_a_crash(), (Some(3), None));
        journal.step_back("asked to").expect("written");
        assert_eq!(after_a_crash(), (Some(1), None));
        journal.close().expect("written");
        assert_eq!(after_a_crash(), (Some(1), None));
    }

    #[test]
    fn what_is_kept_is_bounded_and_a_damaged_journal_is_put_aside() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (mut journal, _) = Journal::open(dir.path(), &boot("a", 1)).expect("opened");
        (1..=9).for_each(|version| confirm(&mut journal, version));
        assert_eq!(journal.history().iter().map(|entry| entry.version).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
        assert!(journal.document(&entry(4).hash).is_err(), "its file is gone");
        (0..100).for_each(|id| journal.remember("flush", &id.to_string(), "{}").expect("written"));
        assert_eq!((journal.answer("flush", "0"), journal.answer("flush", "99")), (None, Some("{}")));
        assert!(journal.take_version(false, 7).expect("written") && !journal.take_version(false, 7).expect("written"));
        journal.step_back("asked to").expect("written");
        assert_eq!(journal.confirmed().map(|entry| entry.version), Some(8));
        let file = dir.path().join("remote/journal");
        let good = fs::read(&file).expect("read");
        for at in (0..good.len()).step_by(7) {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            fs::write(&file, &bytes).expect("written");
            let (journal, ended) = Journal::open(dir.path(), &boot("a", 2)).expect("opened");
            assert_eq!((journal.confirmed(), ended), (None, None), "flipped at {at}");
        }
    }
}
