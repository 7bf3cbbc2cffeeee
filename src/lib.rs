//! tidegate: event-time windows on the edge.

pub mod config;
pub mod engine;
pub mod fleet;
pub mod model;
