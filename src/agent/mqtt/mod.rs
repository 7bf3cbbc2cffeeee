//! MQTT: the only folder, with `agent/uplink/mqtt.rs`, that names the client library.

pub mod client;
