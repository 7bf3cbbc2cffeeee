//! `tidegate status`: what a running agent says about itself.
//!
//! Exit code 0: it answers and is healthy. 3: it answers and is degraded, or it
//! refused the request. 1: there is no agent, or no configuration that says where.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use serde_json::Value;

use crate::agent::control;
use crate::config::check::control_socket;

use crate::model::time::Span;

use super::read_text;
use super::run::CONFIG_DEFAULT;

const EXIT_DEGRADED: u8 = 3;
/// Before it, what was written says little about a day.
const PROJECT_AFTER: Span = Span::from_secs(3_600);

/// Asks a running agent how it is, over its control socket.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Control socket; the configuration's by default
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Configuration file that names the control socket
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    pub config: PathBuf,

    /// Print the whole document as JSON
    #[arg(long)]
    pub json: bool,
}

/// Asks, prints, ends.
///
/// # Errors
/// Nobody answers.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let socket = match args.socket {
        Some(socket) => socket,
        None => configured(&args.config)?,
    };
    let text = control::ask(&socket, "status").map_err(|error| control::no_answer(&socket, &error))?;
    let document: Value = serde_json::from_str(&text).context("the answer is not JSON")?;
    let healthy = document["health"]["state"] == "ok";
    let shown = if args.json { text + "\n" } else { summary(&document) };
    // A closed pipe is no reason to change the verdict.
    let _ = io::stdout().lock().write_all(shown.as_bytes());
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DEGRADED) })
}

/// Where the agent, or the broker, of this file listens; only its `[control]` counts.
fn configured(file: &Path) -> anyhow::Result<PathBuf> {
    let shown = file.display();
    let text = read_text(file).map_err(|error| {
        anyhow!("{error}\n    hint: --config FILE names the agent's file, or --socket PATH its control socket")
    })?;
    let Ok(control) = control_socket(&text, &shown.to_string()) else {
        bail!(
            "{shown} has problems: `tidegate check {shown}` lists them\n    hint: --socket PATH does without the file"
        );
    };
    control.ok_or_else(|| {
        anyhow!(
            "{shown} has no control socket\n    hint: add `[control]` with `socket = \"/run/tidegate/control.sock\"`, \
             and start the agent again"
        )
    })
}

/// A few lines for a person; everything is in the JSON.
fn summary(document: &Value) -> String {
    if let Some(error) = document["error"].as_str() {
        return format!("the agent refuses: {error}\n");
    }
    let mut out = String::new();
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let uptime_s = document["uptime_ms"].as_u64().unwrap_or(0) / 1_000;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{} {}  tidegate {}  up {uptime_s} s  clock {}",
        text(&document["gw"]),
        text(&document["state"]),
        text(&document["version"]),
        text(&document["clock"])
    );
    for reason in document["health"]["reasons"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "  ! {}", text(reason));
    }
    for name in ["devices", "uplink"] {
        let facts = &document[name];
        if facts.is_null() {
            continue;
        }
        let state = if facts["connected"] == true { "connected" } else { "not connected" };
        let _ = writeln!(out, "{name}: {state}, {} so far", counted(&facts["connections"], "connection"));
    }
    out.extend(listener(&document["listener"]));
    out.extend(broker(&document["engine"]["broker"]));
    for stream in document["engine"]["streams"].as_array().into_iter().flatten() {
        let ledger = &stream["ledger"];
        let _ = writeln!(
            out,
            "stream {}: {}, {}, received {}, accepted {}, rejected {}{}",
            text(&stream["name"]),
            counted(&stream["devices"], "device"),
            counted(&stream["open_windows"], "open window"),
            ledger["received"],
            ledger["accepted"],
            ledger["rejected"],
            others(ledger)
        );
    }
    for join in document["engine"]["joins"].as_array().into_iter().flatten() {
        let made = if join["kind"] == "window" { &join["ledger"]["joined"] } else { &join["pairs"] };
        let _ = writeln!(out, "join {}: {made} joined", text(&join["name"]));
    }
    for lane in document["engine"]["outbox"]["lanes"].as_array().into_iter().flatten() {
        let _ = writeln!(
            out,
            "outbox {}: queued {}, acked {}, held {}, evicted {}",
            text(&lane["lane"]),
            lane["queued"],
            lane["acked"],
            lane["held"],
            lane["evicted"]
        );
    }
    out.extend(wear(&document["wear"], Span::from_secs(uptime_s)));
    out
}

/// Who is connected to the agent itself, where devices can be, and what was refused.
fn listener(facts: &Value) -> Option<String> {
    let sockets = facts["sockets"].as_array()?.iter().filter_map(Value::as_str);
    let mut parts = vec![
        format!("{} connected", counted(&facts["connected"], "client")),
        format!("{} so far", counted(&facts["accepted"], "connection")),
    ];
    let sockets = sockets.collect::<Vec<_>>().join(" ");
    parts.push(if sockets.is_empty() { "no socket".to_owned() } else { sockets });
    let mut lines = format!("listener: {}\n", parts.join(", "));
    let refused = facts["refused"].as_object().into_iter().flatten();
    let refused: Vec<String> = refused.map(|(reason, count)| format!("{count} {reason}")).collect();
    if !refused.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "  refused: {}", refused.join(", "));
    }
    Some(lines)
}

/// What the broker keeps for the listener's clients.
fn broker(broker: &Value) -> Option<String> {
    let count = |names: &[&str]| names.iter().filter_map(|name| broker[name].as_u64()).sum::<u64>();
    broker["sessions"].as_u64()?;
    Some(format!(
        "broker: {}, {} queued, {} retained, {} dropped, {} evicted\n",
        counted(&broker["sessions"], "session"),
        count(&["queued"]),
        count(&["retained"]),
        count(&["dropped_queue_full", "dropped_slow"]),
        count(&["sessions_evicted"])
    ))
}

/// `1 device`, `2 devices`.
fn counted(count: &Value, what: &str) -> String {
    format!("{count} {what}{}", if count.as_u64() == Some(1) { "" } else { "s" })
}

/// Where else records of a stream have gone, and why they were rejected.
fn others(ledger: &Value) -> String {
    let counts = ["duplicate", "future", "ignored", "filtered"].into_iter();
    let counts = counts.filter(|name| ledger[name].as_u64() > Some(0)).map(|name| format!(", {name} {}", ledger[name]));
    let reasons = ledger["rejected_by"].as_object().into_iter().flatten();
    let reasons: Vec<String> = reasons.map(|(reason, count)| format!("{count} {reason}")).collect();
    let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
    format!("{reasons}{}", counts.collect::<String>())
}

/// What the flash is given: first what is ours. A day is not told from less than an hour, which
/// holds the start and little else.
fn wear(wear: &Value, uptime: Span) -> Option<String> {
    let written = wear["written_bytes"].as_u64()?;
    if uptime < PROJECT_AFTER {
        let written =
            if written < 1_000_000 { format!("{} kB", written / 1_000) } else { format!("{} MB", megabytes(written)) };
        return Some(format!("wear: {written} written by tidegate, by estimate; per day after an hour\n"));
    }
    let ours = wear["written_per_day"].as_u64()?;
    let mut line = format!("wear: {} MB a day by tidegate, by estimate", megabytes(ours));
    let budget = &wear["budget"];
    if let (Some(all), Some(share)) = (budget["bytes_per_day"].as_u64(), budget["share"].as_f64()) {
        let _ = write!(line, ", {:.0} % of the budget of {} MB", share * 100.0, megabytes(all));
    }
    if let (Some(device), Some(all)) = (wear["device"].as_str(), wear["bytes_per_day"].as_u64()) {
        let _ = write!(line, "; {} MB a day by everything on {device}", megabytes(all));
    }
    if let Some(bytes) = wear["bytes_per_reading"].as_f64() {
        let _ = write!(line, ", {bytes:.1} bytes a reading");
    }
    line.push('\n');
    Some(line)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_what_is_wrong_and_the_books() {
        let document = serde_json::json!({
            "gw": "gw-1", "state": "online", "version": "0.1.0", "uptime_ms": 61_500, "clock": "synced",
            "health": {"state": "degraded", "reasons": ["uplink not connected: refused"]},
            "devices": {"connected": true, "connections": 1},
            "uplink": {"connected": false, "connections": 0},
            "engine": {
                "streams": [{"name": "climate", "devices": 3, "open_windows": 4,
                    "ledger": {"received": 10, "accepted": 9, "rejected": 1}}],
                "joins": [{"kind": "window", "name": "w", "ledger": {"joined": 5}},
                    {"kind": "interval", "name": "i", "pairs": 6}],
                "outbox": {"lanes": [{"lane": "live", "queued": 7, "acked": 5, "held": 2, "evicted": 0}]},
            },
        });
        assert_eq!(
            summary(&document),
            "gw-1 online  tidegate 0.1.0  up 61 s  clock synced\n\
             \x20 ! uplink not connected: refused\n\
             devices: connected, 1 connection so far\n\
             uplink: not connected, 0 connections so far\n\
             stream climate: 3 devices, 4 open windows, received 10, accepted 9, rejected 1\n\
             join w: 5 joined\n\
             join i: 6 joined\n\
             outbox live: queued 7, acked 5, held 2, evicted 0\n"
        );
        let mut worn = document;
        worn["wear"] = serde_json::json!({"device": "mmcblk0p2", "bytes_per_day": 512_000_000, "bytes_per_reading": 21.25,
            "written_bytes": 7_000_000, "written_per_day": 500_000_000,
            "budget": {"bytes_per_day": 1_000_000_000, "share": 0.5}});
        let last = |document: &Value| summary(document).lines().last().map(str::to_owned);
        let early = "wear: 7.0 MB written by tidegate, by estimate; per day after an hour";
        assert_eq!(last(&worn).as_deref(), Some(early));
        worn["uptime_ms"] = 3_600_000.into();
        let late = "wear: 500.0 MB a day by tidegate, by estimate, 50 % of the budget of 1000.0 MB; 512.0 MB a day by \
                    everything on mmcblk0p2, 21.2 bytes a reading";
        assert_eq!(last(&worn).as_deref(), Some(late));
        assert_eq!(summary(&serde_json::json!({"error": "no"})), "the agent refuses: no\n");
    }

    #[test]
    fn of_a_gateway_that_is_the_devices_broker_itself_a_person_sees_its_clients() {
        let mut document = serde_json::json!({
            "gw": "gw-1", "state": "online", "version": "0.1.0", "uptime_ms": 1_000, "clock": "synced",
            "uplink": {"connected": true, "connections": 1},
            "listener": {"sockets": ["mqtt://127.0.0.1:1883", "mqtts://0.0.0.0:8883"], "connected": 1, "accepted": 4, "refused": {}},
        });
        let head = "gw-1 online  tidegate 0.1.0  up 1 s  clock synced\nuplink: connected, 1 connection so far\n";
        let line = "listener: 1 client connected, 4 connections so far, mqtt://127.0.0.1:1883 mqtts://0.0.0.0:8883\n";
        assert_eq!(summary(&document), format!("{head}{line}"));
        document["engine"]["broker"] = serde_json::json!({"sessions": 1, "queued": 3, "retained": 2,
            "dropped_queue_full": 4, "dropped_slow": 1, "sessions_evicted": 0});
        let books = "broker: 1 session, 3 queued, 2 retained, 5 dropped, 0 evicted\n";
        assert_eq!(summary(&document), format!("{head}{line}{books}"));
        document["engine"]["broker"] = Value::Null;
        document["listener"]["sockets"] = serde_json::json!([]);
        assert!(summary(&document).ends_with("4 connections so far, no socket\n"));
        document["listener"]["sockets"] = serde_json::json!(["mqtt://127.0.0.1:1883", "mqtts://0.0.0.0:8883"]);
        document["listener"]["refused"] = serde_json::json!({"bad_credentials": 3, "tls": 1});
        assert_eq!(summary(&document), format!("{head}{line}  refused: 3 bad_credentials, 1 tls\n"));
    }

    #[test]
    fn a_file_that_only_the_broker_takes_names_the_socket_too() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("broker.toml");
        let given = |text: &str| {
            std::fs::write(&file, text).unwrap();
            configured(&file).map_err(|error| format!("{error:#}"))
        };
        let broker = "gateway.id = 'b'\nstorage.path = '/s'\n[listener]\ntcp = '127.0.0.1:1883'\n";
        assert_eq!(given(&format!("{broker}[control]\nsocket = '/run/c.sock'\n")), Ok("/run/c.sock".into()));
        assert_eq!(given("[control]\nsocket = '/run/c.sock'\n"), Ok("/run/c.sock".into()));
        assert!(given(broker).unwrap_err().contains("add `[control]`"));
        assert!(given("[control]\nsocket = 7\n").unwrap_err().contains("has problems"));
        let missing = configured(&dir.path().join("none.toml")).unwrap_err().to_string();
        let (cause, hint) = missing.split_once("\n    hint: ").unwrap();
        assert!(cause.contains("none.toml: cannot be read") && hint.contains("--config") && hint.contains("--socket"));
    }
}
