//! Sockets of the listener, and whether anybody can come in through them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::config::boot::{AccessSpec, BrokerSpec, ServerTlsSpec, SocketAddress, SocketSpec};
use crate::config::check::socket as socket_path;
use crate::config::check::table::{Item, Table};
use crate::config::problem::{Report, Spot, Wrong};

/// Addresses of one key.
pub(in crate::config::check) const ADDRESSES_MAX: usize = 8;
/// Where it listens when nothing is said.
pub(super) const ADDRESS_DEFAULT: &str = "127.0.0.1:1883";
/// Keys of TCP sockets: name, WebSocket, TLS, port by habit.
const KEYS: [(&str, bool, bool, u16); 4] = [
    ("tcp", false, false, 1883),
    ("tls", false, true, 8883),
    ("websocket", true, false, 8080),
    ("websocket_tls", true, true, 8443),
];

/// A socket, and where it is written.
pub(super) struct Found {
    spot: Spot,
    spec: SocketSpec,
}

/// Whether the section names any.
pub(super) fn are_named(has: impl Fn(&str) -> bool) -> bool {
    KEYS.iter().any(|(key, ..)| has(key)) || has("unix")
}

/// All sockets. `tls` is what those with TLS have; its absence was reported.
pub(super) fn check(
    table: &Table<'_>,
    tls: Option<&ServerTlsSpec>,
    control: Option<&Path>,
    report: &mut Report,
) -> Option<Vec<SocketSpec>> {
    let mut found: Vec<Found> = Vec::new();
    let mut complete = true;
    for (key, websocket, with_tls, port) in KEYS {
        let Some(item) = table.get(key) else { continue };
        let Some(items) = item.one_or_more(1..=ADDRESSES_MAX, report) else {
            complete = false;
            continue;
        };
        for item in items {
            let Some(address) = address(&item, port, report) else {
                complete = false;
                continue;
            };
            let spec =
                SocketSpec { address: SocketAddress::Tcp(address), websocket, tls: tls.filter(|_| with_tls).cloned() };
            complete &= with_tls == spec.tls.is_some();
            found.push(Found { spot: item.spot, spec });
        }
    }
    if let Some(item) = table.get("unix") {
        match item.parsed("a path", report, socket_path) {
            Some(path) => {
                if control == Some(&path) {
                    report.problem(&item.spot, Wrong::new("is the control socket's path (`control.socket`) too"));
                }
                let address = SocketAddress::Unix(path);
                found.push(Found { spot: item.spot, spec: SocketSpec { address, websocket: false, tls: None } });
            }
            None => complete = false,
        }
    }
    if !are_named(|key| table.has(key)) {
        let address = SocketAddress::Tcp(ADDRESS_DEFAULT.parse().expect("the default is an address"));
        found.push(Found { spot: table.spot(), spec: SocketSpec { address, websocket: false, tls: None } });
    }
    check_distinct(&found, report);
    complete.then(|| found.into_iter().map(|found| found.spec).collect())
}

/// Brokers that are the listener itself: what it passes on would come in a second time, or never
/// leave.
pub(in crate::config::check) fn check_brokers(
    sockets: &[SocketSpec],
    brokers: [(Option<&Table<'_>>, Option<&BrokerSpec>); 2],
    report: &mut Report,
) {
    for (table, broker) in brokers {
        let (Some(table), Some(broker)) = (table, broker) else { continue };
        if sockets.iter().any(|socket| is_own(socket, broker)) {
            let wrong = Wrong::new("is an address of `[listener]`: the agent would be its own broker");
            report.problem(&table.spot_of("broker"), wrong.hint("another port for one of them"));
        }
    }
}

/// As far as addresses tell. A name may lead anywhere, but for the one of this machine.
fn is_own(socket: &SocketSpec, broker: &BrokerSpec) -> bool {
    let SocketAddress::Tcp(own) = socket.address else { return false };
    let there = match broker.host.parse::<IpAddr>() {
        Ok(ip) => ip,
        Err(_) if broker.host.eq_ignore_ascii_case("localhost") => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Err(_) => return false,
    };
    let reaches = own.ip() == there || (own.ip().is_unspecified() && there.is_loopback());
    reaches && own.port() == broker.port && !socket.websocket
}

/// An address with a port, strictly: a name could mean several.
fn address(item: &Item<'_>, port: u16, report: &mut Report) -> Option<SocketAddr> {
    item.parsed(&what(port), report, |text| {
        parse(text, port, "the key says what it speaks").map_err(|(message, hint)| {
            let hint = hint.map(|hint| if hint.parse::<SocketAddr>().is_ok() { format!("\"{hint}\"") } else { hint });
            let wrong = Wrong::new(message);
            match hint {
                Some(hint) => wrong.hint(hint),
                None => wrong,
            }
        })
    })
}

fn what(port: u16) -> String {
    format!("an address with a port, such as \"127.0.0.1:{port}\"")
}

/// An address with a port on the command line, for plain MQTT.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub fn argument(text: &str) -> Result<SocketAddr, String> {
    let (_, _, _, port) = KEYS[0];
    parse(text, port, "it is plain MQTT").map_err(|(message, hint)| {
        let message = message.replace('"', "");
        hint.map_or(message.clone(), |hint| format!("{message}; {hint}"))
    })
}

/// What is wrong, and what helps. `spoken`: why there is no scheme.
fn parse(text: &str, port: u16, spoken: &str) -> Result<SocketAddr, (String, Option<String>)> {
    let wrong = |hint: Option<String>| Err((format!("must be {}", what(port)), hint));
    if let Ok(address) = text.parse::<SocketAddr>() {
        return match address.port() {
            0 => Err(("the port must be a number from 1 to 65535".to_owned(), None)),
            _ => Ok(address),
        };
    }
    if text.contains("://") {
        return wrong(Some(format!("without a scheme: {spoken}")));
    }
    let alone = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
    wrong(match (alone, text.rsplit_once(':')) {
        (Some(ip), _) => Some(SocketAddr::new(ip, port).to_string()),
        (None, Some((host, number))) if number.parse::<u16>().is_ok() => Some(match host {
            "localhost" => format!("127.0.0.1:{number}"),
            "" | "*" => format!("0.0.0.0:{number}"),
            name => format!("the address of {name}, not its name"),
        }),
        (None, _) if text.parse::<u16>().is_ok() => Some(format!("0.0.0.0:{text}")),
        (None, _) => None,
    })
}

/// The operating system refuses the second of two sockets that take the same connections.
fn check_distinct(found: &[Found], report: &mut Report) {
    for (index, this) in found.iter().enumerate() {
        let SocketAddress::Tcp(address) = this.spec.address else { continue };
        let taken = found[..index].iter().find(|other| match other.spec.address {
            SocketAddress::Tcp(other) => overlap(address, other),
            SocketAddress::Unix(_) => false,
        });
        if let Some(other) = taken {
            let wrong = Wrong::new(format!("{} takes this port already", other.spot.path));
            report.problem(&this.spot, wrong.hint("another port, or addresses that do not overlap"));
        }
    }
}

/// `[::]` takes IPv4 connections as well, as Linux has it.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let every = |ip: IpAddr| ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let all_of_kind = |ip: IpAddr, other: IpAddr| ip.is_unspecified() && ip.is_ipv4() == other.is_ipv4();
    let (a, b) = (one.ip(), other.ip());
    one.port() == other.port() && (a == b || every(a) || every(b) || all_of_kind(a, b) || all_of_kind(b, a))
}

fn is_beyond_loopback(socket: &SocketSpec) -> bool {
    match &socket.address {
        SocketAddress::Tcp(address) => !address.ip().to_canonical().is_loopback(),
        SocketAddress::Unix(_) => false,
    }
}

/// A socket that lets nobody in is not what anybody meant.
pub(super) fn check_who_gets_in(table: &Table<'_>, sockets: &[SocketSpec], access: &AccessSpec, report: &mut Report) {
    let passwords = access.password_file.is_some() || table.means("password_file");
    let with_authority = table.means("client_ca_file");
    let takes_certificates = |socket: &SocketSpec| socket.tls.is_some() && with_authority;
    let key_of = |socket: &SocketSpec| {
        let same = |(_, websocket, tls, _): &&(&str, bool, bool, u16)| {
            (*websocket, *tls) == (socket.websocket, socket.tls.is_some())
        };
        KEYS.iter().find(same).map_or("tcp", |(key, ..)| *key)
    };
    let mut complained: Vec<&str> = Vec::new();
    for socket in sockets.iter().filter(|socket| is_beyond_loopback(socket)) {
        let key = key_of(socket);
        if complained.contains(&key) {
            continue;
        }
        if !passwords && !takes_certificates(socket) {
            complained.push(key);
            let wrong = Wrong::new(
                "nobody could log in here: from other machines a password is needed, or with TLS a certificate, and there is neither",
            );
            let hint =
                if socket.tls.is_some() { "add `password_file` or `client_ca_file`" } else { "add `password_file`" };
            report.problem(&table.spot_of(key), wrong.hint(format!("{hint}, or listen on 127.0.0.1")));
        } else if passwords && socket.tls.is_none() {
            complained.push(key);
            let wrong = Wrong::new("passwords come over the network in clear text, for everybody on it to read");
            let with_tls = if socket.websocket { "websocket_tls" } else { "tls" };
            report.warn(&table.spot_of(key), wrong.hint(format!("`{with_tls}` instead")));
        }
    }
    let someone = passwords || access.anonymous_on_loopback || sockets.iter().any(takes_certificates);
    if !someone {
        let wrong = Wrong::new("nobody could log in: there are no passwords and no client certificates");
        report.problem(&table.spot_of("anonymous"), wrong.hint("add `password_file`, or \"loopback\""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_on_the_command_line_is_read_as_in_the_file() {
        assert_eq!(argument("127.0.0.1:1883").map(|address| address.port()), Ok(1883));
        for (wrong, part) in [
            ("1883", "such as 127.0.0.1:1883; 0.0.0.0:1883"),
            ("localhost:9", "127.0.0.1:9"),
            ("127.0.0.1", "127.0.0.1:1883"),
            ("mqtt://127.0.0.1:1883", "without a scheme"),
            ("127.0.0.1:0", "1 to 65535"),
            ("nonsense", "must be an address with a port"),
        ] {
            let said = argument(wrong).expect_err(wrong);
            assert!(said.contains(part) && !said.contains("key"), "{wrong}: {said}");
        }
    }
}
