//! `tidegate receive`: the reference consumer. Applies the uplink contract and
//! writes the end state; the worked example for whoever writes a real one.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::agent::clock::SystemClock;
use crate::agent::interrupt::Interrupt;
use crate::agent::mqtt::client::{ClientError, ClientSpec, Received, Subscriber};
use crate::agent::mqtt::dial::authority;
use crate::agent::uplink::packing::unpack;
use crate::fleet::receiver::{Counts, Receiver};
use crate::model::time::{ProcTime, Span};
use crate::model::topic::is_prefix;

use super::broker_url::BrokerUrl;

/// Between two looks at the flag of the signals.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Receives what a gateway publishes and writes the end state: one JSON object
/// per line, panes by id, then deltas, readings, late records, gaps and alarms.
///
/// Ends after --until-idle or --records, or at SIGINT or SIGTERM; the file is
/// written then, whole or not at all. Exit code 1 when the contract was broken:
/// missing sequence numbers, two records under one identity, foreign messages.
/// Also when the broker refuses the login or the subscription, or was not there when the time
/// of --until-idle was over; without any subscription the file stays as it is.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cloud's broker, such as `mqtt://127.0.0.1:1884`
    #[arg(long, value_name = "URL")]
    pub broker: BrokerUrl,

    /// Format and file of the end state; the format is `ndjson`
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], required = true)]
    pub to: Vec<PathBuf>,

    /// First levels of the gateways' topics
    #[arg(long, value_name = "PREFIX", default_value = "tidegate", value_parser = prefix)]
    pub topic_prefix: String,

    /// End when nothing has come for so long, from the first subscription on
    #[arg(long, value_name = "SECONDS")]
    pub until_idle: Option<u64>,

    /// End when the end state has so many records
    #[arg(long, value_name = "N")]
    pub records: Option<usize>,

    /// MQTT client id; with the same one, the broker keeps what comes between two runs. The file holds what one run received
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
}

/// What a run knows of its broker.
struct Course {
    clock: SystemClock,
    /// The last message, or the last change of `subscribed`.
    since: ProcTime,
    /// The broker has granted the subscription, on a connection that is there.
    subscribed: bool,
    /// On any connection.
    ever_subscribed: bool,
    /// Why there is no connection; empty: nothing went wrong yet, or not since the last one.
    problem: String,
}

/// Why a run ended.
#[derive(Debug)]
enum End {
    /// A signal.
    Asked,
    /// As many records as were wanted, or the time without any is over.
    Enough,
    /// There was no connection when the time was over: the last problem with it.
    Away(String),
    /// The broker said no, and would again.
    Refused(ClientError),
}

/// Runs until told to end.
///
/// # Errors
/// When the file cannot be written, or nothing could be received.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = target(&args.to)?;
    // Not after an hour of receiving.
    try_file(file).with_context(|| format!("cannot write {}", file.display()))?;
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    // A session of its own while it runs: a torn connection loses nothing.
    let own_id = args.client_id.clone().unwrap_or_else(|| format!("tidegate-receive-{}", std::process::id()));
    let client = args.broker.client(&own_id, false);
    let (receiver, end, ever_subscribed) = receive(&args, client, &interrupt);
    let broker = authority(&args.broker.host, args.broker.port);
    let failure = match end {
        End::Asked if !ever_subscribed => Some(format!("ended before {broker} granted the subscription")),
        End::Asked | End::Enough => None,
        End::Away(problem) => Some(format!("{broker}: {problem}")),
        End::Refused(error) => Some(format!("{broker}: {error}{}", hint(&error))),
    };
    let code = if ever_subscribed {
        write_end_state(&receiver, file).with_context(|| format!("cannot write {}", file.display()))?;
        report(&receiver, file)
    } else {
        eprintln!("nothing received; {} is left as it was", file.display());
        ExitCode::FAILURE
    };
    failure.map_or(Ok(code), |failure| Err(anyhow::anyhow!(failure)))
}

pub(super) fn prefix(text: &str) -> Result<String, String> {
    if is_prefix(text) {
        return Ok(text.to_owned());
    }
    Err("expected levels of a topic, without wildcards, empty levels, or `$` at the start; \
         such as tidegate or site-7/tidegate"
        .into())
}

fn target(to: &[PathBuf]) -> anyhow::Result<&Path> {
    match to {
        [format, file] if format.as_os_str() == "ndjson" => Ok(file),
        [format, _] => anyhow::bail!("--to {}: the only format is `ndjson`", format.display()),
        _ => anyhow::bail!("--to needs a format and a file: --to ndjson FILE"),
    }
}

/// What came in, why it ended, and whether there ever was a subscription.
fn receive(args: &Args, client: ClientSpec, interrupt: &Interrupt) -> (Receiver, End, bool) {
    let filter = format!("{}/+/data/+", args.topic_prefix);
    let broker = authority(&args.broker.host, args.broker.port);
    let mut receiver = Receiver::new();
    let mut subscriber = Subscriber::new(client, &[&filter]);
    let mut course = Course::start();
    let end = loop {
        if let Some(end) = course.end(args, &receiver, interrupt.is_set()) {
            break end;
        }
        match subscriber.next(LOOK_AGAIN) {
            Received::Message(message) => {
                course.since = course.clock.proc();
                // What cannot be unpacked is refused, and counted, as it is.
                let payload = unpack(&message.payload).unwrap_or_else(|| message.payload.to_vec());
                if let Err(refused) = receiver.handle_message(&payload) {
                    eprintln!("{}: {refused}", message.topic);
                }
                // Only now: what is not applied has to come again.
                subscriber.ack(&message);
            }
            Received::Subscribed(resumed) => {
                course.handle_subscribed();
                eprintln!("receiving {filter} from {broker}");
                if !resumed && receiver.records() > 0 {
                    eprintln!("the broker forgot this session: what it got meanwhile is missing");
                }
            }
            Received::Lost(error) if error.is_permanent() => break End::Refused(error),
            Received::Lost(error) => {
                if let Some(problem) = course.handle_lost(&error) {
                    eprintln!("{broker}: {problem}; trying again");
                }
            }
            Received::Nothing => {}
        }
    };
    if args.client_id.is_some() {
        subscriber.close();
    } else if course.ever_subscribed {
        subscriber.forget();
    }
    (receiver, end, course.ever_subscribed)
}

impl Course {
    fn start() -> Course {
        let clock = SystemClock::start();
        Course { clock, since: clock.proc(), subscribed: false, ever_subscribed: false, problem: String::new() }
    }

    fn handle_subscribed(&mut self) {
        (self.subscribed, self.ever_subscribed) = (true, true);
        self.since = self.clock.proc();
        self.problem.clear();
    }

    /// What is to be told: nothing when the last attempt ended alike.
    fn handle_lost(&mut self, error: &ClientError) -> Option<&str> {
        if self.subscribed {
            self.subscribed = false;
            self.since = self.clock.proc();
        }
        let problem = error.to_string();
        let is_new = problem != self.problem;
        self.problem = problem;
        is_new.then_some(&self.problem)
    }

    fn end(&self, args: &Args, receiver: &Receiver, asked: bool) -> Option<End> {
        if asked {
            return Some(End::Asked);
        }
        if self.ever_subscribed && args.records.is_some_and(|records| receiver.records() >= records) {
            return Some(End::Enough);
        }
        let silent = self.clock.proc().since(self.since);
        if args.until_idle.is_none_or(|secs| silent < Span::from_secs(secs)) {
            return None;
        }
        if self.subscribed {
            return Some(End::Enough);
        }
        // The first attempt is waited for, however short the time is.
        (!self.problem.is_empty()).then(|| End::Away(self.problem.clone()))
    }
}

/// What helps, where that is known.
fn hint(error: &ClientError) -> &'static str {
    match error {
        ClientError::Refused(_) => {
            "\n    hint: `receive` has no user name and no certificate; the broker has to let such clients in"
        }
        ClientError::NotSubscribed(_) => "\n    hint: --topic-prefix is that of the gateways (`gateway.topic_prefix`)",
        ClientError::Foreign(_) => "\n    hint: `receive` speaks plain MQTT over TCP",
        ClientError::NoConnection(_)
        | ClientError::Io(_)
        | ClientError::Protocol(_)
        | ClientError::TurnedAway
        | ClientError::Closed
        | ClientError::Silent => "",
    }
}

/// That the file could be written, without touching it.
fn try_file(file: &Path) -> std::io::Result<()> {
    if file.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    let temporary = temporary(file);
    File::create(&temporary)?;
    fs::remove_file(&temporary)
}

fn temporary(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    file.with_file_name(name)
}

/// The new file beside the old one, then the name: a reader sees one of them.
fn write_end_state(receiver: &Receiver, file: &Path) -> std::io::Result<()> {
    let temporary = temporary(file);
    let write = || -> std::io::Result<()> {
        let mut out = BufWriter::new(File::create(&temporary)?);
        for record in receiver.end_state() {
            serde_json::to_writer(&mut out, record)?;
            out.write_all(b"\n")?;
        }
        out.into_inner()?.sync_all()?;
        fs::rename(&temporary, file)
    };
    write().inspect_err(|_| {
        // The error that counts is the first one.
        let _ = fs::remove_file(&temporary);
    })
}

/// What has become of the records. Those that are not in the file were there before, or stood
/// under an identity that has a later revision, or differ from what had it first.
fn tallied(counts: Counts, held: usize, file: &Path) -> String {
    let others = counts.repeats + counts.conflicts + u64::try_from(held).unwrap_or(u64::MAX);
    let replaced = counts.records.saturating_sub(others);
    let plural = if counts.records == 1 { "" } else { "s" };
    format!(
        "{} record{plural} received: {held} in {}, {replaced} replaced by a later revision, {} repeated",
        counts.records,
        file.display(),
        counts.repeats
    )
}

fn report(receiver: &Receiver, file: &Path) -> ExitCode {
    let counts = receiver.counts();
    eprintln!("{}", tallied(counts, receiver.records(), file));
    let holes = receiver.holes();
    for hole in &holes {
        let lane = &hole.lane;
        eprintln!("missing: {} epoch {} lane {} seq {}..={}", lane.gw, lane.epoch, lane.lane, hole.first, hole.last);
    }
    if counts.conflicts > 0 {
        eprintln!("conflicts: {} records differ from an earlier one of the same identity", counts.conflicts);
    }
    if counts.refused > 0 {
        eprintln!("refused: {} messages were no uplink envelopes", counts.refused);
    }
    ExitCode::from(u8::from(!holes.is_empty() || counts.conflicts > 0 || counts.refused > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_state_replaces_the_file_at_once_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state.ndjson");
        fs::write(&file, "old").unwrap();
        let mut receiver = Receiver::new();
        let envelope = br#"{"v":1,"gw":"g","epoch":1,"lane":"live","records":[
            {"kind":"pane","id":"b","rev":0,"seq":0},{"kind":"pane","id":"a","rev":0,"seq":1}]}"#;
        receiver.handle_message(envelope).unwrap();
        write_end_state(&receiver, &file).unwrap();

        let text = fs::read_to_string(&file).unwrap();
        let ids: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(write_end_state(&receiver, &dir.path().join("missing/state")).is_err());
    }

    #[test]
    fn every_record_that_came_is_in_the_last_line() {
        let mut receiver = Receiver::new();
        let records = r#"{"kind":"pane","id":"a","rev":0,"seq":0},{"kind":"pane","id":"a","rev":1,"seq":1},
            {"kind":"pane","id":"a","rev":0,"seq":2},{"kind":"pane","id":"b","rev":0,"seq":3}"#;
        let envelope = format!(r#"{{"v":1,"gw":"g","epoch":1,"lane":"live","records":[{records}]}}"#);
        receiver.handle_message(envelope.as_bytes()).unwrap();
        receiver.handle_message(envelope.as_bytes()).unwrap();
        let told = tallied(receiver.counts(), receiver.records(), Path::new("f"));
        assert_eq!(told, "8 records received: 2 in f, 4 replaced by a later revision, 2 repeated");
    }

    #[test]
    fn a_prefix_with_a_wildcard_is_refused_before_the_broker_is_asked() {
        assert_eq!(prefix("site-7/tidegate"), Ok("site-7/tidegate".to_owned()));
        for wrong in ["bad/#", "+", "", "a//b", "/a", "$SYS"] {
            assert!(prefix(wrong).unwrap_err().contains("without wildcards"), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_is_found_before_anything_is_received() {
        let dir = tempfile::tempdir().unwrap();
        assert!(try_file(&dir.path().join("state.ndjson")).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
        assert!(try_file(&dir.path().join("missing/state")).is_err());
        assert!(try_file(dir.path()).is_err(), "a directory");
    }

    #[test]
    fn another_format_is_named_in_the_error() {
        let error = target(&["csv".into(), "x".into()]).unwrap_err().to_string();
        assert!(error.contains("csv") && error.contains("ndjson"), "{error}");
    }
}
