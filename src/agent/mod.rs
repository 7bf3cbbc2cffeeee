//! The shell: the only folder that knows the runtime, the MQTT client, the
//! store and the operating system.

pub mod clock;
pub mod interrupt;
pub mod mqtt;
