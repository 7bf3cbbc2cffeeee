//! TLS of a connection.

use crate::config::boot::{ClientCert, TlsSpec, Trust};
use crate::config::check::path_of;
use crate::config::check::scalar::Endpoint;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};
use crate::model::limits::MQTT_NAME_BYTES;

/// Names in one ALPN list; servers look for one of theirs.
pub(in crate::config::check) const ALPN_MAX: usize = 8;
/// What has no effect without TLS.
const KEYS: [&str; 5] = ["ca_file", "cert_file", "key_file", "server_name", "alpn"];

/// `Some(None)`: no TLS is wanted. `None`: it could not be built.
#[expect(clippy::option_option, reason = "one level is 'reported', the other is 'off'; both end here")]
pub(super) fn check(table: &Table<'_>, endpoint: Option<&Endpoint>, report: &mut Report) -> Option<Option<TlsSpec>> {
    let ca_file = table.parsed("ca_file", "a path, or \"system\"", report, path_of);
    let cert_file = table.parsed("cert_file", "a path", report, path_of);
    let key_file = table.parsed("key_file", "a path", report, path_of);
    let server_name = table.parsed("server_name", "a host name", report, server_name);
    for (there, key, missing) in [("cert_file", &key_file, "key_file"), ("key_file", &cert_file, "cert_file")] {
        if key.is_none() && table.get(there).is_some() && !table.means(missing) {
            let wrong = Wrong::new(format!("is of no use without `{missing}`"));
            report.problem(&table.spot_of(there), wrong.hint(format!("add `{missing}`")));
        }
    }
    if !endpoint?.tls {
        for key in KEYS.into_iter().filter(|key| table.has(key)) {
            let wrong = Wrong::new("has no effect: the address is `mqtt://`, without TLS");
            report.problem(&table.spot_of(key), wrong.hint("mqtts://, or remove it"));
        }
        return Some(None);
    }
    if !table.means("ca_file") {
        let wrong = Wrong::new("is missing: with `mqtts://` it says whom to trust");
        report.problem(&table.spot_of("ca_file"), wrong.hint("\"system\" trusts the public CAs of the system"));
    }
    let trust = ca_file.map(|path| if path.as_os_str() == "system" { Trust::System } else { Trust::File(path) });
    let client = cert_file.zip(key_file).map(|(cert_file, key_file)| ClientCert { cert_file, key_file });
    Some(Some(TlsSpec { trust: trust?, client, server_name, alpn: Vec::new() }))
}

fn server_name(text: &str) -> Result<String, Wrong> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if text.len() > MQTT_NAME_BYTES || !text.bytes().all(plain) {
        return Err(Wrong::new("must be a host name or an address, without scheme and port"));
    }
    Ok(text.to_owned())
}

/// The names that are offered; none when there is no list.
pub(super) fn alpn(table: &Table<'_>, report: &mut Report) -> Option<Vec<String>> {
    let Some(items) = table.get("alpn") else { return Some(Vec::new()) };
    let spot = items.spot.clone();
    let items = items.list(report)?;
    if items.is_empty() || items.len() > ALPN_MAX {
        report.problem(&spot, Wrong::new(format!("must be 1 to {ALPN_MAX} names")));
        return None;
    }
    let name = |text: &str| {
        if text.len() > 255 { Err(Wrong::new("must be at most 255 bytes")) } else { Ok(text.to_owned()) }
    };
    items.iter().map(|item| item.parsed("a string", report, name)).collect()
}
