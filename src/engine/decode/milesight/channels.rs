//! What each channel sends live. First the rows of particular models, then of all others.

use super::Kind::{F16, F32, Full, I16, I16OrFailed, Skip, State, Time, Tvoc, U8, U16, U16OrFailed, U32};
use super::{Kind, Model, Part};

/// Channel and type; the models it is for, or none for all; the parts of the value.
type Row = ((u8, u8), &'static [Model], &'static [Part]);

/// The parts of a channel's value.
pub(super) fn parts(id: (u8, u8), model: Model) -> Option<&'static [Part]> {
    let found = CHANNELS.iter().find(|(of, models, _)| *of == id && (models.is_empty() || models.contains(&model)));
    found.map(|(_, _, parts)| *parts)
}

/// The name of the state on a channel.
pub(super) fn state(channel: u8, model: Model) -> &'static str {
    match (channel, model) {
        (5, Model::Am300 | Model::Am300V2 | Model::Am319O3) | (3, Model::Ws202) => "pir",
        (5, Model::Em300Sld) => "leakage_status",
        (3, Model::Ws303) => "leak_status",
        (5, Model::Em300Di) => "gpio",
        (5, Model::Ws203) | (3, Model::Vs340) => "occupancy",
        (5, Model::Em400) | (4, Model::Em310Udl) => "position",
        (3, Model::Ws301) => "magnet_status",
        (4, Model::Ws301) => "tamper_status",
        (4, Model::Ws202) => "daylight",
        (3, Model::Uc50x) => "gpio_1",
        (4, Model::Uc50x) => "gpio_2",
        (3, Model::Uc51x) => "valve_1",
        (3, _) => "state_3",
        (4, _) => "state_4",
        (_, _) => "state_5",
    }
}

const fn part(key: &'static str, kind: Kind, scale: u16) -> Part {
    Part { key, kind, scale }
}

const fn int(key: &'static str, kind: Kind) -> Part {
    part(key, kind, 1)
}

const fn skip(bytes: usize) -> Part {
    part("", Skip(bytes), 1)
}

const AIR: &[Model] = &[Model::Am300, Model::Am300V2, Model::Am319O3];
const ALL: &[Model] = &[];
const TEMPERATURE: Part = part("temperature", I16, 10);
const STATE_3: Part = int("", State(3));
const STATE_4: Part = int("", State(4));
const STATE_5: Part = int("", State(5));

#[rustfmt::skip]
static CHANNELS: &[Row] = &[
    // Where models differ.
    ((0x03, 0xc8), &[Model::Uc50x], &[int("counter_1", U32)]),
    ((0x04, 0xc8), &[Model::Uc50x], &[int("counter_2", U32)]),
    ((0x04, 0xc8), &[Model::Uc51x], &[int("valve_1_pulse", U32)]),
    ((0x06, 0xc8), &[Model::Uc51x], &[int("valve_2_pulse", U32)]),
    ((0x04, 0x68), &[Model::Em500Smtc], &[part("moisture", U8, 2)]),
    ((0x05, 0xcc), &[Model::Vs121], &[int("people_in", I16), int("people_out", I16)]),
    ((0x05, 0xcc), &[Model::Vs133], &[int("line_1_period_in", U16), int("line_1_period_out", U16)]),
    ((0xff, 0x2e), AIR, &[skip(1)]), // the answer to a command

    // Battery and climate: AM, EM300, EM500, WS203.
    ((0x01, 0x75), ALL, &[int("battery", U8)]),
    ((0x03, 0x67), ALL, &[TEMPERATURE]),
    ((0x83, 0x67), ALL, &[TEMPERATURE, int("temperature_alarm", U8)]),
    ((0x83, 0xd7), ALL, &[TEMPERATURE, part("temperature_change", I16, 10), int("temperature_alarm", U8)]),
    ((0x04, 0x68), ALL, &[part("humidity", U8, 2)]),
    ((0x05, 0x7d), ALL, &[int("co2", U16)]),
    ((0x06, 0x73), ALL, &[part("pressure", U16, 10)]),

    // Air: AM100, AM300.
    ((0x05, 0x6a), ALL, &[int("activity", U16)]),
    ((0x06, 0x65), ALL, &[int("illumination", U16), int("infrared_and_visible", U16), int("infrared", U16)]),
    ((0x06, 0xcb), ALL, &[int("light_level", U8)]),
    ((0x07, 0x7d), ALL, &[int("co2", U16)]),
    ((0x08, 0x7d), ALL, &[int("tvoc", Tvoc)]),
    ((0x08, 0xe6), ALL, &[int("tvoc", U16)]),
    ((0x09, 0x73), ALL, &[part("pressure", U16, 10)]),
    ((0x0a, 0x7d), ALL, &[part("hcho", U16, 100)]),
    ((0x0b, 0x7d), ALL, &[int("pm2_5", U16)]),
    ((0x0c, 0x7d), ALL, &[int("pm10", U16)]),
    ((0x0d, 0x7d), ALL, &[part("o3", U16, 100)]),
    ((0x0e, 0x01), ALL, &[int("buzzer_status", U8)]),

    // States.
    ((0x03, 0x00), ALL, &[STATE_3]),
    ((0x03, 0x01), ALL, &[STATE_3]),
    ((0x04, 0x00), ALL, &[STATE_4]),
    ((0x04, 0x01), ALL, &[STATE_4]),
    ((0x05, 0x00), ALL, &[STATE_5]),
    ((0x85, 0x00), ALL, &[STATE_5, int("gpio_alarm", U8)]),
    ((0x06, 0x00), ALL, &[int("magnet_status", U8)]),
    ((0x03, 0x8e), ALL, &[int("occupancy", U8)]),
    ((0x04, 0x8e), ALL, &[int("calibration", U8)]),
    ((0x03, 0xed), ALL, &[int("liquid", U8)]),
    ((0x83, 0xed), ALL, &[int("liquid", U8), int("liquid_alarm", U8)]),
    ((0x04, 0xee), ALL, &[int("calibration_result", U8)]),
    ((0xff, 0x2e), ALL, &[int("press", U8)]),
    ((0xff, 0x34), ALL, &[int("button", U8), skip(2)]),

    // Light, level, soil, tilt, sound: EM300, EM400, EM500, VS330, WS201, WS302.
    ((0x03, 0x94), ALL, &[int("illumination", U32)]),
    ((0x02, 0x82), ALL, &[int("distance", U16)]),
    ((0x03, 0x82), ALL, &[int("distance", U16)]),
    ((0x04, 0x82), ALL, &[int("distance", U16)]),
    ((0x84, 0x82), ALL, &[int("distance", U16), int("distance_alarm", U8)]),
    ((0x83, 0xe9), ALL, &[part("distance", U16, 10), part("distance_mutation", U16, 10), int("distance_alarm", U8)]),
    ((0x04, 0xd6), ALL, &[int("remaining", U8)]),
    ((0x03, 0x77), ALL, &[int("water_level", U16)]),
    ((0x03, 0x7b), ALL, &[int("pressure", I16)]),
    ((0x04, 0xca), ALL, &[part("moisture", U16, 100)]),
    ((0x05, 0x7f), ALL, &[int("ec", U16)]),
    ((0x03, 0xcf), ALL, &[
        part("angle_x", I16, 100), part("angle_y", I16, 100), part("angle_z", I16, 100), int("threshold", U8),
    ]),
    ((0x05, 0x5b), ALL, &[skip(1), part("la", U16, 10), part("laeq", U16, 10), part("lamax", U16, 10)]),

    // Pulses, valves, analogue inputs: EM300-DI, UC11xx, UC50x, UC51x.
    ((0x05, 0xc8), ALL, &[int("pulse", U32)]),
    ((0x05, 0xe1), ALL, &[part("water_conv", U16, 10), part("pulse_conv", U16, 10), int("water", F32)]),
    ((0x85, 0xe1), ALL, &[
        part("water_conv", U16, 10), part("pulse_conv", U16, 10), int("water", F32), int("water_alarm", U8),
    ]),
    ((0x01, 0x00), ALL, &[int("din_1", U8)]),
    ((0x02, 0x00), ALL, &[int("din_2", U8)]),
    ((0x01, 0xc8), ALL, &[int("counter_1", U32)]),
    ((0x02, 0xc8), ALL, &[int("counter_2", U32)]),
    ((0x03, 0xc8), ALL, &[int("pulse_3", U32)]),
    ((0x04, 0xc8), ALL, &[int("pulse_4", U32)]),
    ((0x06, 0xc8), ALL, &[int("pulse_6", U32)]),
    ((0x09, 0x01), ALL, &[int("dout_1", U8)]),
    ((0x0a, 0x01), ALL, &[int("dout_2", U8)]),
    ((0x11, 0x02), ALL, &[part("adc_1", I16, 100), part("adc_1_min", I16, 100), part("adc_1_max", I16, 100), part("adc_1_avg", I16, 100)]),
    ((0x12, 0x02), ALL, &[part("adc_2", I16, 100), part("adc_2_min", I16, 100), part("adc_2_max", I16, 100), part("adc_2_avg", I16, 100)]),
    ((0x05, 0x02), ALL, &[part("adc_1", I16, 1_000), part("adc_1_min", I16, 1_000), part("adc_1_max", I16, 1_000), part("adc_1_avg", I16, 1_000)]),
    ((0x06, 0x02), ALL, &[part("adc_2", I16, 1_000), part("adc_2_min", I16, 1_000), part("adc_2_max", I16, 1_000), part("adc_2_avg", I16, 1_000)]),
    ((0x05, 0xe2), ALL, &[int("adc_1", F16), int("adc_1_min", F16), int("adc_1_max", F16), int("adc_1_avg", F16)]),
    ((0x06, 0xe2), ALL, &[int("adc_2", F16), int("adc_2_min", F16), int("adc_2_max", F16), int("adc_2_avg", F16)]),
    ((0x05, 0x01), ALL, &[int("valve_2", U8)]),
    ((0x07, 0x01), ALL, &[int("gpio_1", U8)]),
    ((0x08, 0x01), ALL, &[int("gpio_2", U8)]),

    // Electricity: CT, WS52x.
    ((0x03, 0x97), ALL, &[part("total_current", U32, 100)]),
    ((0x04, 0x98), ALL, &[part("current", U16OrFailed, 100)]),
    ((0x84, 0x98), ALL, &[
        part("current_max", U16, 100), part("current_min", U16, 100), part("current", U16, 100), int("current_alarm", U8),
    ]),
    ((0x09, 0x67), ALL, &[part("temperature", I16OrFailed, 10)]),
    ((0x89, 0x67), ALL, &[TEMPERATURE, int("temperature_alarm", U8)]),
    ((0x03, 0x74), ALL, &[part("voltage", U16, 10)]),
    ((0x04, 0x80), ALL, &[int("power", U32)]),
    ((0x05, 0x81), ALL, &[int("factor", U8)]),
    ((0x06, 0x83), ALL, &[int("power_sum", U32)]),
    ((0x07, 0xc9), ALL, &[int("current", U16)]),
    ((0x08, 0x70), ALL, &[int("state", U8)]),
    ((0xff, 0x3f), ALL, &[int("outage", Full)]),

    // People: VS121, VS133, VS350.
    ((0x04, 0xc9), ALL, &[int("people_count_all", U8), int("region_count", U8), skip(2)]),
    ((0x05, 0xcc), ALL, &[int("period_in", U16), int("period_out", U16)]),
    ((0x85, 0xcc), ALL, &[int("period_in", U16), int("period_out", U16), int("period_count_alarm", U8)]),
    ((0x04, 0xcc), ALL, &[int("total_in", U16), int("total_out", U16)]),
    ((0x84, 0xcc), ALL, &[int("total_in", U16), int("total_out", U16), int("total_count_alarm", U8)]),
    ((0x06, 0xcd), ALL, &[int("people_count_max", U8)]),
    ((0x07, 0xd5), ALL, &[
        int("region_1_count", U8), int("region_2_count", U8), int("region_3_count", U8), int("region_4_count", U8),
        int("region_5_count", U8), int("region_6_count", U8), int("region_7_count", U8), int("region_8_count", U8),
    ]),
    ((0x08, 0xd5), ALL, &[
        int("region_9_count", U8), int("region_10_count", U8), int("region_11_count", U8), int("region_12_count", U8),
        int("region_13_count", U8), int("region_14_count", U8), int("region_15_count", U8), int("region_16_count", U8),
    ]),
    ((0x09, 0xda), ALL, &[int("a_to_a", U16), int("a_to_b", U16), int("a_to_c", U16), int("a_to_d", U16)]),
    ((0x0a, 0xda), ALL, &[int("b_to_a", U16), int("b_to_b", U16), int("b_to_c", U16), int("b_to_d", U16)]),
    ((0x0b, 0xda), ALL, &[int("c_to_a", U16), int("c_to_b", U16), int("c_to_c", U16), int("c_to_d", U16)]),
    ((0x0c, 0xda), ALL, &[int("d_to_a", U16), int("d_to_b", U16), int("d_to_c", U16), int("d_to_d", U16)]),
    ((0x0d, 0xcc), ALL, &[int("people_total_in", U16), int("people_total_out", U16)]),
    ((0x0e, 0xe4), ALL, &[int("dwell_region", U8), int("dwell_time_avg", U16), int("dwell_time_max", U16)]),
    ((0x0f, 0x85), ALL, &[int("", Time)]),
    ((0x10, 0xf7), ALL, &[int("line_in", U16), int("line_out", U16)]),
    ((0x03, 0xd2), ALL, &[int("line_1_total_in", U32)]),
    ((0x04, 0xd2), ALL, &[int("line_1_total_out", U32)]),
    ((0x06, 0xd2), ALL, &[int("line_2_total_in", U32)]),
    ((0x07, 0xd2), ALL, &[int("line_2_total_out", U32)]),
    ((0x08, 0xcc), ALL, &[int("line_2_period_in", U16), int("line_2_period_out", U16)]),
    ((0x09, 0xd2), ALL, &[int("line_3_total_in", U32)]),
    ((0x0a, 0xd2), ALL, &[int("line_3_total_out", U32)]),
    ((0x0b, 0xcc), ALL, &[int("line_3_period_in", U16), int("line_3_period_out", U16)]),
    ((0x0c, 0xd2), ALL, &[int("line_4_total_in", U32)]),
    ((0x0d, 0xd2), ALL, &[int("line_4_total_out", U32)]),
    ((0x0e, 0xcc), ALL, &[int("line_4_period_in", U16), int("line_4_period_out", U16)]),
    ((0x0f, 0xe3), ALL, &[
        int("region_1_count", U8), int("region_2_count", U8), int("region_3_count", U8), int("region_4_count", U8),
    ]),
    ((0x10, 0xe4), ALL, &[int("dwell_region", U8), int("dwell_time_avg", U16), int("dwell_time_max", U16)]),

    // About the device itself.
    ((0xff, 0x01), ALL, &[skip(1)]), // protocol version
    ((0xff, 0x08), ALL, &[skip(6)]), // serial number, short
    ((0xff, 0x09), ALL, &[skip(2)]), // hardware version
    ((0xff, 0x0a), ALL, &[skip(2)]), // firmware version
    ((0xff, 0x0b), ALL, &[skip(1)]), // power on
    ((0xff, 0x0f), ALL, &[skip(1)]), // LoRaWAN class
    ((0xff, 0x14), ALL, &[skip(1)]), // kind of an analogue input
    ((0xff, 0x16), ALL, &[skip(8)]), // serial number
    ((0xff, 0x18), ALL, &[skip(1)]), // sensors that are on
    ((0xff, 0x1f), ALL, &[skip(4)]), // firmware version, long
    ((0xff, 0xfe), ALL, &[skip(1)]), // reset
    ((0xff, 0xff), ALL, &[skip(2)]), // version of the description
];
