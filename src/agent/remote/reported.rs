//! What the gateway says of its configuration: `<prefix>/<gw>/config/reported`, version 1.

use serde::Serialize;
use serde_json::{Value, json};

use crate::config::check::Refused;
use crate::config::problem::Problem;
use crate::model::time::{Span, WallTime};

use super::Running;
use super::journal::Journal;

/// Problems of one kind in a document; the rest is a number.
const PROBLEMS_MAX: usize = 100;

/// Where a document came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The cloud's broker.
    Uplink,
    /// The devices' broker.
    Local,
    /// The gateway's own file, or its journal.
    File,
}

/// How far a document has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The engine works by it.
    Applied,
    /// It has to show that the cloud can be reached under it.
    Trial,
    /// It is what starts after a crash, too.
    Confirmed,
    /// It is what runs already.
    Unchanged,
    /// Nothing has come of it.
    Rejected,
    /// It did not stand its trial, or was taken back.
    RolledBack,
}

impl Origin {
    fn as_str(self) -> &'static str {
        match self {
            Origin::Uplink => "uplink",
            Origin::Local => "local",
            Origin::File => "file",
        }
    }
}

impl State {
    fn as_str(self) -> &'static str {
        match self {
            State::Applied => "applied",
            State::Trial => "trial",
            State::Confirmed => "confirmed",
            State::Unchanged => "unchanged",
            State::Rejected => "rejected",
            State::RolledBack => "rolled_back",
        }
    }
}

/// News of one document.
#[derive(Clone, Debug)]
pub struct News {
    /// How far it has got.
    pub state: State,
    /// Where it came from.
    pub origin: Origin,
    /// Of the document, as far as it has one.
    pub version: Option<u64>,
    /// The same.
    pub hash: Option<String>,
    /// Why it cannot be used.
    pub problems: Vec<Shown>,
    /// What is probably not meant.
    pub warnings: Vec<Shown>,
    /// Why it went back.
    pub reason: Option<String>,
    /// How long the trial may take.
    pub trial: Option<Span>,
}

/// A problem as it is sent.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
}

impl Shown {
    /// Of the whole document.
    pub fn new(message: impl Into<String>, hint: Option<&str>) -> Shown {
        let hint = hint.map(str::to_owned);
        Shown { path: String::new(), value: None, message: message.into(), hint, line: None, column: None }
    }
}

/// As many as are worth the bytes.
pub fn shown(problems: &[Problem]) -> Vec<Shown> {
    let mut shown: Vec<Shown> = problems
        .iter()
        .take(PROBLEMS_MAX)
        .map(|problem| Shown {
            path: problem.path.clone(),
            value: problem.value.clone(),
            message: problem.message.clone(),
            hint: problem.hint.clone(),
            line: problem.line,
            column: problem.column,
        })
        .collect();
    if problems.len() > PROBLEMS_MAX {
        shown.push(Shown::new(format!("and {} more", problems.len() - PROBLEMS_MAX), None));
    }
    shown
}

impl News {
    /// Of a document that has got so far.
    pub fn new(state: State, origin: Origin, version: Option<u64>, hash: Option<String>) -> News {
        News { state, origin, version, hash, problems: Vec::new(), warnings: Vec::new(), reason: None, trial: None }
    }

    /// Of one that cannot be used.
    #[must_use]
    pub fn refused(self, refused: &Refused) -> News {
        News { problems: shown(&refused.problems), warnings: shown(&refused.warnings), ..self }
    }

    /// With one problem of the whole document.
    #[must_use]
    pub fn because(self, problem: Shown) -> News {
        News { problems: vec![problem], ..self }
    }

    /// The document to publish.
    pub fn document(&self, gateway: &str, now: WallTime, running: &Running, journal: Option<&Journal>) -> Vec<u8> {
        let history = journal.map(|journal| journal.history().iter().rev().collect::<Vec<_>>());
        let mut document = json!({
            "v": 1,
            "gw": gateway,
            "at_ms": now.as_millis(),
            "state": self.state.as_str(),
            "version": self.version,
            "hash": self.hash,
            "from": self.origin.as_str(),
            "confirmed": { "version": running.version(), "hash": running.hash() },
            "problems": self.problems,
            "warnings": self.warnings,
            "history": history.unwrap_or_default(),
            "safe_mode": journal.is_some_and(Journal::is_safe_mode),
        });
        if let Value::Object(fields) = &mut document {
            if let Some(reason) = &self.reason {
                fields.insert("reason".into(), json!(reason));
            }
            if let Some(trial) = self.trial {
                fields.insert("trial_ms".into(), json!(trial.as_millis()));
            }
        }
        document.to_string().into_bytes()
    }
}
