//! `[devices]` and `[uplink]`.

use crate::config::boot::{BrokerSpec, Credential, Protocol, Secret};
use crate::config::problem::{Report, Wrong};
use crate::model::ids::Name;
use crate::model::limits::MQTT_NAME_BYTES;
use crate::model::time::Span;

use super::scalar;
use super::table::Table;

mod proxy;
pub(super) mod tls;

/// MQTT counts seconds in 16 bits; below 5 s a busy engine would miss it.
pub(super) const KEEP_ALIVE: core::ops::RangeInclusive<Span> = Span::from_secs(5)..=Span::from_secs(18 * 3_600);

/// Both connections, as far as they could be built.
#[derive(Clone, Debug, Default)]
pub(super) struct Brokers {
    pub(super) devices: Option<BrokerSpec>,
    pub(super) uplink: Option<BrokerSpec>,
    /// Batches are compressed.
    pub(super) compress: bool,
}

/// Checks both. `id` is the gateway's, for the default client ids.
pub(super) fn check(
    devices: Option<&Table<'_>>,
    uplink: Option<&Table<'_>>,
    id: Option<&Name>,
    report: &mut Report,
) -> Brokers {
    let words = [("none", false), ("zstd", true)];
    let brokers = Brokers {
        devices: devices.and_then(|table| broker(table, id.map(|id| format!("tidegate-{id}")), report)),
        uplink: uplink.and_then(|table| cloud(table, id.map(|id| format!("tidegate-{id}-uplink")), report)),
        compress: uplink.and_then(|table| table.choice("compression", &words, report)).unwrap_or(false),
    };
    if let (Some(here), Some(there), Some(table)) = (&brokers.devices, &brokers.uplink, uplink)
        && (&here.host, here.port, &here.client_id) == (&there.host, there.port, &there.client_id)
    {
        let wrong = Wrong::new(format!(
            "the id \"{}\" is also that of [devices] at the same broker: each connection would end the other",
            there.client_id
        ));
        report.problem(&table.spot_of("client_id"), wrong.hint(format!("\"{}-uplink\"", there.client_id)));
    }
    brokers
}

/// What `[uplink]` has beside the rest.
fn cloud(table: &Table<'_>, default_id: Option<String>, report: &mut Report) -> Option<BrokerSpec> {
    let protocol = table.choice("protocol", &[("3.1.1", Protocol::V311), ("5", Protocol::V5)], report);
    let proxy = proxy::check(table, report);
    let alpn = tls::alpn(table, report);
    let mut spec = broker(table, default_id, report)?;
    if let Some(tls) = &mut spec.tls {
        tls.alpn = alpn?;
    }
    if proxy.is_some() && is_loopback(&spec.host) {
        let wrong = Wrong::new(format!("is asked for a way to {}, which is itself", spec.host));
        report.warn(&table.spot_of("proxy"), wrong.hint("remove it, or name the broker's host"));
    }
    spec.proxy = proxy;
    spec.protocol = protocol?;
    Some(spec)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn broker(table: &Table<'_>, default_id: Option<String>, report: &mut Report) -> Option<BrokerSpec> {
    let endpoint = table.parsed("broker", "an address such as \"mqtt://127.0.0.1:1883\"", report, scalar::endpoint);
    let client_id = match table.get("client_id") {
        Some(item) => item.parsed("a string", report, client_id),
        None => default_id,
    };
    let username = username(table, report);
    let password_file = table.parsed("password_file", "a path", report, super::path_of);
    let password = if table.has("password") { table.text("password", report) } else { None };
    let key = if password.is_some() { "password" } else { "password_file" };
    if (password.is_some() || password_file.is_some()) && !table.means("username") && !table.means("username_file") {
        let wrong = Wrong::new("a password without `username`: MQTT 3.1.1 does not allow that");
        report.problem(&table.spot_of(key), wrong.hint("add `username`; any text, if the broker ignores it"));
    }
    if password.is_some() && password_file.is_some() {
        report.problem(&table.spot_of("password_file"), Wrong::new("there is `password` too: which one?"));
    }
    let keep_alive = table.parsed("keep_alive", scalar::DURATION, report, |text| scalar::span(text, KEEP_ALIVE));
    let tls = tls::check(table, endpoint.as_ref(), report);
    let endpoint = endpoint?;
    Some(BrokerSpec {
        host: endpoint.host,
        port: endpoint.port,
        tls: tls?,
        protocol: Protocol::V311,
        proxy: None,
        client_id: client_id?,
        username,
        password: password.map(Secret),
        password_file,
        keep_alive: keep_alive?,
    })
}

fn username(table: &Table<'_>, report: &mut Report) -> Option<Credential> {
    let text = table.text("username", report);
    let file = table.parsed("username_file", "a path", report, super::path_of);
    if table.get("username").is_some() && table.get("username_file").is_some() {
        report.problem(&table.spot_of("username_file"), Wrong::new("there is `username` too: which one?"));
    }
    file.map(Credential::File).or(text.map(|text| Credential::Text(Secret(text))))
}

fn client_id(text: &str) -> Result<String, Wrong> {
    if text.len() > MQTT_NAME_BYTES || text.chars().any(char::is_control) {
        return Err(Wrong::new(format!("must be 1 to {MQTT_NAME_BYTES} bytes without control characters")));
    }
    Ok(text.to_owned())
}
