//! The keys of `[listener]`.

use super::Need::{Default, Derived, Optional};
use super::{Section, key};

/// `[listener]`.
pub static LISTENER: Section = Section {
    title: "[listener]",
    keys: &[
        key(
            "tcp",
            Derived("`127.0.0.1:1883` when there is no other socket"),
            "where it listens: an address with a port, or a list",
        ),
        key("tls", Optional, "the same, with TLS; needs `cert_file` and `key_file`"),
        key("websocket", Optional, "the same, MQTT over WebSocket, path `/mqtt`"),
        key("websocket_tls", Optional, "the same, with TLS"),
        key("unix", Optional, "path of a Unix socket; at most 107 bytes"),
        key("cert_file", Optional, "our certificate chain, PEM, for TLS; read again when it changes"),
        key("key_file", Optional, "our private key, PEM"),
        key(
            "client_ca_file",
            Optional,
            "clients show a certificate signed by one of these; its common name is their user name",
        ),
        key(
            "client_cert",
            Derived("`required`, with `client_ca_file`"),
            "`required`, or `optional`: those without one may have a password",
        ),
        key(
            "password_file",
            Optional,
            "user names and hashed passwords, made by `tidegate password`; read again when it changes",
        ),
        key(
            "anonymous",
            Derived("`loopback`; with `password_file`: `never`"),
            "who needs no user name: whoever connects from this machine (`loopback`), or nobody (`never`)",
        ),
        key(
            "ack_within",
            Default("50ms"),
            "longest time from a message at QoS 1 or 2 to the commit that acknowledges it, 1ms to 10s",
        ),
        key("session_expiry_max", Default("7d"), "longest that a session outlives its connection, 1m to 366d"),
        key(
            "keep_alive_max",
            Default("off"),
            "longest keep-alive of MQTT 5 clients, who are told, 5s to 18h; or `off`. Of 3.1.1 clients, what they ask for holds",
        ),
        key("connect_within", Default("5s"), "time that a connection has for its CONNECT, 1s to 1m"),
        key("max_connections", Default("2000"), "at a time, 1 to 50000; further ones are closed"),
        key("max_connections_per_address", Default("200"), "of one address other than this machine's, 1 to 50000"),
        key("max_packet", Default("256KiB"), "largest packet, 1KiB to 256KiB; a larger one ends the connection"),
        key(
            "max_messages_per_second",
            Default("off"),
            "of one client, 1 to 100000; beyond it is read more slowly; or `off`",
        ),
        key(
            "max_sessions",
            Default("2000"),
            "connected or not, 1 to 50000; the one that is without its client for longest makes way",
        ),
        key("max_subscriptions", Default("128"), "of one client, 1 to 1024; further ones are refused"),
        key(
            "subscriptions_size",
            Default("16MiB"),
            "of those of all clients, 64KiB to 64MiB; further ones are refused",
        ),
        key(
            "max_in_flight",
            Default("100"),
            "messages without an acknowledgement, of one client and each way, 1 to 1000",
        ),
        key(
            "queue_messages",
            Default("1000"),
            "messages that wait for one client, 1 to 100000; beyond it the oldest goes",
        ),
        key(
            "queue_size",
            Default("8MiB"),
            "of what waits for all clients, 64KiB to 256MiB; beyond it the oldest of who has the most goes",
        ),
        key("retained_messages", Default("4096"), "1 to 100000; further ones are passed on and not kept"),
        key("retained_size", Default("4MiB"), "of all of them, 64KiB to 64MiB"),
        key(
            "memory",
            Default("16MiB"),
            "half-received packets and unsent output, of all clients, 1MiB to 256MiB; beyond it clients are sent away, and messages at QoS 0 dropped",
        ),
        key("rules", Optional, "who may do what; without any, everything; see `listener.rules`"),
    ],
};

/// `[[listener.rules]]`.
pub static LISTENER_RULE: Section = Section {
    title: "[[listener.rules]]",
    keys: &[
        key(
            "user",
            Derived("those without a user name"),
            "whom it is for: a user name, `*` in it for any text; the first rule that fits counts",
        ),
        key(
            "publish",
            Optional,
            "filters of topics that they may publish to, `{client_id}` and `{username}` for a level of their own; without it none",
        ),
        key("subscribe", Optional, "filters that they may subscribe to, or to a part of; without it none"),
        key(
            "deny",
            Optional,
            "filters of topics that they neither publish to nor receive, whatever stands in the others and however they have subscribed",
        ),
    ],
};
