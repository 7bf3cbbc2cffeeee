//! `tidegate remote diff`: what a document would change.

use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use crate::cli::EXIT_USAGE;
use crate::cli::printable::printable;
use crate::config::raw::{Document, Format, Value};

use super::Desk;
use super::ask::{Request, ask};
use super::document::{Desired, VERSION, signing_key};
use super::tree::differences;
use super::verdict::EXIT_SILENT;
use super::words::{json_line, refusal, say};

/// Of the document alone: they say nothing of what runs, and are compared where the file has them.
const BESIDE: [&str; 2] = [VERSION, "trial"];

/// Compares a document with the one that gateways run.
///
/// Key by key: `+` is in the file only, `-` at the gateway only, `~` differs. Streams and windows are
/// told by their names; passwords, which no gateway tells, are not compared. Exit code 0 when they are the same, 1 when they differ.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The document, TOML, or JSON by its name
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Private key (PEM) that signs the question, where the gateway demands it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(super) async fn run(desk: &Desk, args: &Args) -> anyhow::Result<u8> {
    let desired = Desired::read(&args.file)?;
    let key = signing_key(args.key.as_ref())?;
    let pattern = desk.pattern()?;
    let (mut session, gateways) = desk.survey(&pattern).await?;
    let targets = desk.targets(&gateways, &pattern)?;
    let request = Request { name: "config", body: &Map::new(), names_gateway: false, key: key.as_ref() };
    let answers = ask(&mut session, &desk.topics, &pattern, &targets, &request, desk.timeout).await?;
    session.close().await;
    let (mut differ, mut silent, mut trouble) = (false, false, false);
    for gateway in &targets {
        let shown = printable(gateway);
        match answers.get(gateway) {
            None => {
                silent = true;
                eprintln!("{shown}: no answer");
            }
            Some(reply) if reply["ok"] == true => {
                let Some(lines) = against(&desired, &reply["result"]["desired"]) else {
                    trouble = true;
                    eprintln!("{shown}: what it answered is no document");
                    continue;
                };
                differ |= !lines.is_empty();
                if desk.json {
                    say(&json_line(&json!({"gw": gateway, "same": lines.is_empty(), "differences": lines})));
                } else if lines.is_empty() {
                    say(&format!("{shown}: the same\n"));
                } else {
                    let lines: Vec<String> = lines.iter().map(|line| printable(line)).collect();
                    say(&format!("{shown}:\n{}\n", lines.join("\n")));
                }
            }
            Some(reply) => {
                trouble = true;
                eprintln!("{shown}: {}", refusal(reply));
            }
        }
    }
    Ok(match (trouble, silent, differ) {
        (true, _, _) => EXIT_USAGE,
        (false, true, _) => EXIT_SILENT,
        (false, false, differ) => u8::from(differ),
    })
}

/// What differs from what a gateway runs; null: nothing was sent to it yet. `None`: that is no
/// document.
fn against(desired: &Desired, running: &Json) -> Option<Vec<String>> {
    let document = Document::parse(&running.to_string(), Format::Json).ok()?;
    let mut running = match &document.root().value {
        Value::Table(entries) => entries.clone(),
        Value::Null => Vec::new(),
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::List(_) => return None,
    };
    running.retain(|entry| !BESIDE.contains(&entry.key.as_str()) || desired.has(&entry.key));
    // A gateway tells no password, and ours is not for the terminal.
    let mut ours = desired.value();
    redact(&mut ours);
    let mut running = Value::Table(running);
    redact(&mut running);
    Some(differences(&running, &ours))
}

fn redact(value: &mut Value) {
    match value {
        Value::Table(entries) => {
            for entry in entries {
                if entry.key == "password" {
                    entry.node.value = Value::Text("***".to_owned());
                } else {
                    redact(&mut entry.node.value);
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| redact(&mut item.value)),
        Value::Text(_) | Value::Integer(_) | Value::Float(_) | Value::Bool(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_counts_where_the_file_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let lines = |toml: &str, running: Json| {
            let file = dir.path().join("d.toml");
            std::fs::write(&file, toml).unwrap();
            against(&Desired::read(&file).unwrap(), &running).unwrap_or_else(|| vec!["none".to_owned()])
        };
        let running = json!({"version": 7, "trial": "1m", "outbox": {"max_bytes": "1MiB"}});
        assert_eq!(lines("outbox.max_bytes = '1MiB'\n", running.clone()), Vec::<String>::new());
        assert_eq!(lines("version = 8\noutbox.max_bytes = '1MiB'\n", running.clone()), ["~ version: 7 -> 8"]);
        assert_eq!(lines("", running), [r#"- outbox = {"max_bytes":"1MiB"}"#]);
        assert_eq!(lines("", json!([])), ["none"]);
        let secret = "uplink = { password = 'secret', host = 'h' }\n";
        assert_eq!(lines(secret, json!({"uplink": {"password": "***", "host": "h"}})), Vec::<String>::new());
        assert_eq!(lines(secret, Json::Null), [r#"+ uplink = {"host":"h","password":"***"}"#]);
        assert_eq!(lines("outbox.max_bytes = 1\n", Json::Null), [r#"+ outbox = {"max_bytes":1}"#]);
    }
}
