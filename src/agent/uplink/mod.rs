//! The cloud side.

mod in_flight;
pub mod mqtt;
mod outgoing;
pub mod packing;
