//! Commands to gateways, and their replies.

use std::collections::BTreeMap;

use ring::signature::Ed25519KeyPair;
use serde_json::{Map, Value};

use crate::agent::clock::{secret_bytes, wall};
use crate::agent::signed::{command_kind, seal};
use crate::model::time::Span;

use super::pattern::{Kind, Pattern, Topics};
use super::session::{Event, Session};

/// Between two attempts, once the connection was lost. A gateway does nothing twice that has the
/// same id.
const REPEAT: Span = Span::from_secs(5);

/// A command, the same for every gateway but for what names it.
pub(super) struct Request<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// What is in it beside `id`.
    pub(super) body: &'a Map<String, Value>,
    /// Each gateway's id is in it: it is meant.
    pub(super) names_gateway: bool,
    /// Signs it.
    pub(super) key: Option<&'a Ed25519KeyPair>,
}

/// Asks these gateways and waits for all of them; those that did not answer are missing.
pub(super) async fn ask(
    session: &mut Session,
    topics: &Topics,
    pattern: &Pattern,
    gateways: &[String],
    request: &Request<'_>,
    timeout: Span,
) -> anyhow::Result<BTreeMap<String, Value>> {
    session.subscribe(topics.filter(pattern, &format!("cmd/{}/reply", request.name))).await;
    let mut open = BTreeMap::new();
    for gateway in gateways {
        open.insert(gateway.clone(), hex(&secret_bytes::<8>()?));
    }
    send(session, topics, request, &open);
    let mut answers = BTreeMap::new();
    let until = session.now() + timeout;
    let mut repeat_at = None;
    while !open.is_empty() {
        match session.next(repeat_at.unwrap_or(until).min(until)).await? {
            Event::Message(message) => {
                let Some((gateway, Kind::Reply(name))) = topics.parse(&message.topic) else { continue };
                let Ok(reply) = serde_json::from_slice::<Value>(&message.payload) else { continue };
                let is_asked = open.get(&gateway).is_some_and(|id| answers_to(&reply, id, request.key.is_some()));
                if name == request.name && is_asked {
                    open.remove(&gateway);
                    answers.insert(gateway, reply);
                }
            }
            // A broker that has started again may have forgotten what it had, and its gateways
            // come back when they do.
            Event::Granted { again: true } => repeat_at = Some(session.now()),
            Event::Deadline if session.now() < until => {
                send(session, topics, request, &open);
                repeat_at = Some(session.now() + REPEAT);
            }
            Event::Granted { again: false } | Event::Settled => {}
            Event::Deadline | Event::Interrupted => break,
        }
    }
    Ok(answers)
}

fn send(session: &mut Session, topics: &Topics, request: &Request<'_>, open: &BTreeMap<String, String>) {
    for (gateway, id) in open {
        let topic = topics.of(gateway, &format!("cmd/{}", request.name));
        session.publish(topic, payload(request, gateway, id), false);
    }
}

/// Whether this is the reply to our request: somebody else may ask the same at the same time. What
/// a gateway cannot read, or does not open, has no id: it is refused, or done as if it were empty
/// by a gateway that knows nothing of signatures.
fn answers_to(reply: &Value, id: &str, signed: bool) -> bool {
    reply["id"] == id || (reply["id"].is_null() && (reply["ok"] == false || signed))
}

fn payload(request: &Request<'_>, gateway: &str, id: &str) -> String {
    let mut body = request.body.clone();
    body.insert("id".into(), id.into());
    if request.names_gateway {
        body.insert("gateway".into(), gateway.into());
    }
    let Some(key) = request.key else { return Value::Object(body).to_string() };
    // Not to be sent again by whoever has seen it.
    body.insert("version".into(), wall().as_millis().into());
    seal(key, &command_kind(request.name), gateway, &Value::Object(body).to_string())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

#[cfg(test)]
mod tests {
    use crate::agent::signed::{open, private_key_pem};

    use super::*;

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
                       MC4CAQAwBQYDK2VwBCIEID3x49AKOumpx+hcrqEhVLdILZ5v9m2ZSmCkoTmlT4Qd\n\
                       -----END PRIVATE KEY-----\n";

    #[test]
    fn a_command_is_its_arguments_and_what_names_it() {
        let body = Map::from_iter([("stream".to_owned(), Value::from("s"))]);
        let request = Request { name: "flush", body: &body, names_gateway: true, key: None };
        assert_eq!(payload(&request, "gw-1", "0a"), r#"{"gateway":"gw-1","id":"0a","stream":"s"}"#);
        let request = Request { names_gateway: false, ..request };
        assert_eq!(payload(&request, "gw-1", "0a"), r#"{"id":"0a","stream":"s"}"#);
        assert_eq!(hex(&[0, 0xaf]), "00af");
    }

    #[test]
    fn a_reply_without_an_id_is_of_a_request_that_could_not_be_read() {
        let answers = |reply: &str, signed| answers_to(&serde_json::from_str(reply).unwrap(), "0a", signed);
        assert!(answers(r#"{"id":"0a","ok":true}"#, false) && !answers(r#"{"id":"0b","ok":true}"#, true));
        assert!(answers(r#"{"id":null,"ok":false}"#, false) && !answers(r#"{"id":"0b","ok":false}"#, false));
        assert!(!answers(r#"{"id":null,"ok":true}"#, false) && answers(r#"{"id":null,"ok":true}"#, true));
    }

    #[test]
    fn a_signed_command_is_for_one_gateway_and_carries_its_time() {
        use ring::signature::KeyPair as _;
        let (key, body) = (private_key_pem(KEY).unwrap(), Map::new());
        let request = Request { name: "flush", body: &body, names_gateway: false, key: Some(&key) };
        let public: [u8; 32] = key.public_key().as_ref().try_into().unwrap();
        let text = open(&public, "cmd/flush", "gw-1", payload(&request, "gw-1", "0a").as_bytes()).unwrap();
        let text: Value = serde_json::from_str(&text).unwrap();
        assert!(text["version"].as_u64() > Some(1_700_000_000_000) && text["id"] == "0a", "{text}");
    }
}
