//! Shared words, no rules: time, identifiers, topics, records, limits, and the one
//! source of chance.
//!
//! Everything else in the crate may depend on this module; it depends on nothing.

pub mod access;
pub mod base64;
pub mod ids;
pub mod limits;
pub mod record;
pub mod rng;
pub mod template;
pub mod time;
pub mod topic;
