//! Watermarks: strategies, scopes, keys, idleness. Exact to the millisecond, and the
//! same however often the agent is restarted; see `trace.rs`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

mod idle;
mod keys;
mod random;
mod replay;
mod scopes;
mod strategies;
mod trace;
