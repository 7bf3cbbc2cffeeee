//! `mqtt://host[:port]` on the command line, and `mqtts://` where a command can use it.

use core::str::FromStr;

use crate::agent::mqtt::client::ClientSpec;

/// Port of MQTT without TLS.
const PORT_DEFAULT: u16 = 1883;
/// Port of MQTT with TLS.
const TLS_PORT_DEFAULT: u16 = 8883;

/// Address of a broker, and whether to speak TLS with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnyBrokerUrl {
    /// Where it is.
    pub url: BrokerUrl,
    /// The scheme is `mqtts`.
    pub tls: bool,
}

/// Address of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerUrl {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl BrokerUrl {
    /// A client of this broker.
    pub fn client(&self, client_id: &str, clean: bool) -> ClientSpec {
        ClientSpec { host: self.host.clone(), port: self.port, client_id: client_id.to_owned(), clean }
    }
}

impl FromStr for BrokerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<BrokerUrl, String> {
        let any: AnyBrokerUrl = text.parse()?;
        if any.tls {
            return Err("this command speaks plain MQTT only; expected mqtt://host:port".into());
        }
        Ok(any.url)
    }
}

impl FromStr for AnyBrokerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<AnyBrokerUrl, String> {
        let wrong = |what: &str| format!("{what}; expected mqtt://host:port");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let (tls, port_default) = match scheme {
            "mqtt" => (false, PORT_DEFAULT),
            "mqtts" => (true, TLS_PORT_DEFAULT),
            other => return Err(wrong(&format!("unknown scheme \"{other}\""))),
        };
        if rest.contains('@') {
            return Err("must not hold credentials: it would show them to whoever lists the processes; expected \
                        mqtt://host:port"
                .into());
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            // An IPv6 address without a port ends with its bracket.
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| wrong(&format!("\"{port}\" is no port")))?)
            }
            _ => (rest, port_default),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || host.contains('/') {
            return Err(wrong("no host"));
        }
        Ok(AnyBrokerUrl { url: BrokerUrl { host: host.to_owned(), port }, tls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_is_a_host_and_a_port() {
        let parse = |text: &str| text.parse::<BrokerUrl>().map(|url| (url.host, url.port));
        assert_eq!(parse("mqtt://127.0.0.1:1884"), Ok(("127.0.0.1".into(), 1884)));
        assert_eq!(parse("mqtt://cloud.example/"), Ok(("cloud.example".into(), 1883)));
        assert_eq!(parse("mqtt://[::1]:9"), Ok(("::1".into(), 9)));
        assert_eq!(parse("mqtt://[::1]"), Ok(("::1".into(), 1883)));
        for (wrong, part) in [
            ("127.0.0.1:1884", "no scheme"),
            ("http://a", "unknown scheme"),
            ("mqtts://a", "plain MQTT only"),
            ("mqtt://a:99999", "no port"),
            ("mqtt://:1883", "no host"),
            ("mqtt://user:word@a:1883", "must not hold credentials"),
            ("mqtt://user@a", "must not hold credentials"),
        ] {
            assert!(parse(wrong).expect_err(wrong).contains(part), "{wrong}");
        }
    }

    #[test]
    fn with_tls_only_the_scheme_and_the_port_differ() {
        let parse = |text: &str| text.parse::<AnyBrokerUrl>().map(|any| (any.url.host, any.url.port, any.tls));
        assert_eq!(parse("mqtts://cloud.example"), Ok(("cloud.example".into(), 8883, true)));
        assert_eq!(parse("mqtts://cloud.example:9"), Ok(("cloud.example".into(), 9, true)));
        assert_eq!(parse("mqtt://cloud.example"), Ok(("cloud.example".into(), 1883, false)));
    }
}
