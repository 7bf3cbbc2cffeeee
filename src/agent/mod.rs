//! Everything that touches the outside world.

pub mod store;
