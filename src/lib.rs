//! tidegate: event-time windows on the edge.

#[cfg(feature = "agent")]
pub mod agent;
#[cfg(feature = "agent")]
pub mod cli;
pub mod config;
pub mod engine;
pub mod fleet;
pub mod model;
