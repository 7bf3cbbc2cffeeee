//! The listener: an MQTT server whose PUBACK means "on disk".
//!
//! Its protocol is [`proto::Proto`]: bytes and times in, packets and bytes out, no socket.

mod alias;
mod connect;
pub mod fault;
mod frame;
mod gate;
pub mod packet;
mod properties;
pub mod proto;
mod read;
pub mod reply;
mod window;
mod write;
