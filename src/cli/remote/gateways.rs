//! What the broker keeps of the gateways: their status and their report, as it came.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agent::mqtt::packet::Arrived;
use crate::model::time::Span;

use super::pattern::{Kind, Pattern, Topics};
use super::session::{Event, Session};

/// Retained messages come at once; when no other gateway has come for so long, that is all.
const QUIET: Span = Span::from_millis(500);
/// A large fleet on a slow link.
const COLLECT_MAX: Span = Span::from_secs(5);
/// Gateways that are kept: who may publish there may invent them.
const GATEWAYS_MAX: usize = 100_000;

/// What is known of one gateway: payloads, empty where nothing came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gateway {
    status: Vec<u8>,
    reported: Vec<u8>,
}

/// By id.
#[derive(Debug, Default)]
pub(super) struct Gateways(pub(super) BTreeMap<String, Gateway>);

impl Gateway {
    /// Its status; null where there is none, or none that can be read.
    pub(super) fn status(&self) -> Value {
        serde_json::from_slice(&self.status).unwrap_or_default()
    }

    /// Its report, likewise.
    pub(super) fn report(&self) -> Value {
        serde_json::from_slice(&self.reported).unwrap_or_default()
    }

    /// The report as it came.
    pub(super) fn reported(&self) -> Option<&[u8]> {
        (!self.reported.is_empty()).then_some(&self.reported)
    }

    fn is_complete(&self) -> bool {
        !self.status.is_empty() && !self.reported.is_empty()
    }
}

/// The filters of what is kept there.
pub(super) fn filters(topics: &Topics, pattern: &Pattern) -> Vec<String> {
    ["status", "config/reported"].map(|rest| topics.filter(pattern, rest)).into()
}

impl Gateways {
    /// Everything that is there when the command begins.
    pub(super) async fn collect(session: &mut Session, topics: &Topics, pattern: &Pattern) -> anyhow::Result<Gateways> {
        let mut gateways = Gateways::default();
        // Connecting has its own deadlines.
        let hard = session.now() + COLLECT_MAX;
        let mut until = hard;
        loop {
            match session.next(until).await? {
                Event::Granted { .. } => until = hard.min(session.now() + QUIET),
                Event::Message(message) => {
                    let is_new = gateways.handle(topics, pattern, &message).is_some_and(|(_, _, is_new)| is_new);
                    let single = pattern.single().and_then(|gateway| gateways.0.get(gateway));
                    if single.is_some_and(Gateway::is_complete) {
                        return Ok(gateways);
                    }
                    // A status that is published again and again says nothing of others.
                    if is_new {
                        until = hard.min(session.now() + QUIET);
                    }
                }
                Event::Settled => {}
                Event::Deadline | Event::Interrupted => return Ok(gateways),
            }
        }
    }

    /// Takes a message. What it was; true: the first of its gateway and kind.
    pub(super) fn handle(
        &mut self,
        topics: &Topics,
        pattern: &Pattern,
        message: &Arrived,
    ) -> Option<(String, Kind, bool)> {
        let (gateway, kind) = topics.parse(&message.topic).filter(|(gateway, _)| pattern.matches(gateway))?;
        if self.0.len() >= GATEWAYS_MAX && !self.0.contains_key(&gateway) {
            return None;
        }
        let known = self.0.entry(gateway.clone()).or_default();
        let payload = match kind {
            Kind::Status => &mut known.status,
            Kind::Reported => &mut known.reported,
            Kind::Reply(_) => return Some((gateway, kind, false)),
        };
        let is_new = payload.is_empty();
        *payload = message.payload.to_vec();
        // An empty one is how retained messages are removed.
        if *known == Gateway::default() {
            self.0.remove(&gateway);
        }
        Some((gateway, kind, is_new))
    }

    /// Those that a command is for: what was seen, or the one that is named.
    pub(super) fn targets(&self, pattern: &Pattern) -> Vec<String> {
        match pattern.single() {
            Some(gateway) => vec![gateway.to_owned()],
            None => self.0.keys().cloned().collect(),
        }
    }

    /// What is known of one.
    pub(super) fn of(&self, gateway: &str) -> Gateway {
        self.0.get(gateway).cloned().unwrap_or_default()
    }
}
