//! The keys of `[listener]`.

use super::Need::{Default, Derived, Optional};
use super::forms::{OFF, PATH, SOCKET, bounded, pattern};
use super::shape::{Form, Shape, duration, integer, list, one_or_more, size};
use super::{Section, key};
use crate::config::check::listener::rules::{FILTERS_MAX, RULES_MAX, USER_BYTES_MAX};
use crate::config::check::listener::sockets::ADDRESSES_MAX;
use crate::config::check::listener::{
    ACK_WITHIN, CONNECT_WITHIN, CONNECTIONS, IN_FLIGHT, KEEP_ALIVE, MEMORY, MESSAGES, MESSAGES_PER_SECOND, PACKET,
    QUEUE, RETAINED, SESSION_EXPIRY, SUBSCRIPTIONS, SUBSCRIPTIONS_SIZE,
};
use crate::model::access::FILTER_BYTES_MAX;

/// `[listener]`.
pub static LISTENER: Section = Section {
    id: "listener",
    title: "[listener]",
    keys: &[
        key(
            "tcp",
            Derived("`127.0.0.1:1883` when there is no other socket"),
            ADDRESSES,
            "'127.0.0.1:1883'",
            "where it listens: an address with a port, or a list",
        ),
        key(
            "tls",
            Optional,
            ADDRESSES,
            "'0.0.0.0:8883'",
            "where it listens with TLS, as `tcp`; needs `cert_file` and `key_file`",
        ),
        key(
            "websocket",
            Optional,
            ADDRESSES,
            "'127.0.0.1:8080'",
            "where it listens for MQTT over WebSocket, as `tcp`; path `/mqtt`",
        ),
        key(
            "websocket_tls",
            Optional,
            ADDRESSES,
            "['0.0.0.0:8443', '[::1]:8444']",
            "where it listens for WebSocket with TLS, as `tls`",
        ),
        key("unix", Optional, SOCKET, "'/run/tidegate/mqtt.sock'", "path of a Unix socket; at most 107 bytes"),
        key(
            "cert_file",
            Optional,
            PATH,
            "'/etc/tidegate/server.crt'",
            "our certificate chain, PEM, for TLS; read again when it changes",
        ),
        key("key_file", Optional, PATH, "'/etc/tidegate/server.key'", "our private key, PEM"),
        key(
            "client_ca_file",
            Optional,
            PATH,
            "'/etc/tidegate/clients.crt'",
            "clients show a certificate signed by one of these; its common name is their user name",
        ),
        key(
            "client_cert",
            Derived("`required`, with `client_ca_file`"),
            Shape::Words("required optional"),
            "'optional'",
            "`required`, or `optional`: those without one may have a password",
        ),
        key(
            "password_file",
            Optional,
            PATH,
            "'/etc/tidegate/passwords'",
            "user names and hashed passwords, made by `tidegate password`; read again when it changes",
        ),
        key(
            "anonymous",
            Derived("`loopback`; with `password_file`: `never`"),
            Shape::Words("loopback never"),
            "'never'",
            "who needs no user name: whoever connects from this machine (`loopback`), or nobody (`never`)",
        ),
        key(
            "ack_within",
            Default("50ms"),
            duration(&ACK_WITHIN),
            "'20ms'",
            "longest time from a message at QoS 1 or 2 to the commit that acknowledges it, 1ms to 10s",
        ),
        key(
            "session_expiry_max",
            Default("7d"),
            duration(&SESSION_EXPIRY),
            "'1d'",
            "longest that a session outlives its connection, 1m to 366d",
        ),
        key(
            "keep_alive_max",
            Default("off"),
            Shape::AnyOf(&[OFF, KEPT]),
            "'5m'",
            "longest keep-alive of MQTT 5 clients, who are told, 5s to 18h; or `off`. Of 3.1.1 clients, what they ask for holds",
        ),
        key(
            "connect_within",
            Default("5s"),
            duration(&CONNECT_WITHIN),
            "'10s'",
            "time that a connection has for its CONNECT, 1s to 1m",
        ),
        key(
            "max_connections",
            Default("2000"),
            integer(&CONNECTIONS, "connections"),
            "500",
            "at a time, 1 to 50000; further ones are closed",
        ),
        key(
            "max_connections_per_address",
            Default("200"),
            integer(&CONNECTIONS, "connections"),
            "20",
            "of one address other than this machine's, 1 to 50000",
        ),
        key(
            "max_packet",
            Default("256KiB"),
            size(&PACKET),
            "'64KiB'",
            "largest packet, 1KiB to 256KiB; a larger one ends the connection",
        ),
        key(
            "max_messages_per_second",
            Default("off"),
            Shape::AnyOf(&[OFF, RATE]),
            "100",
            "of one client, 1 to 100000; beyond it is read more slowly; or `off`",
        ),
        key(
            "max_sessions",
            Default("2000"),
            integer(&CONNECTIONS, "sessions"),
            "500",
            "connected or not, 1 to 50000; the one that is without its client for longest makes way",
        ),
        key(
            "max_subscriptions",
            Default("128"),
            integer(&SUBSCRIPTIONS, "subscriptions"),
            "32",
            "of one client, 1 to 1024; further ones are refused",
        ),
        key(
            "subscriptions_size",
            Default("16MiB"),
            size(&SUBSCRIPTIONS_SIZE),
            "'1MiB'",
            "of those of all clients, 64KiB to 64MiB; further ones are refused",
        ),
        key(
            "max_in_flight",
            Default("100"),
            integer(&IN_FLIGHT, "messages"),
            "20",
            "messages without an acknowledgement, of one client and each way, 1 to 1000",
        ),
        key(
            "queue_messages",
            Default("1000"),
            integer(&MESSAGES, "messages"),
            "200",
            "messages that wait for one client, 1 to 100000; beyond it the oldest goes",
        ),
        key(
            "queue_size",
            Default("8MiB"),
            size(&QUEUE),
            "'16MiB'",
            "of what waits for all clients, 64KiB to 32MiB; beyond it the oldest of who has the most goes",
        ),
        key(
            "retained_messages",
            Default("4096"),
            integer(&MESSAGES, "messages"),
            "1000",
            "how many are retained, 1 to 100000; further ones are passed on and not kept",
        ),
        key("retained_size", Default("4MiB"), size(&RETAINED), "'1MiB'", "of all retained ones, 64KiB to 32MiB"),
        key(
            "memory",
            Default("16MiB"),
            size(&MEMORY),
            "'32MiB'",
            "half-received packets and unsent output, of all clients, 1MiB to 256MiB; beyond it clients are sent away, and messages at QoS 0 dropped",
        ),
        key(
            "rules",
            Optional,
            list(&RULE, 0, RULES_MAX),
            "[{ user = '*', publish = 'devices/{username}/#' }]",
            "who may do what; without any, everything; see `listener.rules`",
        ),
    ],
    cases: &[],
};

/// An IPv6 address is in brackets; a port is always there.
static ADDRESS_FORM: Form = pattern(r"^(?:[0-9.]+|\[[0-9A-Fa-f:.%]+\]):[0-9]+$");
const ADDRESS: Shape = Shape::Text(&ADDRESS_FORM);
const ADDRESSES: Shape = one_or_more(&ADDRESS, ADDRESSES_MAX);
const KEPT: Shape = duration(&KEEP_ALIVE);
const RATE: Shape = integer(&MESSAGES_PER_SECOND, "messages per second");
const RULE: Shape = Shape::Table(&LISTENER_RULE);

/// `[[listener.rules]]`.
pub static LISTENER_RULE: Section = Section {
    id: "rule",
    title: "[[listener.rules]]",
    keys: &[
        key(
            "user",
            Derived("those without a user name"),
            Shape::Text(&USER),
            "'sensor-*'",
            "whom it is for: a user name, `*` in it for any text; the first rule that fits counts",
        ),
        key(
            "publish",
            Optional,
            FILTERS,
            "'devices/{client_id}/#'",
            "filters of topics that they may publish to, `{client_id}` and `{username}` for a level of their own; without it none",
        ),
        key(
            "subscribe",
            Optional,
            FILTERS,
            "['commands/{client_id}', 'time']",
            "filters that they may subscribe to, or to a part of; without it none",
        ),
        key(
            "deny",
            Optional,
            FILTERS,
            "'devices/+/secret'",
            "filters of topics that they neither publish to nor receive, whatever stands in the others and however they have subscribed",
        ),
    ],
    cases: &[],
};

static USER: Form = bounded(1, USER_BYTES_MAX, r"^[^\x00-\x1f\x7f]*$");
static FILTER_FORM: Form = bounded(1, FILTER_BYTES_MAX, r"^[^\x00-\x1f\x7f]*$");
const FILTER: Shape = Shape::Text(&FILTER_FORM);
const FILTERS: Shape = one_or_more(&FILTER, FILTERS_MAX);
