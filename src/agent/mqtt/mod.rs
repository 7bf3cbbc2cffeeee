//! MQTT: connections, and the device side. The only folder that knows the MQTT libraries.
//!
//! | subject | modules |
//! |---|---|
//! | the agent as a client of a broker | `dial` `proxy` `tls` `credentials` · `connection` `codec` `packet` `reason` `keep_alive` `in_flight` `foreign` · `retry` `backoff` |
//! | what such a connection is for | `ingest`: messages of devices · `local`: results for them · (the uplink is [`crate::agent::uplink`]) |
//! | the agent as a server | `listener` |
//! | the other ends, in `demo`, `receive`, `fleet` and the tests | `client` `pipeline` |

pub mod backoff;
pub(in crate::agent) mod base64;
pub mod client;
pub mod codec;
pub mod connection;
pub mod credentials;
pub mod dial;
pub mod foreign;
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
