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
use crate::agent::mqtt::client::{ClientSpec, Received, Subscriber};
use crate::agent::uplink::packing::unpack;
use crate::fleet::receiver::Receiver;
use crate::model::time::Span;

use super::broker_url::BrokerUrl;

/// Between two looks at the flag of the signals.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Receives what a gateway publishes and writes the end state: one JSON object
/// per line, panes by id, then deltas, readings, late records, gaps and alarms.
///
/// Ends after --until-idle or --records, or at SIGINT or SIGTERM; the file is
/// written then, whole or not at all. Exit code 1 when the contract was broken:
/// missing sequence numbers, two records under one identity, foreign messages.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cloud's broker, such as `mqtt://127.0.0.1:1884`
    #[arg(long, value_name = "URL")]
    pub broker: BrokerUrl,

    /// Format and file of the end state; the format is `ndjson`
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], required = true)]
    pub to: Vec<PathBuf>,

    /// First levels of the gateways' topics
    #[arg(long, value_name = "PREFIX", default_value = "tidegate")]
    pub topic_prefix: String,

    /// End when nothing has come for so long
    #[arg(long, value_name = "SECONDS")]
    pub until_idle: Option<u64>,

    /// End when the end state has so many records
    #[arg(long, value_name = "N")]
    pub records: Option<usize>,

    /// MQTT client id; with the same one, the broker keeps what comes between two runs. The file holds what one run received
    #[arg(long, value_name = "ID")]
    pub client_id: Option<String>,
}

/// Runs until told to end.
///
/// # Errors
/// When the file cannot be written.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = target(&args.to)?;
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    // A session of its own while it runs: a torn connection loses nothing.
    let own_id = args.client_id.clone().unwrap_or_else(|| format!("tidegate-receive-{}", std::process::id()));
    let client = args.broker.client(&own_id, false);
    let receiver = receive(&args, client, &interrupt);
    write_end_state(&receiver, file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(report(&receiver, file))
}

fn target(to: &[PathBuf]) -> anyhow::Result<&Path> {
    match to {
        [format, file] if format.as_os_str() == "ndjson" => Ok(file),
        [format, _] => anyhow::bail!("--to {}: the only format is `ndjson`", format.display()),
        _ => anyhow::bail!("--to needs a format and a file: --to ndjson FILE"),
    }
}

fn receive(args: &Args, client: ClientSpec, interrupt: &Interrupt) -> Receiver {
    let filter = format!("{}/+/data/+", args.topic_prefix);
    let mut receiver = Receiver::new();
    let mut subscriber = Subscriber::new(client, &[&filter]);
    let clock = SystemClock::start();
    let mut heard = clock.proc();
    let mut lost = false;
    while !interrupt.is_set() && !is_enough(args, &receiver, clock.proc().since(heard)) {
        match subscriber.next(LOOK_AGAIN) {
            Received::Message(message) => {
                heard = clock.proc();
                // What cannot be unpacked is refused, and counted, as it is.
                let payload = unpack(&message.payload).unwrap_or_else(|| message.payload.to_vec());
                if let Err(refused) = receiver.handle_message(&payload) {
                    eprintln!("{}: {refused}", message.topic);
                }
                // Only now: what is not applied has to come again.
                subscriber.ack(&message);
            }
            Received::Subscribed(resumed) => {
                eprintln!("receiving {filter} from {}:{}", args.broker.host, args.broker.port);
                if !resumed && receiver.records() > 0 {
                    eprintln!("the broker forgot this session: what it got meanwhile is missing");
                }
                lost = false;
            }
            Received::Lost(error) if !lost => {
                eprintln!("no connection to {}:{}, trying again: {error}", args.broker.host, args.broker.port);
                lost = true;
            }
            Received::Lost(_) | Received::Nothing => {}
        }
    }
    if args.client_id.is_none() {
        subscriber.forget();
    } else {
        subscriber.close();
    }
    receiver
}

fn is_enough(args: &Args, receiver: &Receiver, silent: Span) -> bool {
    args.until_idle.is_some_and(|secs| silent >= Span::from_secs(secs))
        || args.records.is_some_and(|records| receiver.records() >= records)
}

/// The new file beside the old one, then the name: a reader sees one of them.
fn write_end_state(receiver: &Receiver, file: &Path) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = file.with_file_name(name);
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

fn report(receiver: &Receiver, file: &Path) -> ExitCode {
    let counts = receiver.counts();
    eprintln!(
        "{} records received ({} repeated, {} superseded); {} in {}",
        counts.records,
        counts.repeats,
        counts.superseded,
        receiver.records(),
        file.display()
    );
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
    fn another_format_is_named_in_the_error() {
        let error = target(&["csv".into(), "x".into()]).unwrap_err().to_string();
        assert!(error.contains("csv") && error.contains("ndjson"), "{error}");
    }
}
