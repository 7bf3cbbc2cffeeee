//! The device side: MQTT in. With `uplink/mqtt.rs` the only place that knows
//! the MQTT client.

pub mod backoff;
pub mod client;
pub mod connection;
pub mod ingest;
pub mod keep_alive;
pub mod tls;
