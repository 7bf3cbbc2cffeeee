//! `tidegate remote get`: what gateways have reported of their configuration.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::cli::printable::printable;
use crate::model::time::Span;

use super::Desk;
use super::ask::{Request, ask};
use super::document::signing_key;
use super::verdict::EXIT_SILENT;
use super::words::{json_line, json_pretty, refusal, report, say};

/// A gateway that is online answers at once, or is too old to know the command.
const ANSWER_MAX: Span = Span::from_secs(10);

/// Shows what gateways have reported of their configuration.
///
/// Which document runs, since when, and what was wrong with the last one. Of one gateway, named by
/// its id, also the document itself, if it is online.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Private key (PEM) that signs the question for the document, where the gateway demands it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

pub(super) async fn run(desk: &Desk, args: &Args) -> anyhow::Result<u8> {
    let key = signing_key(args.key.as_ref())?;
    let pattern = desk.pattern_or_all();
    let (mut session, gateways) = desk.survey(&pattern).await?;
    let mut config = None;
    if let Some(gateway) = pattern.single()
        && gateways.of(gateway).status()["state"] == "online"
    {
        let request = Request { name: "config", body: &Map::new(), names_gateway: false, key: key.as_ref() };
        let timeout = desk.timeout.min(ANSWER_MAX);
        let asked = [gateway.to_owned()];
        config = ask(&mut session, &desk.topics, &pattern, &asked, &request, timeout).await?.remove(gateway);
    }
    session.close().await;
    let mut silent = gateways.0.is_empty();
    if silent {
        eprintln!("nothing under {} from such a gateway", desk.topics.0);
    }
    for (id, gateway) in &gateways.0 {
        let reported = gateway.report();
        silent |= reported.is_null() && pattern.single().is_some();
        if desk.json {
            let result = config.as_ref().map_or(&Value::Null, |reply| &reply["result"]);
            say(&json_line(&json!({"gw": id, "reported": reported, "config": result})));
            continue;
        }
        let told = if reported.is_null() { "  no report\n".to_owned() } else { report(&reported) };
        say(&format!("{}\n{told}", printable(id)));
        match &config {
            None => {}
            Some(reply) if reply["ok"] == true => say(&json_pretty(&reply["result"]["desired"])),
            Some(reply) => eprintln!("{}: {}", printable(id), refusal(reply)),
        }
    }
    Ok(if silent { EXIT_SILENT } else { 0 })
}
