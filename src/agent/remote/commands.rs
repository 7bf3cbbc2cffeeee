//! What can be asked for by `<prefix>/<gw>/cmd/<name>`, and its answer.
//!
//! A request is a JSON object. Its `id` comes back in the answer, and keeps it from being done twice: the broker may
//! deliver it twice, and so may whoever has lost the answer send it again. What throws something away or breaks
//! off has to name the gateway, so that nobody does it to a fleet by a wildcard in a script.

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::agent::inbox::{Input, Order};
use crate::agent::mqtt::packet::AnswerTo;
use crate::agent::rejected::query::Query;
use crate::agent::{signed, telemetry};

use super::reported::{News, Origin, State};
use super::session::Said;
use super::steward::Steward;
use super::{Running, confirmed};

/// Devices in one answer, at most and when the request does not say.
const DEVICES_MAX: usize = 500;
const DEVICES_DEFAULT: usize = 100;
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// Bytes of the id of one.
const ID_BYTES_MAX: usize = 256;

const KNOWN: &str =
    "known: status, ledger, devices, config, flush, snapshot, log-level, replay-quarantine, restart, rollback";

/// Why a command was not done.
pub(super) struct Refusal {
    error: String,
    hint: Option<String>,
}

impl Refusal {
    fn new(error: impl Into<String>) -> Refusal {
        Refusal { error: error.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Refusal {
        Refusal { hint: Some(hint.into()), ..self }
    }

    fn stopping() -> Refusal {
        Refusal::new("the agent is stopping")
    }
}

impl Steward {
    pub(super) async fn command(
        &mut self,
        origin: Origin,
        name: &str,
        payload: &[u8],
        retained: bool,
        answer_to: Option<Box<AnswerTo>>,
    ) {
        let request = self.request(name, payload, retained).await;
        let id = match &request {
            Ok(request) => request.get("id").filter(|id| id.is_string() || id.is_number()).cloned(),
            Err(_) => None,
        };
        let key = id.as_ref().map(Value::to_string).filter(|key| key.len() <= ID_BYTES_MAX);
        let known = key.as_ref().and_then(|key| self.journal.as_ref()?.answer(name, key).map(str::to_owned));
        let answer = if let Some(answer) = known {
            answer
        } else {
            let done = match request {
                Ok(request) => self.obey(origin, name, &request).await,
                Err(refusal) => Err(refusal),
            };
            if name == "restart" && done.is_ok() {
                info!("a restart was asked for");
                // Full: one is under way.
                let _ = self.restart.try_send(());
            }
            let answer = self.answer(name, id.as_ref(), done).to_string();
            if let Some(key) = key.filter(|_| changes_something(name)) {
                let (command, remembered) = (name.to_owned(), answer.clone());
                if let Err(error) = self.journal(move |journal| journal.remember(&command, &key, &remembered)).await {
                    warn!(%error, "an answer is not remembered");
                }
            }
            answer
        };
        let (topic, correlation) = match answer_to {
            Some(there) => (there.topic, there.correlation),
            None => (format!("{}/cmd/{name}/reply", self.base), None),
        };
        self.say(origin, Said::Answer { topic, payload: answer.into_bytes(), correlation }).await;
    }

    /// The object, if it is of whoever may ask.
    async fn request(&mut self, name: &str, payload: &[u8], retained: bool) -> Result<Map<String, Value>, Refusal> {
        if retained {
            return Err(Refusal::new("a command must not be retained: it would be done at each connection"));
        }
        if payload.len() > REQUEST_BYTES_MAX {
            return Err(Refusal::new(format!("a request has at most {REQUEST_BYTES_MAX} bytes")));
        }
        let Some(key) = &self.public_key else { return object(payload) };
        let opened = signed::open(key, &signed::command_kind(name), &self.gateway, payload);
        let request = object(opened.map_err(|error| Refusal::new(error.to_string()))?.as_bytes())?;
        // One that comes a second time by its id is answered, not done.
        let is_known = request.get("id").is_some_and(|id| {
            self.journal.as_ref().is_some_and(|journal| journal.answer(name, &id.to_string()).is_some())
        });
        if is_known {
            return Ok(request);
        }
        let Some(version) = request.get("version").and_then(Value::as_u64) else {
            return Err(Refusal::new("a signed command needs a `version`, higher than that of all before"));
        };
        match self.journal(move |journal| journal.take_version(true, version)).await {
            Ok(true) => Ok(request),
            Ok(false) => Err(Refusal::new("a signed command with this `version`, or a later one, came before")),
            Err(error) => Err(Refusal::new(format!("the gateway's storage does not take writes: {error}"))),
        }
    }

    fn answer(&self, name: &str, id: Option<&Value>, done: Result<Value, Refusal>) -> Value {
        let (ok, mut answer) = match done {
            Ok(result) => (true, json!({ "result": result })),
            Err(Refusal { error, hint: None }) => (false, json!({ "error": error })),
            Err(Refusal { error, hint }) => (false, json!({ "error": error, "hint": hint })),
        };
        if let Value::Object(fields) = &mut answer {
            fields.insert("v".into(), json!(1));
            fields.insert("gw".into(), json!(self.gateway));
            fields.insert("cmd".into(), json!(name));
            fields.insert("id".into(), json!(id));
            fields.insert("ok".into(), json!(ok));
        }
        answer
    }

    async fn obey(&mut self, origin: Origin, name: &str, request: &Map<String, Value>) -> Result<Value, Refusal> {
        if is_destructive(name) && request.get("gateway").and_then(Value::as_str) != Some(&self.gateway) {
            let hint = format!("\"gateway\": \"{}\" in the request", self.gateway);
            return Err(Refusal::new("it has to name this gateway").hint(hint));
        }
        match name {
            "status" => self.status().await,
            "ledger" => Ok(ledger(&self.status().await?)),
            "devices" => self.devices(request).await,
            "config" => Ok(self.config()),
            "flush" => self.order(Order::Flush).await,
            "snapshot" => self.order(Order::Snapshot).await,
            "log-level" => log_level(request),
            "replay-quarantine" => self.replay(request).await,
            "restart" => Ok(json!({})),
            "rollback" => self.roll_back(origin).await,
            _ => Err(Refusal::new(format!("unknown command \"{name}\"")).hint(KNOWN)),
        }
    }

    async fn status(&self) -> Result<Value, Refusal> {
        let (answer, document) = oneshot::channel();
        self.inbox.send(Input::Query(answer)).await.map_err(|_| Refusal::stopping())?;
        let document = document.await.map_err(|_| Refusal::stopping())?;
        serde_json::from_slice(&document).map_err(|error| Refusal::new(error.to_string()))
    }

    async fn order(&self, order: impl FnOnce(oneshot::Sender<Result<(), String>>) -> Order) -> Result<Value, Refusal> {
        let (answer, done) = oneshot::channel();
        self.inbox.send(Input::Order(order(answer))).await.map_err(|_| Refusal::stopping())?;
        done.await.map_err(|_| Refusal::stopping())?.map_err(Refusal::new)?;
        Ok(json!({}))
    }

    async fn devices(&self, request: &Map<String, Value>) -> Result<Value, Refusal> {
        let text = |key| request.get(key).and_then(Value::as_str).map(str::to_owned);
        let names = || self.running.config.pipeline.streams.iter().map(|stream| stream.name.as_str());
        let known = || format!("\"stream\": one of {}", names().collect::<Vec<_>>().join(", "));
        let only = || {
            let mut all = names();
            all.next().filter(|_| all.next().is_none()).map(str::to_owned)
        };
        let stream = text("stream").or_else(only);
        let stream = stream.ok_or_else(|| Refusal::new("it has to name a stream").hint(known()))?;
        let limit = request.get("limit").and_then(Value::as_u64).and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.unwrap_or(DEVICES_DEFAULT).clamp(1, DEVICES_MAX);
        let (answer, devices) = oneshot::channel();
        let after = text("after").unwrap_or_default();
        let order = Order::Devices { stream: stream.clone(), after, limit, answer };
        self.inbox.send(Input::Order(order)).await.map_err(|_| Refusal::stopping())?;
        let devices = devices.await.map_err(|_| Refusal::stopping())?;
        let devices = devices.ok_or_else(|| Refusal::new(format!("there is no stream \"{stream}\"")).hint(known()))?;
        Ok(json!({ "stream": stream, "devices": devices }))
    }

    /// Without what nobody is to see.
    fn config(&self) -> Value {
        let hash = self.running.hash();
        let text = hash.and_then(|hash| self.journal.as_ref()?.document(hash).ok());
        let mut desired: Value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        redact(&mut desired);
        json!({ "version": self.running.version(), "hash": hash, "desired": desired })
    }

    async fn replay(&self, request: &Map<String, Value>) -> Result<Value, Refusal> {
        let words = ["stream", "reason"].iter().filter_map(|key| request.get(*key).and_then(Value::as_str));
        let words: Vec<&str> = core::iter::once("replay").chain(words).collect();
        let query = Query::parse(&words).map_err(Refusal::new)?;
        self.samples.answer(query, &self.inbox).await.map_err(|_| Refusal::stopping())
    }

    /// Back to the confirmed document before the one that runs, or to the file.
    async fn roll_back(&mut self, origin: Origin) -> Result<Value, Refusal> {
        const ASKED: &str = "somebody asked for it";
        if self.trial.is_some() {
            self.take_back(ASKED).await;
            return if self.trial.is_some() {
                Err(Refusal::new("the storage does not take writes: it will be taken back as soon as it does"))
            } else {
                Ok(self.config())
            };
        }
        let Some(entry) = self.running.entry.clone() else {
            return Err(Refusal::new("the gateway's own file runs: there is nothing to go back to"));
        };
        let Some(journal) = &self.journal else { return Err(Refusal::new("there is no journal: see the log")) };
        let before = journal.history().iter().rev().nth(1).cloned();
        let config = match &before {
            Some(before) => confirmed(journal, before, &self.source).map_err(Refusal::new)?,
            None => self.file()?,
        };
        self.reconfigure(&config.pipeline, &config.hash).await.map_err(Refusal::new)?;
        if let Err(error) = self.journal(|journal| journal.step_back(ASKED)).await {
            let (pipeline, hash) = (self.running.config.pipeline.clone(), self.running.config.hash.clone());
            if let Err(error) = self.reconfigure(&pipeline, &hash).await {
                warn!(%error, "the engine keeps the configuration of before until the next start");
            }
            return Err(Refusal::new(format!("the storage does not take writes: {error}")));
        }
        self.running = Running { config, entry: before };
        self.steer();
        let news = News::new(State::RolledBack, origin, Some(entry.version), Some(entry.hash));
        self.report(&News { reason: Some(ASKED.to_owned()), ..news });
        Ok(self.config())
    }

    fn file(&self) -> Result<crate::config::boot::Config, Refusal> {
        let checked = crate::config::check::check(&self.source.text, &self.source.file);
        checked.map(|checked| checked.config).map_err(|refused| Refusal::new(refused.to_string()))
    }
}

fn object(payload: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if payload.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(payload) {
        Ok(Value::Object(request)) => Ok(request),
        Ok(_) => Err(Refusal::new("a request is a JSON object")),
        Err(error) => Err(Refusal::new(format!("a request is a JSON object: {error}"))),
    }
}

fn is_destructive(name: &str) -> bool {
    matches!(name, "restart" | "rollback" | "flush")
}

fn changes_something(name: &str) -> bool {
    is_destructive(name) || matches!(name, "snapshot" | "log-level" | "replay-quarantine")
}

fn log_level(request: &Map<String, Value>) -> Result<Value, Refusal> {
    let hint = "\"level\": \"debug\", or directives such as \"info,tidegate::agent::remote=debug\"";
    let level = request.get("level").and_then(Value::as_str);
    let level = level.ok_or_else(|| Refusal::new("it has to say a level").hint(hint))?;
    telemetry::set_level(level).map_err(|error| Refusal::new(error).hint(hint))?;
    info!(level, "another log level");
    Ok(json!({ "level": level }))
}

/// The books, out of the status.
fn ledger(status: &Value) -> Value {
    let engine = &status["engine"];
    let of =
        |stream: &Value| json!({ "name": stream["name"], "ledger": stream["ledger"], "windows": stream["windows"] });
    let streams: Vec<Value> = engine["streams"].as_array().into_iter().flatten().map(of).collect();
    json!({ "balanced": engine["balanced"], "streams": streams, "outbox": engine["outbox"]["lanes"] })
}

/// Passwords go nowhere.
fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "password" {
                    *value = json!("***");
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
