//! The systems, one file each. A further one is its file and its line in [`ALL`].

mod chirpstack;
mod climate;
mod esphome;
mod home_assistant;
mod opcua;
mod ruuvi;
mod shelly_gen1;
mod shelly_gen2;
mod tasmota;
mod teltonika;
mod ttn;
mod zigbee2mqtt;

use crate::model::time::EventTime;

use super::{Measured, Message};

/// One make of devices: how it writes things down.
pub trait System: Sync {
    /// As `preset` names it.
    fn name(&self) -> &'static str;

    /// What its stream needs besides the preset, as TOML.
    fn keys(&self) -> &'static str {
        ""
    }

    /// Whether the messages of a device have a time of their own.
    fn has_clock(&self, device: u32) -> bool;

    /// Whether it keeps what it measures while it is offline.
    fn keeps(&self, device: u32) -> bool {
        self.has_clock(device)
    }

    /// So many measurements go into one message.
    fn packet_max(&self) -> usize {
        1
    }

    /// At most [`packet_max`](System::packet_max) measurements of a device, as messages.
    fn write(&self, device: u32, measured: &[Measured]) -> Vec<Message>;

    /// Says that the device is there, or not; `None`: nobody does.
    fn presence(&self, device: u32, online: bool) -> Option<Message>;

    /// What else comes on its topics: broken, foreign, or of no interest. `which` chooses.
    fn noise(&self, device: u32, at: EventTime, which: u64) -> Message;

    /// Retained messages that tell nothing new.
    fn retained(&self, device: u32) -> Vec<Message>;
}

/// All of them, in the order in which their streams have to stand: the topics of `ESPHome`
/// hold those of Home Assistant.
pub static ALL: [&dyn System; 11] = [
    &tasmota::Tasmota,
    &zigbee2mqtt::Zigbee2Mqtt,
    &shelly_gen1::ShellyGen1,
    &shelly_gen2::ShellyGen2,
    &home_assistant::HomeAssistant,
    &chirpstack::ChirpStack,
    &ttn::Ttn,
    &ruuvi::Ruuvi,
    &teltonika::Teltonika,
    &opcua::OpcUa,
    &esphome::EspHome,
];

/// The plain JSON of the documentation: no preset's, so not one of [`ALL`].
pub static CLIMATE: &dyn System = &climate::Climate;
