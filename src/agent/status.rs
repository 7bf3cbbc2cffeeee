//! The status document: what the control socket answers and what is retained
//! on `<prefix>/<gw>/status`. One JSON object, version 1.
//!
//! ```text
//! v, gw, state            1, the gateway, "online" or "offline" (then `reason`, maybe)
//! version, config_hash    of the program, of the pipeline
//! at_ms, clock            wall clock in ms and its quality
//! uptime_ms               of this process
//! health                  {state: "ok" | "degraded", reasons: [..]}
//! devices, uplink         {connected, since_ms, connections, subscribed, refused, dropped, reason}
//! listener                where there is one: addresses, connections, what was refused and why
//! local                   as these: results on the device broker, where wanted
//! wear                    what the flash was given: bytes, per reading, per day, budget
//! samples                 of rejected messages, on disk: kept, bytes, dropped, failed
//! engine                  the engine's own report: ledger, lag, outbox, epoch ...
//! ```

use serde::Serialize;

use crate::engine::wear::WearStatus;
use crate::model::time::{Now, ProcTime};

use super::mqtt::listener::facts::ListenerStatus;
use super::rejected::SampleFacts;

/// Who we are; the same in every document.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The gateway's id.
    pub gateway: String,
    /// Hash of the configuration that runs.
    pub config_hash: String,
}

/// What is known of one connection.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ConnectionFacts {
    /// Now.
    pub connected: bool,
    /// Uptime of the process at the last change, in ms.
    pub since_ms: u64,
    /// Connections made by this process.
    pub connections: u32,
    /// The broker has granted every topic filter: what devices send from now on
    /// reaches us. Absent where it has not, and for the uplink.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub subscribed: bool,
    /// Topic filters that the broker refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Results (`local`) and commands (`devices`) that found no connection or no room; absent
    /// when there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
    /// Why there is no connection, or what is wrong although there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Serialize)]
struct Document<'a> {
    v: u32,
    gw: &'a str,
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    version: &'a str,
    config_hash: &'a str,
    at_ms: i64,
    clock: &'a str,
    uptime_ms: u64,
    health: Health<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<&'a ConnectionFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listener: Option<ListenerStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uplink: Option<&'a ConnectionFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    local: Option<&'a ConnectionFacts>,
    wear: &'a WearStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<SampleFacts>,
    engine: &'a serde_json::Value,
}

#[derive(Serialize)]
struct Health<'a> {
    state: &'a str,
    reasons: &'a [String],
}

/// One moment of the agent.
#[derive(Debug)]
pub struct Status<'a> {
    /// Who we are.
    pub identity: &'a Identity,
    /// When.
    pub now: Now,
    /// The device broker, where there is one.
    pub devices: Option<&'a ConnectionFacts>,
    /// The listener, where there is one.
    pub listener: Option<ListenerStatus>,
    /// The cloud's broker, where there is one.
    pub uplink: Option<&'a ConnectionFacts>,
    /// Results on the device broker, when they are wanted there.
    pub local: Option<&'a ConnectionFacts>,
    /// What the flash was given.
    pub wear: WearStatus,
    /// Samples of rejected messages on disk, where they are kept.
    pub samples: Option<SampleFacts>,
    /// What is wrong; empty: healthy.
    pub health: &'a [String],
    /// The engine's report.
    pub engine: &'a serde_json::Value,
}

impl ConnectionFacts {
    /// A connection was made; `notice`: what is wrong with it, empty: nothing.
    pub fn handle_up(&mut self, now: ProcTime, notice: String) {
        self.connected = true;
        self.subscribed = false;
        self.since_ms = now.as_millis();
        self.connections = self.connections.saturating_add(1);
        self.reason = notice;
    }

    /// It ended, or could not be made.
    pub fn handle_down(&mut self, now: ProcTime, reason: String) {
        if self.connected {
            self.since_ms = now.as_millis();
        }
        self.connected = false;
        self.subscribed = false;
        self.refused.clear();
        self.reason = reason;
    }
}

/// Adds what is wrong with the connections to the engine's own reasons.
pub fn add_reasons(reasons: &mut Vec<String>, devices: Option<&ConnectionFacts>, uplink: Option<&ConnectionFacts>) {
    for (name, facts) in [("devices", devices), ("uplink", uplink)] {
        let Some(facts) = facts else { continue };
        if !facts.connected {
            let because = if facts.reason.is_empty() { "not yet" } else { &facts.reason };
            reasons.push(format!("{name} not connected: {because}"));
        } else if !facts.reason.is_empty() {
            reasons.push(format!("{name}: {}", facts.reason));
        }
        for filter in &facts.refused {
            reasons.push(format!("{name} refused the subscription to {filter}"));
        }
    }
}

impl Status<'_> {
    /// The document while we run.
    pub fn online(&self) -> Vec<u8> {
        self.document("online", None)
    }

    /// The document of a stop on purpose.
    pub fn offline(&self, reason: &str) -> Vec<u8> {
        self.document("offline", Some(reason))
    }

    fn document(&self, state: &str, reason: Option<&str>) -> Vec<u8> {
        let document = Document {
            v: 1,
            gw: &self.identity.gateway,
            state,
            reason,
            version: env!("CARGO_PKG_VERSION"),
            config_hash: &self.identity.config_hash,
            at_ms: self.now.wall.as_millis(),
            clock: self.now.quality.as_str(),
            uptime_ms: self.now.proc.as_millis(),
            health: Health { state: if self.health.is_empty() { "ok" } else { "degraded" }, reasons: self.health },
            devices: self.devices,
            listener: self.listener.clone(),
            uplink: self.uplink,
            local: self.local,
            wear: &self.wear,
            samples: self.samples,
            engine: self.engine,
        };
        serde_json::to_vec(&document).expect("text, numbers and JSON values always serialise")
    }
}

impl Identity {
    /// The last will: what the broker says when we vanish.
    pub fn last_will(&self) -> Vec<u8> {
        let will = serde_json::json!({"v": 1, "gw": self.gateway, "state": "offline"});
        will.to_string().into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::wear::{Meter, Sample, Written};
    use crate::model::time::{ClockQuality, WallTime};

    use super::*;

    #[test]
    fn a_status_says_what_is_wrong_and_why() {
        let identity = Identity { gateway: "gw \"7\"".into(), config_hash: "abc".into() };
        let now = Now {
            proc: ProcTime::from_millis(1_500),
            wall: WallTime::from_millis(1_700_000_000_000),
            quality: ClockQuality::Synced,
        };
        let mut devices = ConnectionFacts::default();
        devices.handle_up(now.proc, String::new());
        devices.refused.push("secret/#".into());
        let mut uplink = ConnectionFacts::default();
        uplink.handle_down(now.proc, "connection refused".into());
        let mut health = vec!["storage is full".to_owned()];
        add_reasons(&mut health, Some(&devices), Some(&uplink));
        let engine = serde_json::json!({"epoch": 1});
        let mut local = ConnectionFacts::default();
        local.handle_down(now.proc, "timed out".into());
        local.dropped = 7;
        let wear = Meter::default().status(Sample::default(), None, &Written::default());
        let status = Status {
            identity: &identity,
            now,
            devices: Some(&devices),
            uplink: Some(&uplink),
            listener: None,
            local: Some(&local),
            wear,
            samples: Some(SampleFacts { kept: 3, bytes: 700, dropped: 1, failed: 0 }),
            health: &health,
            engine: &engine,
        };

        let text = String::from_utf8(status.offline("SIGTERM")).expect("UTF-8");
        assert_eq!(
            text,
            concat!(
                r#"{"v":1,"gw":"gw \"7\"","state":"offline","reason":"SIGTERM","version":""#,
                env!("CARGO_PKG_VERSION"),
                r#"","config_hash":"abc","at_ms":1700000000000,"clock":"synced","uptime_ms":1500,"#,
                r#""health":{"state":"degraded","reasons":["storage is full","devices refused the subscription to secret/#","#,
                r#""uplink not connected: connection refused"]},"#,
                r#""devices":{"connected":true,"since_ms":1500,"connections":1,"refused":["secret/#"]},"#,
                r#""uplink":{"connected":false,"since_ms":0,"connections":0,"reason":"connection refused"},"#,
                r#""local":{"connected":false,"since_ms":0,"connections":0,"dropped":7,"reason":"timed out"},"#,
                r#""wear":{"source":"estimate","device":null,"device_bytes":null,"written_bytes":0,"bytes_per_reading":null,"#,
                r#""bytes_per_day":null,"written_per_day":null,"budget":null},"#,
                r#""samples":{"kept":3,"bytes":700,"dropped":1,"failed":0},"#,
                r#""engine":{"epoch":1}}"#
            )
        );
        devices.refused.clear();
        uplink.handle_up(now.proc, "old files".into());
        health.clear();
        add_reasons(&mut health, Some(&devices), Some(&uplink));
        assert_eq!(health, ["uplink: old files"]);
        uplink.handle_up(now.proc, String::new());
        health.clear();
        add_reasons(&mut health, Some(&devices), Some(&uplink));
        assert_eq!(health, Vec::<String>::new());
    }
}
