//! Whether a broker takes us and a message of ours: asked on a connection of its own.

use bytes::Bytes;
use serde_json::json;
use tokio::time::timeout;

use crate::agent::mqtt::connection::{Dialer, LinkError, Purpose};
use crate::agent::mqtt::packet::{FromBroker, Outgoing, Properties, ToBroker};
use crate::config::boot::BrokerSpec;
use crate::model::time::Span;

use super::steward::duration;

/// Publishes something small at `QoS` 1 below `base` and waits for its acknowledgement.
///
/// # Errors
/// Why that did not work, for a person.
pub(super) async fn probe(broker: &BrokerSpec, base: &str, within: Span) -> Result<(), String> {
    let client_id = format!("{}-trial", broker.client_id);
    let mut dialer = Dialer::new(BrokerSpec { client_id, ..broker.clone() }, Purpose::CleanSession { will: None });
    let asked = async {
        let (mut link, _) = dialer.connect().await?;
        let publish = Outgoing {
            topic: format!("{base}/config/trial"),
            payload: Bytes::from(json!({ "v": 1 }).to_string()),
            retain: false,
            packet: Some(1),
            exactly_once: false,
            dup: false,
            properties: Properties::default(),
        };
        link.send([ToBroker::Publish(publish)]).await?;
        loop {
            if let FromBroker::PubAck { packet: 1, reason } = link.read().await? {
                if reason.is_refusal() {
                    return Err(LinkError::Refused(reason));
                }
                link.send([ToBroker::Disconnect]).await?;
                return Ok(());
            }
        }
    };
    match timeout(duration(within), asked).await {
        Ok(asked) => asked.map_err(|error| error.to_string()),
        Err(_elapsed) => Err("nothing was acknowledged in time".to_owned()),
    }
}
