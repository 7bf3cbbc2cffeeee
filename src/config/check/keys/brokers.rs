//! The keys of `[devices]`, `[uplink]` and `[local]`.

use super::Need::{Default, Derived, Optional, Required};
use super::forms::{BOOL, ID, PATH, TEXT, bounded, pattern};
use super::shape::{Form, Shape, duration, integer, list};
use super::{Key, Section, key};
use crate::config::check::broker::KEEP_ALIVE;
use crate::config::check::broker::tls::ALPN_MAX;
use crate::model::limits::MQTT_NAME_BYTES;

/// `[devices]` and `[uplink]`: what both have.
pub static BROKER: Section = Section { id: "broker", title: "[devices], [uplink]", keys: &BROKER_KEYS, cases: &[] };

const BROKER_KEYS: [Key; 10] = [
    key(
        "broker",
        Required,
        Shape::Text(&ADDRESS),
        "'mqtt://127.0.0.1:1883'",
        "`mqtt://host[:1883]` or `mqtts://host[:8883]`",
    ),
    key(
        "client_id",
        Derived("`tidegate-<id>`, uplink: `tidegate-<id>-uplink`"),
        ID,
        "'gw-17'",
        "the broker's session hangs on it",
    ),
    key("username", Optional, TEXT, "'tidegate'", "user name"),
    key(
        "username_file",
        Optional,
        PATH,
        "'/run/tidegate/user'",
        "file that holds the user name, for one that is renewed; instead of `username`",
    ),
    key("password_file", Optional, PATH, "'/etc/tidegate/password'", "file that holds the password or token"),
    key("ca_file", Optional, PATH, "'system'", "trusted certificates, PEM, or `system`; required with `mqtts`"),
    key(
        "server_name",
        Derived("the host of `broker`"),
        Shape::Text(&SERVER_NAME),
        "'mqtt.example'",
        "whom the broker's certificate has to be for",
    ),
    key(
        "cert_file",
        Optional,
        PATH,
        "'/etc/tidegate/gw-17.crt'",
        "our certificate chain, PEM; together with `key_file`",
    ),
    key("key_file", Optional, PATH, "'/etc/tidegate/gw-17.key'", "our private key, PEM"),
    key("keep_alive", Default("60s"), duration(&KEEP_ALIVE), "'30s'", "MQTT keep-alive, 5s to 18h"),
];

/// A scheme, a host (an IPv6 address in brackets), perhaps a port; no credentials.
static ADDRESS: Form = pattern(r"^mqtts?://(?:\[[0-9A-Fa-f:.]+\]|[^\x00-,/:-@\[-\^`\{-\x7f]+)(?::\+?[0-9]+)?/?$");
static SERVER_NAME: Form = bounded(1, MQTT_NAME_BYTES, "^[-A-Za-z0-9._:]*$");

/// `[uplink]`: what it has beside that.
pub static UPLINK_ONLY: Section = Section { id: "uplink", title: "[uplink]", keys: &UPLINK_KEYS, cases: &[] };

const UPLINK_KEYS: [Key; 6] = [
    key("protocol", Default("3.1.1"), Shape::Words("3.1.1 5"), "'5'", "version of MQTT: `3.1.1` or `5`"),
    key("compression", Default("none"), Shape::Words("none zstd"), "'zstd'", "of batches: `none` or `zstd`"),
    key(
        "alpn",
        Optional,
        list(&PROTOCOL_NAME, 1, ALPN_MAX),
        "['x-amzn-mqtt-ca']",
        "list of names that TLS offers, such as `[\"x-amzn-mqtt-ca\"]` for port 443",
    ),
    key(
        "proxy",
        Optional,
        Shape::Text(&PROXY),
        "'http://10.0.0.1:3128'",
        "HTTP proxy: `http://[user[:password]@]host:port`",
    ),
    key(
        "password",
        Optional,
        TEXT,
        "'x7Fq'",
        "the password itself, for a document that brings a new one over MQTT; in the file, `password_file` is the place",
    ),
    key(
        "proxy_password_file",
        Optional,
        PATH,
        "'/etc/tidegate/proxy-password'",
        "file that holds the password for the proxy",
    ),
];

const PROTOCOL_NAME: Shape = Shape::Text(&PROTOCOL_NAME_FORM);
static PROTOCOL_NAME_FORM: Form = bounded(1, 255, "");
static PROXY: Form = pattern(r"^http://[\s\S]+:\+?[0-9]+/?$");

/// `[uplink]`: all of it.
pub static UPLINK: Section = Section { id: "uplink", title: "[uplink]", keys: &UPLINK_ALL, cases: &[] };

const UPLINK_ALL: [Key; BROKER_KEYS.len() + UPLINK_KEYS.len()] = concat(BROKER_KEYS, UPLINK_KEYS);

const fn concat<const A: usize, const B: usize, const ALL: usize>(first: [Key; A], second: [Key; B]) -> [Key; ALL] {
    assert!(A + B == ALL, "as many as there are");
    let mut all = [key("", Optional, BOOL, "", ""); ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < A { first[index] } else { second[index - A] };
        index += 1;
    }
    all
}

/// `[local]`.
pub static LOCAL: Section = Section {
    id: "local",
    title: "[local]",
    keys: &[
        key("retain", Default("false"), BOOL, "true", "`true`: the broker keeps the last result of each topic"),
        key("qos", Default("0"), integer(&(0..=1), ""), "1", "quality of service of results, 0 or 1"),
    ],
    cases: &[],
};
