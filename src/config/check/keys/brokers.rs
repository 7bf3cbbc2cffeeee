//! The keys of `[devices]`, `[uplink]` and `[local]`.

use super::Need::{Default, Derived, Optional, Required};
use super::{Key, Section, key};

/// `[devices]` and `[uplink]`: what both have.
pub static BROKER: Section = Section { title: "[devices], [uplink]", keys: &BROKER_KEYS };

const BROKER_KEYS: [Key; 10] = [
    key("broker", Required, "`mqtt://host[:1883]` or `mqtts://host[:8883]`"),
    key("client_id", Derived("`tidegate-<id>`, uplink: `tidegate-<id>-uplink`"), "the broker's session hangs on it"),
    key("username", Optional, "user name"),
    key("username_file", Optional, "file that holds the user name, for one that is renewed; instead of `username`"),
    key("password_file", Optional, "file that holds the password or token"),
    key("ca_file", Optional, "trusted certificates, PEM, or `system`; required with `mqtts`"),
    key("server_name", Derived("the host of `broker`"), "whom the broker's certificate has to be for"),
    key("cert_file", Optional, "our certificate chain, PEM; together with `key_file`"),
    key("key_file", Optional, "our private key, PEM"),
    key("keep_alive", Default("60s"), "MQTT keep-alive, 5s to 18h"),
];

/// `[uplink]`: what it has beside that.
pub static UPLINK_ONLY: Section = Section { title: "[uplink]", keys: &UPLINK_KEYS };

const UPLINK_KEYS: [Key; 5] = [
    key("protocol", Default("3.1.1"), "version of MQTT: `3.1.1` or `5`"),
    key("compression", Default("none"), "of batches: `none` or `zstd`"),
    key("alpn", Optional, "list of names that TLS offers, such as `[\"x-amzn-mqtt-ca\"]` for port 443"),
    key("proxy", Optional, "HTTP proxy: `http://[user[:password]@]host:port`"),
    key("proxy_password_file", Optional, "file that holds the password for the proxy"),
];

/// `[uplink]`: all of it.
pub static UPLINK: Section = Section { title: "[uplink]", keys: &UPLINK_ALL };

const UPLINK_ALL: [Key; BROKER_KEYS.len() + UPLINK_KEYS.len()] = concat(BROKER_KEYS, UPLINK_KEYS);

const fn concat<const A: usize, const B: usize, const ALL: usize>(first: [Key; A], second: [Key; B]) -> [Key; ALL] {
    assert!(A + B == ALL, "as many as there are");
    let mut all = [key("", Optional, ""); ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < A { first[index] } else { second[index - A] };
        index += 1;
    }
    all
}

/// `[local]`.
pub static LOCAL: Section = Section {
    title: "[local]",
    keys: &[
        key("retain", Default("false"), "`true`: the broker keeps the last result of each topic"),
        key("qos", Default("0"), "0 or 1"),
    ],
};
