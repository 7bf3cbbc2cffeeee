//! What a client of the listener may rely on, in both versions of MQTT.
//!
//! Black-box tests: `tidegate broker` as a child process, and clients that write each frame
//! themselves, so that what arrives at the server is known to the byte. No session code of
//! the agent is used on this side. Every test has its own server, port and directory and waits
//! for what comes, never for time.
//!
//! `TIDEGATE_LISTENER_TESTS=mosquitto` runs the same tests against mosquitto: it tells
//! whether a test or the listener is wrong. Where the two may differ, the test asks
//! [`server::Server::is_ours`].

#![cfg(feature = "agent")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![allow(clippy::disallowed_methods, reason = "deadlines of a test that waits for other processes")]

mod access;
#[path = "../end_to_end/broker.rs"]
mod broker;
#[path = "../shell/certificates.rs"]
#[expect(dead_code, reason = "certificates that are not valid now are for tests of the client side")]
mod certificates;
mod client;
mod commit;
mod connect;
mod deny;
mod exactly_once;
mod expiry;
mod hostile;
mod keep_alive;
mod limits;
mod malformed;
mod options;
mod peers;
mod python;
mod redelivery;
mod retained;
mod rumqtt;
mod server;
mod shared;
mod sockets;
#[path = "../world/streams.rs"]
mod streams;
mod subscriptions;
mod wills;
mod wire;
