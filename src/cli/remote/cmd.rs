//! `tidegate remote cmd`: one command to gateways, and what they answer.

use core::str::FromStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use serde_json::{Map, Value};

use crate::cli::printable::printable;

use super::Desk;
use super::ask::{Request, ask};
use super::document::signing_key;
use super::verdict::{Outcome, exit_code};
use super::words::{json_line, json_pretty, refusal, say};

/// Every command, and a line about it. True: it takes something away, so the gateway wants to be
/// named in it.
const COMMANDS: [(&str, bool, &str); 10] = [
    ("config", false, "the desired document that runs"),
    ("devices", false, "the devices, and what is known of each: stream=NAME limit=N after=DEVICE"),
    ("flush", true, "closes open windows now, as if their time were over"),
    ("ledger", false, "the books: where every record has gone"),
    ("log-level", false, "how much is logged: level=debug"),
    ("replay-quarantine", false, "takes rejected messages in again: stream=NAME reason=REASON"),
    ("restart", true, "ends the program in order; the system starts it again"),
    ("rollback", true, "goes back to the document before this one"),
    ("snapshot", false, "writes the whole state now"),
    ("status", false, "how it is, as retained on its status topic"),
];

/// Sends a command to gateways and prints what they answer.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The command
    #[arg(value_name = "NAME", value_parser = names())]
    name: String,

    /// What goes with it; a VALUE that is JSON is taken as such, else as text
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<Pair>,

    /// I mean it: `flush`, `restart` and `rollback` are not sent without
    #[arg(long)]
    yes: bool,

    /// Private key (PEM) that signs the command
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// `KEY=VALUE`
#[derive(Clone, Debug, PartialEq)]
struct Pair(String, Value);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Pair, String> {
        let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
        match key {
            "" => Err("expected KEY=VALUE".into()),
            "id" | "version" => Err(format!("`{key}` is made here")),
            "gateway" => Err("the gateways are named by --gateway, and put into the command by --yes".into()),
            key => {
                let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
                Ok(Pair(key.to_owned(), value))
            }
        }
    }
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(COMMANDS.map(|(name, _, about)| PossibleValue::new(name).help(about)))
}

pub(super) async fn run(desk: &Desk, args: &Args) -> anyhow::Result<u8> {
    let pattern = desk.pattern()?;
    let takes_away = COMMANDS.iter().any(|(name, takes_away, _)| *name == args.name && *takes_away);
    anyhow::ensure!(
        !takes_away || args.yes,
        "`{}` cannot be undone, so a gateway wants to be named in it\n    hint: --yes puts the id of each gateway that \
         --gateway means into its command",
        args.name
    );
    let key = signing_key(args.key.as_ref())?;
    let (mut session, gateways) = desk.survey(&pattern).await?;
    let targets = desk.targets(&gateways, &pattern)?;
    let body: Map<String, Value> = args.pairs.iter().map(|Pair(key, value)| (key.clone(), value.clone())).collect();
    let request = Request { name: &args.name, body: &body, names_gateway: takes_away, key: key.as_ref() };
    let answers = ask(&mut session, &desk.topics, &pattern, &targets, &request, desk.timeout).await?;
    session.close().await;
    let mut outcomes = Vec::new();
    for gateway in &targets {
        let Some(reply) = answers.get(gateway) else {
            eprintln!("{}: no answer; whether the command arrived is not known", printable(gateway));
            outcomes.push(Outcome::Silent);
            continue;
        };
        let done = reply["ok"] == true;
        outcomes.push(if done { Outcome::Accepted } else { Outcome::Refused });
        if desk.json {
            say(&json_line(reply));
        } else if done {
            // Of one gateway, the result alone: another program can read it.
            let head = if targets.len() > 1 { format!("{}:\n", printable(gateway)) } else { String::new() };
            say(&(head + &json_pretty(&reply["result"])));
        } else {
            eprintln!("{}: {}", printable(gateway), refusal(reply));
        }
    }
    Ok(exit_code(outcomes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_json_or_else_text() {
        let pair = |text: &str| text.parse::<Pair>();
        let is = |key: &str, value: Value| Ok(Pair(key.to_owned(), value));
        assert_eq!(pair("level=debug"), is("level", json!("debug")));
        assert_eq!(pair("n=7"), is("n", json!(7)));
        assert_eq!(pair("n=\"7\""), is("n", json!("7")));
        assert_eq!(pair("a=[1,2]"), is("a", json!([1, 2])));
        assert_eq!(pair("a=b=c"), is("a", json!("b=c")));
        for wrong in ["", "a", "=1", "id=1", "version=2", "gateway=g"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_takes_something_away_is_what_the_gateway_wants_to_be_named_in() {
        let names: Vec<&str> =
            COMMANDS.iter().filter(|(_, takes_away, _)| *takes_away).map(|(name, ..)| *name).collect();
        assert_eq!(names, ["flush", "restart", "rollback"]);
    }
}
