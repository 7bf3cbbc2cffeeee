//! Sparkplug B 3.0: metrics of edge nodes and their devices, with a session behind them.
//!
//! ```text
//!  topic ──▶ Topic ─┐
//!                   ├─▶ Session::hear ──▶ Visit: the records
//!  payload ─▶ Payload ┘        │
//!                              └──▶ Heard: who is there, who is to begin again, counts
//! ```
//!
//! Data name their metrics by an alias that only the last birth explains, and may leave the
//! datatype to it. So a session remembers, for each edge node: the `bdSeq` of its birth, the
//! last sequence number, and what its birth and those of its devices said of their metrics
//! (`births.rs`). It is pure and bounded; whoever owns it keeps it ([`Session::save`](session::Session::save)).
//! As a format of the engine it is in `format.rs`.
//!
//! - **Records.** Metrics that follow each other with equal times are one record; the time
//!   of the metric counts, then that of the payload; without either a record has no time of
//!   its own. Metric names are keys as they are, slashes included.
//! - **Historical** metrics are told like all others (their times make them late) and counted.
//! - **Sequence.** Numbers go from 0 to 255 and round, over an edge node and all its devices.
//!   A gap asks for a rebirth; what came is told all the same. Nothing is put in order: on
//!   one connection the order is kept. A stream that takes a part of them only does not look
//!   for gaps (`coverage.rs`).
//! - **Rebirth** is asked for when data come before a birth, after a gap, and for an alias
//!   that no birth has named; again with each message, until there is a birth. The caller
//!   sends the request ([`command`]) and limits the rate.
//! - **Death.** A will whose `bdSeq` is not that of the last birth is of an earlier
//!   connection, and passed over.
//!
//! Full (`limits::SPARKPLUG_*`): births are not kept any more, and counted. Metrics by alias
//! then stay unknown, and ask for no rebirth, which would not help.

mod births;
pub mod command;
pub mod coverage;
#[cfg(test)]
mod encoder;
pub(super) mod format;
mod payload;
mod protobuf;
mod saved;
pub mod session;
pub mod topic;
