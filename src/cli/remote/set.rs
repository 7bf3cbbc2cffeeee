//! `tidegate remote set`: a new document for gateways, a few at a time.
//!
//! ```text
//! publish desired (retained) -> applied, trial -> confirmed | unchanged    next batch
//!                                              -> rejected | rolled_back   stop
//!                                              -> nothing in time          stop
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use ring::signature::Ed25519KeyPair;
use serde_json::{Value, json};

use crate::agent::signed::{CONFIG_KIND, seal};
use crate::cli::printable::printable;

use super::Desk;
use super::document::{Desired, VERSION, hash, signing_key};
use super::gateways::Gateways;
use super::pattern::{Kind, Pattern};
use super::session::{Event, Session};
use super::verdict::{Outcome, exit_code, next_version, verdict};
use super::words::{complaints, json_line, number, say, text};

/// Publishes a desired document for gateways and waits for what becomes of it.
///
/// The document has `version`, `trial`, and tables of the gateway's file that take the place of
/// those there: `streams`, `joins`, `outbox`, `uplink`. Gateways get it one after the other, or
/// --batch at a time; the first one that rejects it, rolls it back or does not answer ends it, and
/// those after it are not touched. The document stays on the broker for a gateway that is away.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The document, TOML, or JSON by its name
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Version, where the file has none [default: one more than the gateway has reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    version: Option<u64>,

    /// Private key (PEM) that signs the document
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// So many gateways at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,

    /// Do not wait for the gateways, only for the broker
    #[arg(long)]
    no_wait: bool,
}

/// A document that goes to some gateways.
struct Rollout<'a> {
    desk: &'a Desk,
    args: &'a Args,
    pattern: Pattern,
    desired: Desired,
    key: Option<Ed25519KeyPair>,
    gateways: Gateways,
}

/// What a gateway has to answer.
struct Open {
    /// Of the document, and of the payload: what a gateway without a key says of a signed one.
    hashes: [String; 2],
    before: Option<Vec<u8>>,
}

pub(super) async fn run(desk: &Desk, args: &Args) -> anyhow::Result<u8> {
    let desired = Desired::read(&args.file)?;
    let key = signing_key(args.key.as_ref())?;
    anyhow::ensure!(
        args.version.is_none() || !desired.has(VERSION),
        "{} has a version, and --version gives another: leave one of them out",
        args.file.display()
    );
    let pattern = desk.pattern()?;
    let (mut session, gateways) = desk.survey(&pattern).await?;
    let targets = desk.targets(&gateways, &pattern)?;
    let mut rollout = Rollout { desk, args, pattern, desired, key, gateways };
    let mut outcomes = Vec::new();
    for batch in targets.chunks(usize::try_from(args.batch).unwrap_or(usize::MAX)) {
        outcomes.extend(rollout.batch(&mut session, batch).await?);
        if outcomes.iter().any(|outcome| *outcome != Outcome::Accepted) {
            break;
        }
    }
    session.close().await;
    let untouched: Vec<String> = targets[outcomes.len()..].iter().map(|gateway| printable(gateway)).collect();
    if !untouched.is_empty() {
        eprintln!("not touched: {}", untouched.join(", "));
    }
    Ok(exit_code(outcomes))
}

impl Rollout<'_> {
    /// One outcome for each.
    async fn batch(&mut self, session: &mut Session, batch: &[String]) -> anyhow::Result<Vec<Outcome>> {
        let mut open: BTreeMap<String, Open> = BTreeMap::new();
        for gateway in batch {
            open.insert(gateway.clone(), self.publish(session, gateway));
        }
        let mut outcomes = Vec::new();
        let until = session.now() + self.desk.timeout;
        while !open.is_empty() {
            match session.next(until).await? {
                Event::Message(message) => {
                    let known = self.gateways.handle(&self.desk.topics, &self.pattern, &message);
                    let Some((gateway, Kind::Reported, _)) = known else { continue };
                    let Some(asked) = open.get(&gateway).filter(|_| !self.args.no_wait) else { continue };
                    if let Some((outcome, report)) = verdict(&message.payload, asked.before.as_deref(), &asked.hashes) {
                        self.tell(&gateway, outcome, &report);
                        open.remove(&gateway);
                        outcomes.push(outcome);
                    } else {
                        self.tell_progress(&gateway, &asked.hashes);
                    }
                }
                Event::Settled if self.args.no_wait => {
                    outcomes.extend(open.iter().map(|_| Outcome::Accepted));
                    open.clear();
                }
                Event::Granted { .. } | Event::Settled => {}
                Event::Deadline | Event::Interrupted => break,
            }
        }
        for gateway in open.keys() {
            self.tell_silence(gateway, session.is_settled());
            outcomes.push(Outcome::Silent);
        }
        Ok(outcomes)
    }

    fn publish(&self, session: &mut Session, gateway: &str) -> Open {
        let known = self.gateways.of(gateway);
        let version = self.args.version.unwrap_or_else(|| next_version(&known.report()));
        let document = self.desired.text(version);
        let payload = match &self.key {
            Some(key) => seal(key, CONFIG_KIND, gateway, &document.json),
            None => document.json,
        };
        let hashes = [document.hash, hash(&payload)];
        session.publish(self.desk.topics.of(gateway, "config/desired"), payload, true);
        if !self.desk.json {
            let version = if self.desired.has(VERSION) { String::new() } else { format!(", version {version}") };
            say(&format!("{}: published{version}\n", printable(gateway)));
        }
        Open { hashes, before: known.reported().map(<[u8]>::to_vec) }
    }

    fn tell(&self, gateway: &str, outcome: Outcome, report: &Value) {
        if self.desk.json {
            say(&json_line(&json!({"gw": gateway, "ok": outcome == Outcome::Accepted, "reported": report})));
            return;
        }
        let (state, version) = (text(&report["state"]), number(&report["version"]));
        say(&format!("{}: {state}, version {version}\n{}", printable(gateway), complaints(report)));
        // It has taken the envelope for the document.
        let is_unopened = self.key.is_some() && report["version"].is_null() && report["hash"].is_string();
        if outcome == Outcome::Refused && is_unopened {
            eprintln!(
                "    hint: a gateway whose file has no `[remote] public_key` reads no signatures; leave --key out, or \
                 put there what `tidegate remote key` prints"
            );
        }
    }

    /// Between publishing and the end.
    fn tell_progress(&self, gateway: &str, hashes: &[String]) {
        let report = self.gateways.of(gateway).report();
        let is_ours = hashes.iter().any(|hash| report["hash"] == **hash);
        if !self.desk.json && is_ours && ["applied", "trial"].iter().any(|state| report["state"] == **state) {
            let trial = report["trial_ms"].as_u64().map(|trial| format!(", {} s", trial.div_ceil(1_000)));
            say(&format!("{}: {}{}\n", printable(gateway), text(&report["state"]), trial.unwrap_or_default()));
        }
    }

    fn tell_silence(&self, gateway: &str, settled: bool) {
        let known = self.gateways.of(gateway);
        if self.desk.json {
            say(&json_line(&json!({"gw": gateway, "ok": null, "reported": known.report()})));
        }
        let state = match known.status()["state"].as_str() {
            None => "it has never been seen here",
            Some("online") => "it is online",
            Some(_) => "it is offline",
        };
        let hint = if settled {
            "the document stays on the broker: the gateway takes it when it can, and `tidegate remote get` shows it"
        } else {
            "the broker has not acknowledged the document: it may be there or not"
        };
        let secs = self.desk.timeout.as_millis().div_ceil(1_000);
        eprintln!("{}: no answer within {secs} s; {state}\n    hint: {hint}", printable(gateway));
    }
}
