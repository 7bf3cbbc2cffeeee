//! `[listener]`: where devices connect to the agent itself.
//!
//! On when the section is there, or when `[devices]` is not: an agent without either would
//! hear nothing.

use core::ops::RangeInclusive;
use std::path::Path;

use crate::config::boot::{AccessSpec, ConnectionLimits, ListenerSpec};
use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::broker::limits::BrokerLimits;
use crate::engine::spec::CommitSpec;
use crate::model::limits::{LISTENER_COST_MAX, PAYLOAD_BYTES_MAX};
use crate::model::time::Span;

use super::table::Table;
use super::{keys, scalar, section};

pub(super) mod rules;
pub mod shown;
pub mod sockets;
mod tls;

pub(super) const ACK_WITHIN: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(10);
pub(super) const SESSION_EXPIRY: RangeInclusive<Span> = Span::from_secs(60)..=Span::from_secs(366 * 86_400);
/// That of MQTT, which counts seconds in 16 bits; below 5 s a busy link would end connections.
pub(super) const KEEP_ALIVE: RangeInclusive<Span> = Span::from_secs(5)..=Span::from_secs(18 * 3_600);
pub(super) const CONNECT_WITHIN: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(60);
/// Each is a file descriptor and some KiB.
pub(super) const CONNECTIONS: RangeInclusive<usize> = 1..=50_000;
/// Up to the largest payload that anything else here takes.
pub(super) const PACKET: RangeInclusive<u64> = 1 << 10..=PAYLOAD_BYTES_MAX as u64;
pub(super) const MESSAGES_PER_SECOND: RangeInclusive<usize> = 1..=100_000;
pub(super) const SUBSCRIPTIONS: RangeInclusive<usize> = 1..=1_024;
pub(super) const SUBSCRIPTIONS_SIZE: RangeInclusive<u64> = 64 << 10..=64 << 20;
pub(super) const IN_FLIGHT: RangeInclusive<usize> = 1..=1_000;
pub(super) const MESSAGES: RangeInclusive<usize> = 1..=100_000;
/// All of it is in memory, and in each snapshot; see also [`LISTENER_COST_MAX`].
pub(super) const QUEUE: RangeInclusive<u64> = 64 << 10..=32 << 20;
/// As above.
pub(super) const RETAINED: RangeInclusive<u64> = 64 << 10..=32 << 20;
pub(super) const MEMORY: RangeInclusive<u64> = 1 << 20..=256 << 20;

/// The listener: what the shell is told, and what the engine is.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    pub(super) spec: ListenerSpec,
    pub(super) limits: BrokerLimits,
}

/// `Some(None)`: there is none. `None`: it could not be built. `needed`: when `[devices]` is
/// absent there is one; a replay has none, whatever stands there.
#[expect(clippy::option_option, reason = "one level is 'reported', the other is 'off'")]
pub(super) fn check(
    root: &Table<'_>,
    needed: bool,
    commit: Option<CommitSpec>,
    control: Option<&Path>,
    report: &mut Report,
) -> Option<Option<Listener>> {
    let table = match root.get("listener") {
        Some(_) => section(root, "listener", &keys::LISTENER, false, report)?,
        None if needed && root.get("devices").is_none() => Table::absent("listener", &keys::LISTENER),
        None => return Some(None),
    };
    let tls = tls::check(&table, report);
    let sockets = sockets::check(&table, tls.as_ref(), control, report);
    let access = access(&table, report);
    if let (Some(sockets), Some(access)) = (&sockets, &access) {
        sockets::check_who_gets_in(&table, sockets, access, report);
    }
    let connections = connections(&table, report);
    let limits = broker(&table, report).filter(|limits| has_room(&table, limits, report));
    if let (Some(limits), Some(commit)) = (limits, commit)
        && table.get("ack_within").is_some()
        && limits.ack_within > commit.budget.map_or(commit.interval, |budget| budget.interval_max)
    {
        let interval = scalar::show(commit.interval);
        let wrong = Wrong::new(format!("has no effect: there is a commit every {interval} anyway (`commit_interval`)"));
        report.warn(&table.spot_of("ack_within"), wrong.hint("a shorter time, or remove it"));
    }
    let spec = ListenerSpec { sockets: sockets?, access: access?, limits: connections? };
    Some(needed.then_some(Listener { spec, limits: limits? }))
}

fn access(table: &Table<'_>, report: &mut Report) -> Option<AccessSpec> {
    let password_file = table.parsed("password_file", "a path", report, super::path_of);
    let anonymous = match table.get("anonymous") {
        Some(_) => table.choice("anonymous", &[("loopback", true), ("never", false)], report),
        // Who has given out passwords wants to know who is there, on this machine too.
        None => Some(!table.means("password_file")),
    };
    let rules = rules::check(table, report);
    if let Some(rules) = &rules {
        rules::warn(table, rules, report);
        if anonymous == Some(true) {
            rules::warn_nameless(table, rules, report);
        }
    }
    // A path that is wrong was reported.
    if table.get("password_file").is_some() {
        password_file.as_ref()?;
    }
    Some(AccessSpec { password_file, anonymous_on_loopback: anonymous?, rules: rules? })
}

fn connections(table: &Table<'_>, report: &mut Report) -> Option<ConnectionLimits> {
    let connections = table.integer("max_connections", CONNECTIONS, report);
    let per_address = table.integer("max_connections_per_address", CONNECTIONS, report);
    let packet_bytes = bytes(table, "max_packet", PACKET, report);
    let memory_bytes = bytes(table, "memory", MEMORY, report);
    let connect_within = span(table, "connect_within", CONNECT_WITHIN, report);
    let keep_alive_max = table.parsed("keep_alive_max", "a duration, or \"off\"", report, |text| {
        scalar::or_off(text, |text| scalar::span(text, KEEP_ALIVE))
    });
    let messages_per_second = messages_per_second(table, report);
    let packet_bytes = packet_bytes?;
    Some(ConnectionLimits {
        connections: connections?,
        connections_per_address: per_address?,
        packet_bytes,
        connect_bytes: ConnectionLimits::default().connect_bytes.min(packet_bytes),
        memory_bytes: memory_bytes?,
        messages_per_second: messages_per_second?,
        connect_within: connect_within?,
        keep_alive_max: keep_alive_max?.unwrap_or(Span::ZERO),
    })
}

/// Whether all that clients may leave behind can be kept.
fn has_room(table: &Table<'_>, limits: &BrokerLimits, report: &mut Report) -> bool {
    let (whole, most) = (limits.cost(), LISTENER_COST_MAX);
    if whole <= most {
        return true;
    }
    let least = |key: &str| match key {
        "queue_size" => BrokerLimits { queue_bytes: 0, ..*limits },
        "retained_size" => BrokerLimits { retained_bytes: 0, ..*limits },
        "subscriptions_size" => BrokerLimits { subscription_bytes: 0, ..*limits },
        _ => BrokerLimits { sessions: 0, ..*limits },
    };
    let parts = ["queue_size", "retained_size", "subscriptions_size", "max_sessions"];
    let largest = parts.into_iter().min_by_key(|key| least(key).cost()).unwrap_or("queue_size");
    let mib = |bytes: usize| bytes.div_ceil(1 << 20);
    let wrong = Wrong::new(format!(
        "what clients may leave behind would take {}MiB of the state, at most {}MiB, and most of it is this",
        mib(whole),
        mib(most),
    ));
    let hint = if largest == "max_sessions" {
        "fewer, or a smaller `max_in_flight`: each session may take 12 bytes for each of those"
    } else {
        "less; `queue_size`, `retained_size`, half of `subscriptions_size` and the sessions count"
    };
    report.problem(&table.spot_of(largest), wrong.hint(hint));
    false
}

/// 0: no bound.
fn messages_per_second(table: &Table<'_>, report: &mut Report) -> Option<u32> {
    let key = "max_messages_per_second";
    match table.get(key) {
        None => Some(0),
        Some(item) if matches!(item.value, Value::Text(_)) => {
            let what =
                format!("an integer from {} to {}, or \"off\"", MESSAGES_PER_SECOND.start(), MESSAGES_PER_SECOND.end());
            item.parsed(
                &what,
                report,
                |text| if text == "off" { Ok(0) } else { Err(Wrong::new(format!("must be {what}"))) },
            )
        }
        Some(_) => table.integer(key, MESSAGES_PER_SECOND, report).and_then(|count| u32::try_from(count).ok()),
    }
}

fn broker(table: &Table<'_>, report: &mut Report) -> Option<BrokerLimits> {
    let sessions = table.integer("max_sessions", CONNECTIONS, report);
    let subscriptions = table.integer("max_subscriptions", SUBSCRIPTIONS, report);
    let subscription_bytes = bytes(table, "subscriptions_size", SUBSCRIPTIONS_SIZE, report);
    let in_flight = table.integer("max_in_flight", IN_FLIGHT, report);
    let queue_messages = table.integer("queue_messages", MESSAGES, report);
    let queue_bytes = bytes(table, "queue_size", QUEUE, report);
    let retained_messages = table.integer("retained_messages", MESSAGES, report);
    let retained_bytes = bytes(table, "retained_size", RETAINED, report);
    let session_expiry_max = span(table, "session_expiry_max", SESSION_EXPIRY, report);
    let ack_within = span(table, "ack_within", ACK_WITHIN, report);
    Some(BrokerLimits {
        sessions: sessions?,
        subscriptions: subscriptions?,
        subscription_bytes: subscription_bytes?,
        in_flight: u16::try_from(in_flight?).ok()?,
        queue_messages: queue_messages?,
        queue_bytes: queue_bytes?,
        retained_messages: retained_messages?,
        retained_bytes: retained_bytes?,
        session_expiry_max: session_expiry_max?,
        ack_within: ack_within?,
    })
}

fn span(table: &Table<'_>, key: &str, range: RangeInclusive<Span>, report: &mut Report) -> Option<Span> {
    table.parsed(key, scalar::DURATION, report, |text| scalar::span(text, range.clone()))
}

fn bytes(table: &Table<'_>, key: &str, range: RangeInclusive<u64>, report: &mut Report) -> Option<usize> {
    let bytes = table.parsed(key, scalar::SIZE, report, |text| scalar::size(text, range.clone()))?;
    usize::try_from(bytes).ok()
}
