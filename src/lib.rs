//! tidegate: event-time windows on the edge. MQTT in, per-device windows that
//! survive power cuts, MQTT out.
//!
//! **This page is the architecture.** Dependencies point one way:
//! `model` ← `engine` ← `config` ← `agent` ← `cli`/`main`; `fleet` simulates devices
//! and receivers and is used by `cli` and the tests.
//!
//! | module | subject | may know |
//! |---|---|---|
//! | [`model`] | shared words, no rules: time, ids, topics, records, limits, chance | nothing |
//! | [`engine`] | every rule. PURE: bytes and time in, steps out | `model` |
//! | [`config`] | text → a checked configuration, or every problem at once. PURE | `engine` |
//! | [`fleet`] | seeded devices, a batch oracle, the reference receiver. PURE | `engine` |
//! | `agent` | the shell: threads, MQTT, sled, sockets, clocks, signals | `config` |
//! | `cli` | one file per subcommand | `agent`, `fleet` |
//!
//! ```text
//!         tokio thread                         engine thread (synchronous)
//!  listener ─────┐
//!  mqtt ingest ──┤                     wait(inbox, next deadline); read the clock once
//!  uplink acks ──┼─▶ inbox ══bounded══▶ take ≤ BATCH_MAX events
//!  queries,stop ─┘                     engine: decode → time → window → watermark → outbox
//!                                              └ broker: sessions, queues, retained messages
//!                                              │ Step { writes, effects }
//!                                      1 store.commit(writes)   one atomic durable page
//!  uplink ◀── publish ◀════════════════2 perform(effects)       only after 1
//!  mqtt   ◀── ack inbound ◀════════════
//!  clients ◀─ PUBACK, deliveries ◀═════
//! ```
//!
//! Devices come in by two ways: the agent is a client of their broker (`agent/mqtt/ingest.rs`), or
//! they are clients of the agent. Then bytes, sockets and logins are `agent/mqtt/listener`, and what
//! clients are promised is state of the engine: `engine/broker`.
//!
//! The gateway's file is what it starts with; what is sent over MQTT is laid over it, tried, and confirmed or taken
//! back (`agent/remote`). The engine goes over between two commits (`engine/driver/reconfigure.rs`), the way of a
//! restart (`engine/fit.rs`).
//!
//! # Invariants
//!
//! Each with the test that guards it.
//!
//! 1. The same events at the same times give the same steps, byte for byte.
//!    *(`tests/simulation`: every seed is run twice; boards: `replay` gives the same
//!    bytes on three architectures)*
//! 2. No effect before its commit: an inbound message is acknowledged only after
//!    its consequences are durable; an outbox row goes only after its PUBACK.
//!    *(`tests/simulation`, with the canary `AckBeforeCommit`; `tests/torture`: kills and power cuts;
//!    `tests/listener`: each PUBACK that a client saw)*
//! 3. Everything in memory is bounded by [`model::limits`]; full is a value with a
//!    stated behaviour. *(`tests/simulation`: small outboxes; `tests/engine`: devices,
//!    windows; `tests/store`: everything at its bound has room in a snapshot; `agent::engine_thread`: a store that takes nothing)*
//! 4. [`EventTime`](model::time::EventTime), [`WallTime`](model::time::WallTime) and
//!    [`ProcTime`](model::time::ProcTime) never mix; no persisted value is a
//!    `ProcTime`. *(the type system; `tests/conformance`: restarted every seven lines)*
//! 5. A watermark never moves back, not after a restart either. A stream that means something else, or comes
//!    back after it was taken out, is another stream: it has none yet.
//!    *(`engine::watermark`; `tests/simulation`; `tests/laws`: also by a changed configuration)*
//! 6. Bad input is data: counted by reason, never an error that reaches the loop.
//!    *(`tests/decode`; `tests/end_to_end`: garbage)*
//! 7. The books balance at all times. *(`tests/simulation` and `tests/laws` after every step)*
//! 8. Only `agent/store/sled.rs` names sled; only `agent/mqtt` names the MQTT
//!    libraries; only the engine lays out the bytes of its state, from `engine/snapshot/` on; clocks are read in `agent/clock.rs`
//!    alone. *(`tests/architecture`)*
//!
//! What is deliberately absent: an async engine, a lock around engine state, an
//! unbounded queue, a ticker, an error that stops the loop, `unsafe`.

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod cli;
pub mod config;
pub mod engine;
pub mod fleet;
pub mod model;
