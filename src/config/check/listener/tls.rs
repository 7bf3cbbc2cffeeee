//! TLS of the listener.

use crate::config::boot::ServerTlsSpec;
use crate::config::check::path_of;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};

/// Sockets that need it.
const SOCKETS: [&str; 2] = ["tls", "websocket_tls"];
/// What has no effect without one of those.
const KEYS: [&str; 4] = ["cert_file", "key_file", "client_ca_file", "client_cert"];

/// What all sockets with TLS have; `None`: none has, or it could not be built.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<ServerTlsSpec> {
    let cert_file = table.parsed("cert_file", "a path", report, path_of);
    let key_file = table.parsed("key_file", "a path", report, path_of);
    let client_ca_file = table.parsed("client_ca_file", "a path", report, path_of);
    let required = table.choice("client_cert", &[("required", true), ("optional", false)], report);
    let Some(socket) = SOCKETS.into_iter().find(|key| table.means(key)) else {
        for key in KEYS.into_iter().filter(|key| table.has(key)) {
            let wrong = Wrong::new("has no effect: no socket has TLS");
            report.problem(&table.spot_of(key), wrong.hint("add `tls`, such as \"0.0.0.0:8883\", or remove it"));
        }
        return None;
    };
    for key in ["cert_file", "key_file"].into_iter().filter(|key| !table.means(key)) {
        let what = if key == "cert_file" { "our certificate chain" } else { "our private key" };
        let wrong = Wrong::new(format!("is missing: `{socket}` needs it"));
        report.problem(&table.spot_of(key), wrong.hint(format!("path of {what}, PEM")));
    }
    if table.has("client_cert") && !table.means("client_ca_file") {
        let wrong = Wrong::new("is of no use without `client_ca_file`, which says whose certificates count");
        report.problem(&table.spot_of("client_cert"), wrong.hint("add `client_ca_file`"));
    }
    // A value that is wrong was reported.
    if (table.has("client_ca_file") && client_ca_file.is_none()) || (table.has("client_cert") && required.is_none()) {
        return None;
    }
    let client_cert_required = client_ca_file.is_some() && required.unwrap_or(true);
    Some(ServerTlsSpec { cert_file: cert_file?, key_file: key_file?, client_ca_file, client_cert_required })
}
