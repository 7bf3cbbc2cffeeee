//! `tidegate outbox`: what waits for the cloud, looked at, checked, copied out, repaired.

mod export;
mod inspect;
mod repair;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use serde_json::Value;

use crate::agent::outbox::source::Source;
use crate::config::boot::Config;
use crate::config::check::check;
use crate::engine::outbox::LaneKind;
use crate::model::time::EventTime;

use super::read_text;
use super::run::CONFIG_DEFAULT;

/// Stands in records for a gateway whose id is nowhere to be found.
const UNKNOWN: &str = "unknown";

/// Looks into the outbox: what waits for the cloud. Of a running agent over its control
/// socket, else in its files; a damaged directory gives what can be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inspect(inspect::Args),
    Verify(verify::Args),
    Export(export::Args),
    Repair(repair::Args),
}

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// What it cannot deal with; the text is for a person.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Inspect(args) => inspect::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Export(args) => export::run(args),
        Command::Repair(args) => repair::run(args),
    }
}

/// Where the outbox is.
#[derive(Debug, clap::Args)]
struct Place {
    /// Configuration file that names the control socket and the state's directory
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,

    /// Control socket of a running agent, instead of the configuration
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "dir"])]
    socket: Option<PathBuf>,

    /// The state's directory (`storage.path`) of an agent that does not run, instead of the configuration
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    dir: Option<PathBuf>,

    /// With --dir: the gateway's id, which no file there has. The ids of records begin with it
    #[arg(long, value_name = "ID", conflicts_with_all = ["config", "socket"], default_value = UNKNOWN)]
    gateway: String,
}

impl Place {
    /// The running agent, or its files.
    fn source(&self) -> anyhow::Result<Source> {
        if let Some(socket) = &self.socket {
            let Some(source) = Source::running(socket) else {
                bail!(
                    "no agent answers on {}\n    hint: is it running, and may you use the socket? Of one that does not run, \
                     --dir names the files",
                    socket.display()
                );
            };
            return Ok(source);
        }
        if let Some(dir) = &self.dir {
            return Source::stopped(dir, &self.gateway);
        }
        let config = read_config(&self.config)?;
        let running = config.control.as_deref().and_then(Source::running);
        running.map_or_else(|| Source::stopped(&config.storage.path, config.pipeline.gateway.as_str()), Ok)
    }
}

pub(super) fn read_config(file: &std::path::Path) -> anyhow::Result<Config> {
    let text = read_text(file).map_err(|error| {
        anyhow::anyhow!(
            "{error}\n    hint: --config FILE names the configuration; without one, --socket PATH the running agent or \
             --dir DIR the files"
        )
    })?;
    match check(&text, &file.display().to_string()) {
        Ok(checked) => Ok(checked.config),
        Err(_) => {
            bail!("{0} has problems: `tidegate check {0}` lists them; --socket and --dir do without it", file.display())
        }
    }
}

fn lane(text: &str) -> Result<LaneKind, String> {
    let names = || LaneKind::ALL.map(LaneKind::as_str);
    let found = LaneKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    found.ok_or_else(|| format!("the lanes are {}", names().join(", ")))
}

/// Milliseconds since 1970, or RFC 3339.
fn time(text: &str) -> Result<EventTime, String> {
    let millis = text.parse::<i64>().ok();
    let millis = millis.or_else(|| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond));
    millis
        .map(EventTime::from_millis)
        .ok_or_else(|| "a time is RFC 3339 with an offset, or milliseconds since 1970".to_owned())
}

/// A time as people read it.
pub(super) fn shown(millis: &Value) -> String {
    let time = millis.as_i64().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| "?".to_owned(), |time| time.to_string())
}

/// One lane of an overview: its position after the last row.
fn past_of(overview: &Value, lane: LaneKind) -> u64 {
    of_lane(overview, lane)["past"].as_u64().unwrap_or(0)
}

fn of_lane(overview: &Value, lane: LaneKind) -> &Value {
    &overview["lanes"][lane as usize]
}

/// What the files have told on the way here, for people.
fn complaints(overview: &Value) -> Vec<String> {
    let texts = |name: &str| overview[name].as_array().into_iter().flatten().filter_map(Value::as_str);
    texts("damage").map(|text| format!("damaged: {text}")).chain(texts("faults").map(str::to_owned)).collect()
}

/// Said when what was read may be outdated.
fn say_if_overtaken(source: &Source) {
    if source.is_overtaken() {
        eprintln!("an agent has started meanwhile: what it sent or made is not in this; ask it with --socket");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_times_are_read_and_wrong_ones_say_what_is_right() {
        assert_eq!(lane("backlog"), Ok(LaneKind::Backlog));
        assert!(lane("fast").unwrap_err().contains("alarm, live, update, backlog, late"));
        assert_eq!(time("1700000000000"), time("2023-11-14T22:13:20Z"));
        assert!(time("yesterday").unwrap_err().contains("RFC 3339"));
    }
}
