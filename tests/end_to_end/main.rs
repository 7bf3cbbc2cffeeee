//! Black-box tests: the real binary between two real brokers: the listener, or mosquitto where
//! `TIDEGATE_TEST_BROKER=mosquitto` asks for it.
//!
//! Nothing of the agent is called from here: readings go in over MQTT, panes
//! come out over MQTT, and what the agent says about itself comes from its
//! control socket. Every test has its own brokers, ports and directory, and
//! waits for conditions, never for time. The MQTT client that devices and cloud
//! use here shares no session code with the agent's own.

#![cfg(feature = "agent")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![expect(clippy::disallowed_methods, reason = "deadlines of a test that waits for other processes")]

mod agent;
mod broker;
mod chaos;
mod cloud;
#[path = "../world/edge_node.rs"]
mod edge_node;
mod exact;
mod fleet;
mod garbage;
mod kill;
mod lifecycle;
mod memory;
mod mixed;
mod outages;
mod outbox;
mod proxy;
mod quarantine;
mod receive;
mod remote;
mod scene;
mod sparkplug;
mod tap;
