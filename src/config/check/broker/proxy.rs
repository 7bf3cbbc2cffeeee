//! The HTTP proxy of a connection. Nothing here puts a credential into a problem.

use crate::config::boot::{Credential, ProxySpec, Secret};
use crate::config::check::path_of;
use crate::config::check::scalar::host_and_port;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong};

/// How the address is written.
const FORM: &str = "must be http://[user[:password]@]host:port";

/// `proxy` and the file of its password.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<ProxySpec> {
    let proxy = table.parsed("proxy", "an address such as \"http://10.0.0.1:3128\"", report, parse);
    let file = table.parsed("proxy_password_file", "a path", report, path_of);
    if table.get("proxy_password_file").is_some() {
        let spot = table.spot_of("proxy_password_file");
        match &proxy {
            None if !table.means("proxy") => {
                report.problem(&spot, Wrong::new("is of no use without `proxy`").hint("add `proxy`"));
            }
            Some(Parsed { username: None, .. }) => {
                let hint = "http://user@host:port in `proxy`";
                report.problem(&spot, Wrong::new("there is no user name").hint(hint));
            }
            Some(Parsed { password: Some(_), .. }) => {
                report.problem(&spot, Wrong::new("`proxy` has a password too: which one?"));
            }
            Some(Parsed { username: Some(_), password: None, .. }) | None => {}
        }
    }
    let Parsed { host, port, username, password } = proxy?;
    let password = match file {
        Some(path) => Credential::File(path),
        None => Credential::Text(Secret(password.unwrap_or_default())),
    };
    Some(ProxySpec { host, port, login: username.map(|username| (Secret(username), password)) })
}

struct Parsed {
    host: String,
    port: u16,
    username: Option<String>,
    password: Option<String>,
}

fn parse(text: &str) -> Result<Parsed, Wrong> {
    let wrong = || Wrong::new(FORM);
    let rest = match text.split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme @ ("https" | "socks" | "socks4" | "socks5"), _)) => {
            return Err(Wrong::new(format!("{FORM}; `{scheme}` is not supported")));
        }
        Some(_) | None => return Err(wrong()),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (login, authority) = match rest.rsplit_once('@') {
        Some((login, authority)) => (Some(login), authority),
        None => (None, rest),
    };
    let (host, port) = host_and_port(authority, FORM)?;
    let port = port.ok_or_else(|| Wrong::new("has no port").hint("proxies often use 3128 or 8080"))?;
    let (username, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
        None => (None, None),
        Some((username, password)) => {
            let (username, password) = (decode(username)?, decode(password)?);
            if username.is_empty() || username.contains(':') {
                return Err(Wrong::new("has no user name before the `@`, or one with a colon"));
            }
            (Some(username), Some(password).filter(|password| !password.is_empty()))
        }
    };
    Ok(Parsed { host, port, username, password })
}

/// `%40` for `@`, and so on.
fn decode(text: &str) -> Result<String, Wrong> {
    let wrong = || Wrong::new("has a `%` in the credentials that is not followed by two hexadecimal digits of UTF-8");
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push(u8::try_from(high * 16 + low).expect("two digits"));
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_a_port_and_perhaps_credentials() {
        let good = |text| parse(text).map(|at| (at.host, at.port, at.username, at.password)).expect(text);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(good("http://proxy.site:3128"), ("proxy.site".into(), 3128, None, None));
        assert_eq!(good("http://u@10.0.0.1:80/"), ("10.0.0.1".into(), 80, some("u"), None));
        assert_eq!(good("http://u:p%40s%3As@[::1]:8080"), ("::1".into(), 8080, some("u"), some("p@s:s")));
        for text in [
            "proxy:3128",
            "http://proxy",
            "https://proxy:3128",
            "socks5://proxy:1080",
            "http://:3128",
            "http://proxy:0",
            "http://:secret@proxy:3128",
            "http://u:secret%4@proxy:3128",
            "http://u:secret%ff@proxy:3128",
            "http://::1:3128",
        ] {
            let Err(wrong) = parse(text) else { panic!("{text}") };
            assert!(!format!("{wrong:?}").contains("secret"), "{wrong:?}");
        }
    }
}
