//! The agent's shell piece by piece: ingest and uplink against real and
//! scripted brokers, TLS, the control socket, and the whole with a fake engine.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects; all else fails it")]

#[path = "../end_to_end/broker.rs"]
mod broker;
mod certificates;
mod control;
mod echo;
mod five;
mod ingest;
mod local;
mod peer;
mod proxy;
mod schema;
mod systemd;
mod task;
mod tls;
mod torture;
mod tunnel;
mod uplink;
mod whole;
