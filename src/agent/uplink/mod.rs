//! The cloud side.

pub mod mqtt;
mod outgoing;
pub mod packing;
