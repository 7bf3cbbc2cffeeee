//! The store: a model test of the page ring on a medium that crashes, and the
//! real thing on files that are damaged on purpose.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "agent")]
mod chain;
#[cfg(feature = "agent")]
mod damage;
#[cfg(feature = "agent")]
mod full;
#[cfg(feature = "agent")]
mod look;
mod model;
#[cfg(feature = "agent")]
mod mount;
#[cfg(feature = "agent")]
#[path = "../world/needs.rs"]
mod needs;
#[cfg(feature = "agent")]
mod on_disk;
mod random;
#[cfg(feature = "agent")]
mod room;
