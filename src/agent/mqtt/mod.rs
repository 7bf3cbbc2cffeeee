//! MQTT: connections, and the device side. The only folder that knows the MQTT library.

pub mod backoff;
pub mod client;
pub mod codec;
pub mod connection;
pub mod credentials;
pub mod dial;
pub mod in_flight;
pub mod ingest;
pub mod keep_alive;
pub mod listener;
pub mod local;
pub mod packet;
pub mod pipeline;
pub mod proxy;
pub mod reason;
pub mod retry;
pub mod tls;
