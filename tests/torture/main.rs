//! The torture of the real agent between two real brokers: kills, power cuts, cards that
//! are full, fail or are damaged, and a network that fails in every way.
//!
//! A short version of each is a part of all tests; `TIDEGATE_TORTURE=full` asks for the
//! long one, and `tests/torture.sh` is the command for it. Every moment is drawn from a
//! seed that is printed; `E2E_SEED` names another.

#![cfg(feature = "agent")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![expect(clippy::disallowed_methods, reason = "deadlines of a test that waits for other processes")]

#[path = "../end_to_end/agent.rs"]
mod agent;
#[path = "../end_to_end/broker.rs"]
mod broker;
#[path = "../end_to_end/cloud.rs"]
mod cloud;
#[path = "../end_to_end/proxy.rs"]
mod proxy;
#[path = "../end_to_end/scene.rs"]
mod scene;
#[path = "../end_to_end/tap.rs"]
mod tap;

mod card;
mod damage;
mod direct;
mod gateways;
mod kill;
mod mounted;
mod network;
mod power;
mod scale;
mod stage;
mod trouble;
