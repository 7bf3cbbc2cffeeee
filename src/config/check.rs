//! The raw tree to the checked [`Config`], or every problem at once.
//!
//! ```text
//! text ─ raw ─▶ tree ─ check ─▶ Config + warnings
//!                        └────▶ Refused: all problems, each with place, path, value, hint
//! ```
//!
//! Holding a `Config` is the proof that it was checked: the engine neither
//! checks again nor unwraps. What cannot be known from the text alone (whether a
//! file exists, whether a broker answers) is not checked here.

mod aggregates;
mod availability;
mod broker;
mod budget;
mod dedup;
pub mod desired;
mod fields;
mod format;
mod join;
pub mod keys;
pub mod listener;
mod local;
mod mapping;
mod meaning;
mod outbox;
mod records;
pub mod remote;
mod rules;
pub(super) mod scalar;
mod stream;
mod table;
mod time;
mod topics;
mod watermark;
mod window;

use std::path::PathBuf;

use crate::engine::encode::Encoding;
use crate::engine::spec::{CommitSpec, PipelineSpec, UplinkPolicy};
use crate::model::ids::Name;
use crate::model::limits::{MQTT_NAME_BYTES, RESERVE_BYTES};
use crate::model::time::Span;
use crate::model::topic::is_prefix;

use super::boot::{Config, LocalSpec, StorageSpec};
use super::preset;
use super::problem::{Problem, Report, Spot, Wrong};
use super::raw::{Document, Format};

use broker::Brokers;
use listener::Listener;
use table::{Item, Table};

/// Longest path of a Unix socket that Linux takes.
const SOCKET_PATH_BYTES: usize = 107;
const COMMIT_INTERVAL: core::ops::RangeInclusive<Span> = Span::from_millis(10)..=Span::from_secs(60);
const SNAPSHOT_INTERVAL: core::ops::RangeInclusive<Span> = Span::from_millis(100)..=Span::from_secs(86_400);

/// A document that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked<T> {
    /// What it says.
    pub config: T,
    /// [`Document::hash`] of it.
    pub hash: String,
    /// What is allowed and probably not meant.
    pub warnings: Vec<Problem>,
}

/// A document that was not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.problems))]
pub struct Refused {
    /// Why not; never empty.
    pub problems: Vec<Problem>,
    /// What is allowed and probably not meant.
    pub warnings: Vec<Problem>,
}

impl Refused {
    /// How many problems, as `1 problem` or `4 problems`.
    pub fn count(&self) -> String {
        match self.problems.len() {
            1 => "1 problem".to_owned(),
            several => format!("{several} problems"),
        }
    }
}

/// What a document is to be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    Run,
    Replay,
    /// The listener alone.
    Broker,
}

/// `None`: there is to be none.
type WantedListener = Option<Listener>;

/// The parts that could be built, with whatever is wrong in the report.
struct Parts {
    pipeline: Option<PipelineSpec>,
    brokers: Brokers,
    listener: Option<WantedListener>,
    storage: Option<StorageSpec>,
    control: Option<PathBuf>,
    remote: Option<remote::Wanted>,
    local: Option<LocalSpec>,
}

/// Checks `text` as what the agent runs on. `file` names it in problems, and
/// tells TOML from JSON.
///
/// # Errors
/// Every problem there is.
pub fn check(text: &str, file: &str) -> Result<Checked<Config>, Refused> {
    let (document, parts, report) = walk(text, file, Purpose::Run)?;
    let hash = document.hash();
    finish(build(parts, &hash), hash.clone(), report)
}

fn build(parts: Parts, hash: &str) -> Option<Config> {
    Some(Config {
        pipeline: parts.pipeline?,
        devices: parts.brokers.devices,
        uplink: Some(parts.brokers.uplink?),
        listener: parts.listener?.map(|listener| listener.spec),
        storage: parts.storage?,
        control: parts.control,
        remote: parts.remote?,
        local: parts.local,
        hash: hash.to_owned(),
    })
}

/// Checks `text` as what a replay runs on: brokers and storage may be absent,
/// but are checked when they are there.
///
/// # Errors
/// Every problem there is.
pub fn check_for_replay(text: &str, file: &str) -> Result<Checked<PipelineSpec>, Refused> {
    let (document, parts, report) = walk(text, file, Purpose::Replay)?;
    finish(parts.pipeline, document.hash(), report)
}

/// Checks `text` as what the listener alone runs on: of everything else, only where state lies.
///
/// # Errors
/// Every problem there is.
pub fn check_for_broker(text: &str, file: &str) -> Result<Checked<Config>, Refused> {
    let (document, parts, report) = walk(text, file, Purpose::Broker)?;
    let hash = document.hash();
    let build = |parts: Parts| {
        Some(Config {
            pipeline: parts.pipeline?,
            devices: None,
            uplink: None,
            listener: parts.listener?.map(|listener| listener.spec),
            storage: parts.storage?,
            control: parts.control,
            remote: None,
            local: None,
            hash: hash.clone(),
        })
    };
    finish(build(parts), hash.clone(), report)
}

/// Where the control socket of an agent or a broker with this file is, whatever else stands in it.
///
/// # Errors
/// Every problem there is, where that could not be found out.
pub fn control_socket(text: &str, file: &str) -> Result<Option<PathBuf>, Refused> {
    let (_, parts, report) = walk(text, file, Purpose::Broker)?;
    let (problems, warnings) = report.into_parts();
    let about_it = |problem: &Problem| problem.path.starts_with("control");
    match parts.control {
        None if problems.iter().any(about_it) => Err(Refused { problems, warnings }),
        control => Ok(control),
    }
}

fn finish<T>(config: Option<T>, hash: String, report: Report) -> Result<Checked<T>, Refused> {
    let (problems, warnings) = report.into_parts();
    match config {
        Some(config) if problems.is_empty() => Ok(Checked { config, hash, warnings }),
        Some(_) | None => {
            assert!(!problems.is_empty(), "what could not be built has been reported");
            Err(Refused { problems, warnings })
        }
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

fn walk(text: &str, file: &str, purpose: Purpose) -> Result<(Document, Parts, Report), Refused> {
    let (document, mut report) = parse(text, Format::of(file), file)?;
    let parts = all_parts(document.clone(), purpose, &mut report);
    Ok((document, parts, report))
}

fn parse(text: &str, format: Format, file: &str) -> Result<(Document, Report), Refused> {
    let mut report = Report::new(file);
    match Document::parse(text, format) {
        Ok(document) => Ok((document, report)),
        Err(errors) => {
            for error in errors {
                let spot = Spot { place: error.place, ..Spot::default() };
                report.problem(&spot, Wrong::new(error.message));
            }
            let (problems, warnings) = report.into_parts();
            Err(Refused { problems, warnings })
        }
    }
}

fn all_parts(mut whole: Document, purpose: Purpose, report: &mut Report) -> Parts {
    preset::expand(&mut whole, report);
    match Table::open(whole.root(), "", &keys::ROOT, report) {
        Some(root) => parts(&root, purpose, report),
        None => Parts {
            pipeline: None,
            brokers: Brokers::default(),
            listener: None,
            storage: None,
            control: None,
            remote: None,
            local: None,
        },
    }
}

fn parts(root: &Table<'_>, purpose: Purpose, report: &mut Report) -> Parts {
    let gateway = section(root, "gateway", &keys::GATEWAY, true, report);
    let id = gateway.as_ref().and_then(|gateway| gateway.parsed("id", "a string", report, name));
    let prefix = gateway.as_ref().and_then(|gateway| gateway.parsed("topic_prefix", "a string", report, topic_prefix));
    let encodings = Encoding::ALL.map(|encoding| (encoding.as_str(), encoding));
    let encoding = gateway.as_ref().and_then(|gateway| gateway.choice("encoding", &encodings, report));
    let needed = purpose != Purpose::Replay;
    let devices = section(root, "devices", &keys::BROKER, false, report);
    let uplink = section(root, "uplink", &keys::UPLINK, purpose == Purpose::Run, report);
    let brokers = broker::check(devices.as_ref(), uplink.as_ref(), id.as_ref(), report);

    let storage = section(root, "storage", &keys::STORAGE, needed, report);
    let path = storage.as_ref().filter(|storage| needed || storage.get("path").is_some());
    let path = path.and_then(|storage| storage.parsed("path", "a path", report, path_of));
    // An absent section was reported where it is needed; its defaults are valid.
    let storage = storage.unwrap_or_else(|| Table::absent("storage", &keys::STORAGE));
    let reserve = storage.parsed("reserve", scalar::SIZE, report, |text| scalar::size(text, RESERVE_BYTES));
    let commit = commit(&storage, report);
    if let (Some(commit), Some(table)) = (commit, &devices) {
        let keep_alive = brokers.devices.as_ref().map(|broker| broker.keep_alive);
        budget::warn(table, keep_alive, commit.interval, commit.budget, report);
    }
    let outbox = outbox::check(root, report);

    let control = section(root, "control", &keys::CONTROL, false, report);
    let control = control.and_then(|control| control.parsed("socket", "a path", report, socket));
    let listener = listener::check(root, needed, commit, control.as_deref(), report);
    if let Some(Some(listener)) = &listener {
        let own = [(devices.as_ref(), brokers.devices.as_ref()), (uplink.as_ref(), brokers.uplink.as_ref())];
        listener::sockets::check_brokers(&listener.spec.sockets, own, report);
    }
    let remote = section(root, "remote", &keys::REMOTE, false, report);
    let remote = remote.unwrap_or_else(|| Table::absent("remote", &keys::REMOTE));
    let remote = remote::check(&remote, devices.is_some(), report);
    let local_table = section(root, "local", &keys::LOCAL, false, report);
    let local = local_table.as_ref().and_then(|table| local::check(table, report));
    let streams = match purpose {
        Purpose::Run | Purpose::Replay => stream::check_all(root, report),
        Purpose::Broker => Some(Vec::new()),
    };
    let joins = join::check_all(root, streams.as_deref(), report);
    let pipeline = || {
        let (outbox, uplink) = outbox?;
        let uplink = UplinkPolicy { compressed: brokers.compress, ..uplink };
        Some(PipelineSpec {
            gateway: id?,
            topic_prefix: prefix?,
            encoding: encoding?,
            outbox,
            uplink,
            streams: streams?,
            joins: joins?,
            commit: commit?,
            local: local_table.is_some(),
            broker: listener.as_ref()?.as_ref().map(|listener| listener.limits),
        })
    };
    let pipeline = pipeline();
    if let (Some(pipeline), Some(table)) = (&pipeline, &local_table) {
        local::check_loops(pipeline, &table.spot(), report);
    }
    let storage = path.zip(reserve).map(|(path, reserve_bytes)| StorageSpec { path, reserve_bytes });
    Parts { pipeline, brokers, listener, storage, control, remote, local }
}

fn section<'t>(
    root: &Table<'t>,
    key: &str,
    section: &'static keys::Section,
    needed: bool,
    report: &mut Report,
) -> Option<Table<'t>> {
    let item = if needed { root.required(key, report) } else { root.get(key) };
    Table::open_item(&item?, section, report)
}

fn commit(storage: &Table<'_>, report: &mut Report) -> Option<CommitSpec> {
    let span = |key, range: core::ops::RangeInclusive<Span>, report: &mut Report| {
        storage.parsed(key, scalar::DURATION, report, |text| scalar::span(text, range.clone()))
    };
    let interval = span("commit_interval", COMMIT_INTERVAL, report);
    let snapshot_interval = span("snapshot_interval", SNAPSHOT_INTERVAL, report);
    let budget = budget::check(storage, interval, report);
    let commit = CommitSpec { interval: interval?, snapshot_interval: snapshot_interval?, budget };
    if commit.snapshot_interval < commit.interval {
        let wrong = format!("must not be below commit_interval ({})", scalar::show(commit.interval));
        report.problem(&storage.spot_of("snapshot_interval"), Wrong::new(wrong));
    }
    Some(commit)
}

/// A name of ours: gateway, stream, window, field.
fn name(text: &str) -> Result<Name, Wrong> {
    Name::new(text).ok_or_else(|| Wrong::new("must be a name: 1 to 64 bytes without control characters"))
}

fn topic_prefix(text: &str) -> Result<String, Wrong> {
    if !is_prefix(text) {
        return Err(Wrong::new(format!(
            "must be levels of a topic: up to {MQTT_NAME_BYTES} bytes, no wildcards, no empty level, no `$` at the start"
        ))
        .hint("such as \"tidegate\" or \"site-7/tidegate\""));
    }
    Ok(text.to_owned())
}

fn path_of(text: &str) -> Result<PathBuf, Wrong> {
    if text.contains('\0') { Err(Wrong::new("must not hold NUL")) } else { Ok(PathBuf::from(text)) }
}

fn socket(text: &str) -> Result<PathBuf, Wrong> {
    if text.len() > SOCKET_PATH_BYTES {
        return Err(Wrong::new(format!(
            "must be at most {SOCKET_PATH_BYTES} bytes: Linux takes no longer socket path"
        )));
    }
    path_of(text)
}

/// The items of the list `key`, at least one and at most `max`.
fn items<'t>(table: &Table<'t>, key: &str, max: usize, report: &mut Report) -> Option<Vec<Item<'t>>> {
    let item = table.get(key)?;
    let items = item.list(report)?;
    if items.len() > max {
        report.problem(&item.spot, Wrong::new(format!("has {} items, at most {max} are allowed", items.len())));
    }
    Some(items)
}
