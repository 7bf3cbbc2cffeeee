//! The cloud side.

pub mod destination;
pub mod mqtt;
mod outgoing;
pub mod packing;
