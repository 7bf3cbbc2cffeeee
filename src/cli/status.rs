//! `tidegate status`: what a running agent says about itself.
//!
//! Exit code 0: it answers and is healthy. 3: it answers and is degraded, or it
//! refused the request. 1: there is no agent, or no configuration that says where.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::agent::control;
use crate::config::check::check;

use super::read_text;
use super::run::CONFIG_DEFAULT;

const EXIT_DEGRADED: u8 = 3;

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
    let text = control::ask(&socket, "status").with_context(|| {
        format!("no agent answers on {}: is it running, and may you use the socket?", socket.display())
    })?;
    let document: Value = serde_json::from_str(&text).context("the answer is not JSON")?;
    let healthy = document["health"]["state"] == "ok";
    let shown = if args.json { text + "\n" } else { summary(&document) };
    // A closed pipe is no reason to change the verdict.
    let _ = io::stdout().lock().write_all(shown.as_bytes());
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(EXIT_DEGRADED) })
}

fn configured(file: &Path) -> anyhow::Result<PathBuf> {
    let text = read_text(file).context("--socket says where the agent listens")?;
    let Ok(checked) = check(&text, &file.display().to_string()) else {
        bail!("{0} has problems: `tidegate check {0}` lists them", file.display());
    };
    checked.config.control.with_context(|| format!("{} has no [control] socket", file.display()))
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
        let _ = writeln!(out, "{name}: {state}, {} connections so far", facts["connections"]);
    }
    out.extend(listener(&document["listener"]));
    for stream in document["engine"]["streams"].as_array().into_iter().flatten() {
        let ledger = &stream["ledger"];
        let _ = writeln!(
            out,
            "stream {}: {} devices, {} open windows, received {}, accepted {}, rejected {}{}",
            text(&stream["name"]),
            stream["devices"],
            stream["open_windows"],
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
    out.extend(wear(&document["wear"]));
    out
}

/// Who is connected to the agent itself, where devices can be, and what was refused.
fn listener(facts: &Value) -> Option<String> {
    let (connected, accepted) = (facts["connected"].as_u64()?, facts["accepted"].as_u64()?);
    let sockets = facts["sockets"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let sockets = sockets.collect::<Vec<_>>().join(" ");
    let plural = if connected == 1 { "" } else { "s" };
    let mut lines =
        format!("listener: {connected} client{plural} connected, {accepted} connections so far, {sockets}\n");
    let refused = facts["refused"].as_object().into_iter().flatten();
    let refused: Vec<String> = refused.map(|(reason, count)| format!("{count} {reason}")).collect();
    if !refused.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "  refused: {}", refused.join(", "));
    }
    Some(lines)
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

/// What the flash is given, if that is known yet.
fn wear(wear: &Value) -> Option<String> {
    let per_day = megabytes(wear["bytes_per_day"].as_u64()?);
    let mut line = format!("wear: {per_day} MB a day");
    if let Some(bytes) = wear["bytes_per_reading"].as_f64() {
        let _ = write!(line, ", {bytes:.1} bytes a reading");
    }
    match wear["device"].as_str() {
        Some(device) => {
            let ours = megabytes(wear["written_per_day"].as_u64().unwrap_or(0));
            let _ = write!(line, " (all of {device}; of it {ours} MB a day by tidegate, by estimate)");
        }
        None => line.push_str(" (by estimate)"),
    }
    let budget = &wear["budget"];
    if let (Some(all), Some(share)) = (budget["bytes_per_day"].as_u64(), budget["share"].as_f64()) {
        let _ = write!(line, ", {:.0} % of the budget of {} MB", share * 100.0, megabytes(all));
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
             devices: connected, 1 connections so far\n\
             uplink: not connected, 0 connections so far\n\
             stream climate: 3 devices, 4 open windows, received 10, accepted 9, rejected 1\n\
             join w: 5 joined\n\
             join i: 6 joined\n\
             outbox live: queued 7, acked 5, held 2, evicted 0\n"
        );
        let mut worn = document;
        worn["wear"] = serde_json::json!({"device": "mmcblk0p2", "bytes_per_day": 512_000_000, "bytes_per_reading": 21.25,
            "written_per_day": 500_000_000, "budget": {"bytes_per_day": 1_000_000_000, "share": 0.5}});
        let text = summary(&worn);
        assert_eq!(
            text.lines().last(),
            Some(
                "wear: 512.0 MB a day, 21.2 bytes a reading (all of mmcblk0p2; of it 500.0 MB a day by tidegate, by \
                 estimate), 50 % of the budget of 1000.0 MB"
            )
        );
        assert_eq!(summary(&serde_json::json!({"error": "no"})), "the agent refuses: no\n");
    }

    #[test]
    fn of_a_gateway_that_is_the_devices_broker_itself_a_person_sees_its_clients() {
        let mut document = serde_json::json!({
            "gw": "gw-1", "state": "online", "version": "0.1.0", "uptime_ms": 1_000, "clock": "synced",
            "uplink": {"connected": true, "connections": 1},
            "listener": {"sockets": ["mqtt://127.0.0.1:1883", "mqtts://0.0.0.0:8883"], "connected": 1, "accepted": 4, "refused": {}},
        });
        let head = "gw-1 online  tidegate 0.1.0  up 1 s  clock synced\nuplink: connected, 1 connections so far\n";
        let line = "listener: 1 client connected, 4 connections so far, mqtt://127.0.0.1:1883 mqtts://0.0.0.0:8883\n";
        assert_eq!(summary(&document), format!("{head}{line}"));
        document["listener"]["refused"] = serde_json::json!({"bad_credentials": 3, "tls": 1});
        assert_eq!(summary(&document), format!("{head}{line}  refused: 3 bad_credentials, 1 tls\n"));
    }
}
