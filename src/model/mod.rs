//! Shared words, no logic: time, identifiers, topics, records, limits.
//!
//! Everything else in the crate may depend on this module; it depends on nothing.

pub mod ids;
pub mod limits;
pub mod record;
pub mod time;
pub mod topic;
