//! The listener: an MQTT server whose PUBACK means "on disk".

pub mod packet;
