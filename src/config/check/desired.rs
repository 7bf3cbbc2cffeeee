//! A document that came over MQTT, laid over the gateway's file.
//!
//! ```text
//! desired ─ version, trial ──────────────────────────▶ Desired
//!         └ streams, joins, outbox, uplink ─▶ instead of those of the file ─▶ checked as a file is
//! ```
//!
//! So there is one way to check, and what is accepted here is what a start would accept.

use crate::config::boot::Config;
use crate::config::problem::{Report, Wrong};
use crate::config::raw::{Document, Entry, Format, Value};
use crate::model::time::Span;

use super::keys::desired::TRIAL;
use super::table::Table;
use super::{Checked, Purpose, Refused, all_parts, build, finish, keys, parse, scalar};

/// What a document asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Its number, from 1.
    pub version: u64,
    /// How long it may take until the cloud has acknowledged a status under it.
    pub trial: Span,
    /// The gateway's file with its tables.
    pub config: Config,
}

/// Checks `text`, in JSON, over `file_text`, which is in the file `file`. [`Checked::hash`] is that of `text`.
///
/// # Errors
/// Every problem there is; those of a file that is no document, too.
pub fn check_desired(text: &str, file_text: &str, file: &str) -> Result<Checked<Desired>, Refused> {
    let (document, mut report) = parse(text, Format::Json, "desired")?;
    let (mut whole, _) = parse(file_text, Format::of(file), file)?;
    let root = Table::open(document.root(), "", &keys::DESIRED, &mut report);
    let version = root.as_ref().and_then(|root| version(root, &mut report));
    let trial = root
        .as_ref()
        .and_then(|root| root.parsed("trial", scalar::DURATION, &mut report, |text| scalar::span(text, TRIAL)));
    lay_over(&mut whole, &document);
    let hash = whole.hash();
    let parts = all_parts(whole, Purpose::Run, &mut report);
    let config = build(parts, &hash);
    let desired = || Some(Desired { version: version?, trial: trial?, config: config? });
    finish(desired(), document.hash(), report)
}

/// Of a document that is not checked otherwise: its version and its hash, as far as it has them.
pub fn glance(text: &str) -> (Option<u64>, Option<String>) {
    let Ok(document) = Document::parse(text, Format::Json) else { return (None, None) };
    let mut report = Report::new("desired");
    let root = Table::open(document.root(), "", &keys::DESIRED, &mut report);
    (root.and_then(|root| version(&root, &mut report)), Some(document.hash()))
}

fn version(root: &Table<'_>, report: &mut Report) -> Option<u64> {
    let item = root.required("version", report)?;
    let found = match item.value {
        Value::Integer(found) => u64::try_from(*found).ok().filter(|found| *found > 0),
        Value::Text(_) | Value::Float(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => None,
    };
    if found.is_none() {
        report.problem(&item.spot, Wrong::new("must be an integer from 1"));
    }
    found
}

/// Each table of `over` instead of that of `whole`.
fn lay_over(whole: &mut Document, over: &Document) {
    let (Value::Table(entries), Value::Table(over)) = (&mut whole.root_mut().value, &over.root().value) else { return };
    let is_of_the_file =
        |entry: &&Entry| keys::ROOT.key(&entry.key).is_some() && keys::DESIRED.key(&entry.key).is_some();
    for entry in over.iter().filter(is_of_the_file) {
        entries.retain(|other| other.key != entry.key);
        entries.push(entry.clone());
    }
    entries.sort_by(|a, b| a.key.cmp(&b.key));
}
