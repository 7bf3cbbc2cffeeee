//! `tidegate quarantine`: what devices sent that was rejected, looked at and taken in again.

mod list;
mod replay;
mod show;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Subcommand;
use serde_json::Value;

use crate::agent::control;
use crate::agent::rejected::query::{self, Query};
use crate::agent::rejected::source::Source;
use crate::model::ids::Name;
use crate::model::record::RejectReason;

use super::outbox::read_config;
use super::printable::{is_plain, printable};
use super::run::CONFIG_DEFAULT;

/// Shows samples of the messages that were rejected, and why; once the configuration is mended, has
/// them taken in again. Of a running agent over its control socket, else in its files.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Replay(replay::Args),
}

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// What it cannot deal with; the text is for a person.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::List(args) => list::run(args),
        Command::Show(args) => show::run(args),
        Command::Replay(args) => replay::run(args),
    }
}

/// Where the samples are.
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
            return Source::stopped(dir);
        }
        let config = read_config(&self.config)?;
        let running = config.control.as_deref().and_then(Source::running);
        running.map_or_else(|| Source::stopped(&config.storage.path), Ok)
    }

    /// The streams that can be meant.
    fn streams(&self, source: &Source) -> anyhow::Result<BTreeSet<String>> {
        let entries = source.answer(&Query::List)?;
        let mut known: BTreeSet<String> =
            items(&entries, "entries").iter().map(|entry| text(&entry["stream"]).to_owned()).collect();
        if let Source::Running(socket) = source {
            // Without its answer, those of the samples are known.
            let status = control::ask(socket, "status").ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
            let status = status.unwrap_or_default();
            known.extend(items(&status["engine"], "streams").iter().map(|stream| text(&stream["name"]).to_owned()));
        } else if self.dir.is_none() {
            let config = read_config(&self.config)?;
            known.extend(config.pipeline.streams.iter().map(|stream| stream.name.as_str().to_owned()));
        }
        Ok(known)
    }
}

/// That there is such a stream: one of the configuration, or one of which samples are left.
///
/// # Errors
/// There is none; says which there are.
fn check_stream(wanted: &Name, known: &BTreeSet<String>) -> anyhow::Result<()> {
    if known.contains(wanted.as_str()) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(|name| printable(name)).collect();
    let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
    bail!("there is no stream \"{}\"\n    hint: the streams: {known}", printable(wanted.as_str()))
}

fn stream(text: &str) -> Result<Name, String> {
    Name::new(text).ok_or_else(|| "a stream's name has 1 to 64 bytes, and no control characters".to_owned())
}

fn reason(text: &str) -> Result<RejectReason, String> {
    let names = || RejectReason::ALL.map(RejectReason::as_str).join(", ");
    query::reason(text).ok_or_else(|| format!("the reasons are {}", names()))
}

/// `stream/reason number`, of a sample in a document.
fn title(sample: &Value) -> String {
    format!("{}/{} {}", printable(text(&sample["stream"])), text(&sample["reason"]), sample["n"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn items<'a>(document: &'a Value, name: &str) -> &'a [Value] {
    document[name].as_array().map_or(&[][..], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_sends_cannot_write_to_the_terminal() {
        assert_eq!(printable("d/ä 1"), "d/ä 1");
        assert_eq!(printable("\u{1b}[2J\u{202e}x\n"), "\\u{1b}[2J\\u{202e}x\\n");
    }

    #[test]
    fn an_unknown_stream_is_told_those_there_are() {
        let known = BTreeSet::from(["climate".to_owned(), "power".to_owned()]);
        let name = |text| Name::new(text).unwrap();
        assert!(check_stream(&name("climate"), &known).is_ok());
        let error = check_stream(&name("climbate"), &known).unwrap_err().to_string();
        assert_eq!(error, "there is no stream \"climbate\"\n    hint: the streams: climate, power");
    }

    #[test]
    fn a_wrong_reason_is_told_the_right_ones() {
        assert_eq!(reason("not_json"), Ok(RejectReason::NotJson));
        assert!(reason("bad").unwrap_err().contains("not_json, too_deep"));
        assert!(stream("").unwrap_err().contains("64 bytes"));
    }
}
