//! What a run of a fleet says: a line each second, and a summary.

use core::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::mqtt::dial::authority;
use crate::agent::mqtt::pipeline::{Assurance, Latencies, Tally};
use crate::config::boot::Protocol;

use super::drive::{Outcome, Plan};
use super::quantity::shown;

/// The figures of a run.
pub(super) struct Told {
    seed: u64,
    start: Option<String>,
    broker: String,
    format: &'static str,
    devices: u32,
    connections: u32,
    qos: u8,
    protocol: &'static str,
    sent: u64,
    acked: u64,
    refused: u64,
    repeated: u64,
    payload_bytes: u64,
    losses: u64,
    elapsed: Duration,
    latencies: Latencies,
    gave_up: bool,
}

impl Told {
    /// The broker has everything that was sent.
    pub(super) fn is_complete(&self) -> bool {
        !self.gave_up && self.acked == self.sent
    }

    fn unacked(&self) -> u64 {
        self.sent.saturating_sub(self.acked + self.refused)
    }

    fn per_second(&self) -> f64 {
        per_second(self.acked, self.elapsed)
    }
}

/// Takes the figures together.
pub(super) fn told(plan: &Plan, outcome: &Outcome) -> Told {
    let (spec, tally) = (&plan.pipeline, &outcome.tally);
    Told {
        seed: plan.load.seed,
        start: outcome.start.map(shown),
        broker: authority(&spec.broker.host, spec.broker.port),
        format: plan.load.wire.name(),
        devices: plan.load.devices,
        connections: plan.connections,
        qos: match spec.assurance {
            Assurance::AtMostOnce => 0,
            Assurance::AtLeastOnce => 1,
            Assurance::ExactlyOnce => 2,
        },
        protocol: match spec.broker.protocol {
            Protocol::V311 => "3.1.1",
            Protocol::V5 => "5",
        },
        sent: tally.sent(),
        acked: tally.acked(),
        refused: tally.refused(),
        repeated: tally.repeated(),
        payload_bytes: tally.payload_bytes(),
        losses: tally.losses(),
        elapsed: outcome.elapsed,
        latencies: tally.latencies(),
        gave_up: outcome.gave_up.is_some(),
    }
}

/// For a person.
pub(super) fn text(told: &Told) -> String {
    let Told { seed, broker, format, devices, connections, qos, protocol, .. } = told;
    let start = told.start.as_deref().map_or_else(|| " (not begun)".into(), |start| format!(" --start {start}"));
    let mut text = format!(
        "fleet of {devices} devices ({format}) at {broker}: {connections} connections, MQTT {protocol}, QoS {qos}\n\
         run           --seed {seed}{start}\n"
    );
    let mut line = |name: &str, value: String| {
        // Into a string, which has room.
        let _ = writeln!(text, "{name:<13} {value}");
    };
    line("sent", format!("{} messages, {} bytes of payload", told.sent, told.payload_bytes));
    line("acknowledged", told.acked.to_string());
    if told.refused > 0 {
        line("refused", told.refused.to_string());
    }
    line("missing", told.unacked().to_string());
    line("repeated", format!("{} after {} lost connections", told.repeated, told.losses));
    line("rate", format!("{:.0} messages/s over {:.1} s", told.per_second(), told.elapsed.as_secs_f64()));
    let at = |percent| told.latencies.percentile(percent).map_or_else(|| "-".into(), millis);
    line("answered in", format!("p50 {}  p99 {}  max {} ms", at(50), at(99), millis(told.latencies.most())));
    text
}

/// For a program: one line.
pub(super) fn json(told: &Told) -> Value {
    let at = |percent| told.latencies.percentile(percent).map(|latency| latency.as_secs_f64() * 1e3);
    json!({
        "seed": told.seed,
        "start": told.start,
        "broker": told.broker,
        "format": told.format,
        "devices": told.devices,
        "connections": told.connections,
        "qos": told.qos,
        "protocol": told.protocol,
        "sent": told.sent,
        "payload_bytes": told.payload_bytes,
        "acknowledged": told.acked,
        "refused": told.refused,
        "missing": told.unacked(),
        "repeated": told.repeated,
        "connections_lost": told.losses,
        "seconds": told.elapsed.as_secs_f64(),
        "per_second": told.per_second(),
        "ack_ms": {"p50": at(50), "p99": at(99), "max": told.latencies.most().as_secs_f64() * 1e3},
        "complete": told.is_complete(),
    })
}

/// One line while it runs. `acked` in the time that has `passed` since the last one.
pub(super) fn progress(tally: &Tally, elapsed: Duration, acked: u64, passed: Duration) -> String {
    let recent = tally.take_recent();
    let at = |percent| recent.percentile(percent).map_or_else(|| "-".into(), millis);
    format!(
        "{:>5} s  sent {}  acknowledged {}  {:.0}/s  p50 {}  p99 {} ms  {} connected",
        elapsed.as_secs(),
        tally.sent(),
        tally.acked(),
        per_second(acked, passed),
        at(50),
        at(99),
        tally.connected()
    )
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
