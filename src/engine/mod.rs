//! The engine. PURE: bytes and time in, steps out. No runtime, MQTT, store,
//! files, threads or clock.

pub mod aggregate;
pub mod decode;
pub mod fields;
pub mod memory_store;
pub mod ring;
pub mod spec;
pub mod step;
pub mod store;
pub mod wire;
