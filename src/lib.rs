//! tidegate: event-time windows on the edge.

#[cfg(feature = "agent")]
pub mod cli;
pub mod config;
pub mod engine;
pub mod model;
