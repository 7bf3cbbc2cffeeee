//! The torture of the real agent.

#![cfg(feature = "agent")]
#![expect(clippy::unwrap_used, reason = "a test says what it expects by failing")]
#![expect(clippy::disallowed_methods, reason = "deadlines of a test that waits for other processes")]
#![allow(dead_code, reason = "parts of the scene are for other tests")]

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
mod gateways;
mod kill;
mod mounted;
mod network;
mod power;
mod scale;
mod stage;
mod trouble;
