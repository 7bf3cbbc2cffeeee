//! `[devices]` and `[uplink]`.

use crate::config::boot::{BrokerSpec, ClientCert, TlsSpec};
use crate::config::problem::{Report, Wrong};
use crate::model::ids::Name;
use crate::model::limits::MQTT_NAME_BYTES;
use crate::model::time::Span;

use super::scalar::{self, Endpoint};
use super::table::Table;

/// MQTT counts seconds in 16 bits; below 5 s a busy engine would miss it.
const KEEP_ALIVE: core::ops::RangeInclusive<Span> = Span::from_secs(5)..=Span::from_secs(18 * 3_600);

/// Both connections, as far as they could be built.
#[derive(Clone, Debug, Default)]
pub(super) struct Brokers {
    pub(super) devices: Option<BrokerSpec>,
    pub(super) uplink: Option<BrokerSpec>,
}

/// Checks both. `id` is the gateway's, for the default client ids.
pub(super) fn check(
    devices: Option<&Table<'_>>,
    uplink: Option<&Table<'_>>,
    id: Option<&Name>,
    report: &mut Report,
) -> Brokers {
    let brokers = Brokers {
        devices: devices.and_then(|table| broker(table, id.map(|id| format!("tidegate-{id}")), report)),
        uplink: uplink.and_then(|table| broker(table, id.map(|id| format!("tidegate-{id}-uplink")), report)),
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

fn broker(table: &Table<'_>, default_id: Option<String>, report: &mut Report) -> Option<BrokerSpec> {
    let endpoint = table.parsed("broker", "an address such as \"mqtt://127.0.0.1:1883\"", report, scalar::endpoint);
    let client_id = match table.get("client_id") {
        Some(item) => item.parsed("a string", report, client_id),
        None => default_id,
    };
    let username = table.text("username", report);
    let password_file = table.parsed("password_file", "a path", report, super::path_of);
    if password_file.is_some() && table.get("username").is_none() {
        let wrong = Wrong::new("a password without `username`: MQTT 3.1.1 does not allow that");
        report.problem(&table.spot_of("password_file"), wrong.hint("add `username`"));
    }
    let keep_alive = table.parsed("keep_alive", scalar::DURATION, report, |text| scalar::span(text, KEEP_ALIVE));
    let tls = tls(table, endpoint.as_ref(), report);
    let endpoint = endpoint?;
    Some(BrokerSpec {
        host: endpoint.host,
        port: endpoint.port,
        tls: tls?,
        client_id: client_id?,
        username,
        password_file,
        keep_alive: keep_alive?,
    })
}

fn client_id(text: &str) -> Result<String, Wrong> {
    if text.len() > MQTT_NAME_BYTES || text.chars().any(char::is_control) {
        return Err(Wrong::new(format!("must be 1 to {MQTT_NAME_BYTES} bytes without control characters")));
    }
    Ok(text.to_owned())
}

/// `Some(None)`: no TLS is wanted. `None`: it could not be built.
#[expect(clippy::option_option, reason = "one level is 'reported', the other is 'off'; both end in this file")]
fn tls(table: &Table<'_>, endpoint: Option<&Endpoint>, report: &mut Report) -> Option<Option<TlsSpec>> {
    let ca_file = table.parsed("ca_file", "a path", report, super::path_of);
    let cert_file = table.parsed("cert_file", "a path", report, super::path_of);
    let key_file = table.parsed("key_file", "a path", report, super::path_of);
    for (there, key, missing) in [("cert_file", &key_file, "key_file"), ("key_file", &cert_file, "cert_file")] {
        if key.is_none() && table.get(there).is_some() && table.get(missing).is_none() {
            let wrong = Wrong::new(format!("is of no use without `{missing}`"));
            report.problem(&table.spot_of(there), wrong.hint(format!("add `{missing}`")));
        }
    }
    if !endpoint?.tls {
        for key in ["ca_file", "cert_file", "key_file"].into_iter().filter(|key| table.get(key).is_some()) {
            let wrong = Wrong::new("has no effect: the address is `mqtt://`, without TLS");
            report.problem(&table.spot_of(key), wrong.hint("mqtts://, or remove it"));
        }
        return Some(None);
    }
    if table.get("ca_file").is_none() {
        let wrong = Wrong::new("is missing: with `mqtts://` it says whom to trust");
        report
            .problem(&table.spot_of("ca_file"), wrong.hint("\"/etc/ssl/certs/ca-certificates.crt\" trusts public CAs"));
    }
    let client = cert_file.zip(key_file).map(|(cert_file, key_file)| ClientCert { cert_file, key_file });
    Some(Some(TlsSpec { ca_file: ca_file?, client }))
}
