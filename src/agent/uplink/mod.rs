//! The cloud side.

pub mod mqtt;
