//! How stored values are laid out: `20 ce` or `21 ce`, the time, and what the model measures.
//! Each layout says by which live channels its models are known.

use super::{Kind, Model, Part};

/// One layout.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) channel: u8,
    models: &'static [Model],
    /// Live channels that its models send.
    pub(super) marks: &'static [(u8, u8)],
    pub(super) parts: &'static [Part],
}

pub(super) fn is_history((channel, kind): (u8, u8)) -> bool {
    matches!((channel, kind), (0x20 | 0x21, 0xce))
}

/// Those that `model` uses; with `Auto`, all.
pub(super) fn layouts(model: Model) -> impl Iterator<Item = &'static Layout> {
    LAYOUTS.iter().filter(move |layout| model == Model::Auto || layout.models.contains(&model))
}

const fn part(key: &'static str, kind: Kind, scale: u16) -> Part {
    Part { key, kind, scale }
}

const TIME: Part = part("", Kind::Time, 1);
const TEMPERATURE: Part = part("temperature", Kind::I16, 10);
const HUMIDITY: Part = part("humidity", Kind::U8, 2);
/// The same in two bytes.
const HUMIDITY_WIDE: Part = part("humidity", Kind::U16, 2);
const STATE_5: Part = part("", Kind::State(5), 1);
const LIGHT: Part = part("light_level", Kind::U8, 1);
const CO2: Part = part("co2", Kind::U16, 1);
const TVOC: Part = part("tvoc", Kind::Tvoc, 1);
const TVOC_WEIGHT: Part = part("tvoc", Kind::U16, 1);
const PRESSURE: Part = part("pressure", Kind::U16, 10);
const PM2_5: Part = part("pm2_5", Kind::U16, 1);
const PM10: Part = part("pm10", Kind::U16, 1);
const HCHO: Part = part("hcho", Kind::U16, 100);
const O3: Part = part("o3", Kind::U16, 100);
const DISTANCE: Part = part("distance", Kind::U16, 1);

const fn skip(bytes: usize) -> Part {
    part("", Kind::Skip(bytes), 1)
}

const fn exactly(byte: u8) -> Part {
    part("", Kind::Exactly(byte), 1)
}

const AIR: &[Model] = &[Model::Am300, Model::Am300V2, Model::Am319O3];
const AIR_V2: &[Model] = &[Model::Am300V2];

static LAYOUTS: &[Layout] = &[
    Layout {
        channel: 0x20,
        models: &[Model::Am102],
        marks: &[(0x03, 0x67), (0x04, 0x68)],
        parts: &[TIME, TEMPERATURE, HUMIDITY],
    },
    Layout {
        channel: 0x20,
        models: AIR,
        marks: &[(0x06, 0xcb), (0x07, 0x7d)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC, PRESSURE],
    },
    Layout {
        channel: 0x20,
        models: AIR,
        marks: &[(0x06, 0xcb), (0x07, 0x7d), (0x0b, 0x7d)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC, PRESSURE, PM2_5, PM10],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Am300, Model::Am300V2],
        marks: &[(0x0b, 0x7d), (0x0a, 0x7d)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC, PRESSURE, PM2_5, PM10, HCHO],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Am319O3],
        marks: &[(0x0b, 0x7d), (0x0d, 0x7d)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC, PRESSURE, PM2_5, PM10, O3],
    },
    Layout {
        channel: 0x21,
        models: AIR_V2,
        marks: &[(0x07, 0x7d), (0x08, 0xe6)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC_WEIGHT, PRESSURE],
    },
    Layout {
        channel: 0x21,
        models: AIR_V2,
        marks: &[(0x07, 0x7d), (0x08, 0xe6), (0x0b, 0x7d)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC_WEIGHT, PRESSURE, PM2_5, PM10],
    },
    Layout {
        channel: 0x21,
        models: AIR_V2,
        marks: &[(0x08, 0xe6), (0x0b, 0x7d), (0x0a, 0x7d)],
        parts: &[TIME, TEMPERATURE, HUMIDITY_WIDE, STATE_5, LIGHT, CO2, TVOC_WEIGHT, PRESSURE, PM2_5, PM10, HCHO],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em300Th],
        marks: &[(0x03, 0x67), (0x04, 0x68)],
        parts: &[TIME, TEMPERATURE, HUMIDITY, skip(1)],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em300Mcs],
        marks: &[(0x03, 0x67), (0x04, 0x68), (0x06, 0x00)],
        parts: &[TIME, TEMPERATURE, HUMIDITY, part("magnet_status", Kind::U8, 1)],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em300Sld],
        marks: &[(0x03, 0x67), (0x04, 0x68), (0x05, 0x00)],
        parts: &[TIME, TEMPERATURE, HUMIDITY, STATE_5],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em300Di],
        marks: &[(0x04, 0x68), (0x05, 0x00)],
        parts: &[TIME, TEMPERATURE, HUMIDITY, exactly(1), STATE_5, skip(4)],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em300Di],
        marks: &[(0x04, 0x68), (0x05, 0xc8)],
        parts: &[TIME, TEMPERATURE, HUMIDITY, exactly(2), skip(1), part("pulse", Kind::U32, 1)],
    },
    Layout {
        channel: 0x21,
        models: &[Model::Em300Di],
        marks: &[(0x04, 0x68), (0x05, 0x00)],
        parts: &[TIME, TEMPERATURE, HUMIDITY, part("alarm", Kind::U8, 1), exactly(1), STATE_5, skip(8)],
    },
    Layout {
        channel: 0x21,
        models: &[Model::Em300Di],
        marks: &[(0x04, 0x68), (0x05, 0xe1)],
        parts: &[
            TIME,
            TEMPERATURE,
            HUMIDITY,
            part("alarm", Kind::U8, 1),
            exactly(2),
            skip(1),
            part("water_conv", Kind::U16, 10),
            part("pulse_conv", Kind::U16, 10),
            part("water", Kind::F32, 1),
        ],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em500Co2],
        marks: &[(0x05, 0x7d), (0x06, 0x73)],
        parts: &[TIME, CO2, PRESSURE, TEMPERATURE, HUMIDITY],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em500Lgt],
        marks: &[(0x03, 0x94)],
        parts: &[TIME, part("illumination", Kind::U32, 1)],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em500Pp],
        marks: &[(0x03, 0x7b)],
        parts: &[TIME, part("pressure", Kind::I16, 1)],
    },
    Layout { channel: 0x20, models: &[Model::Em500Pt100], marks: &[(0x03, 0x67)], parts: &[TIME, TEMPERATURE] },
    Layout {
        channel: 0x20,
        models: &[Model::Em500Smtc],
        marks: &[(0x05, 0x7f)],
        parts: &[TIME, part("ec", Kind::U16, 1), TEMPERATURE, part("moisture", Kind::U16, 100)],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Em500Swl],
        marks: &[(0x03, 0x77)],
        parts: &[TIME, part("water_level", Kind::U16, 1)],
    },
    Layout { channel: 0x20, models: &[Model::Em500Udl], marks: &[(0x03, 0x82)], parts: &[TIME, DISTANCE] },
    Layout {
        channel: 0x20,
        models: &[Model::Vs350],
        marks: &[(0x05, 0xcc)],
        parts: &[TIME, exactly(0), part("period_in", Kind::U16, 1), part("period_out", Kind::U16, 1)],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Vs350],
        marks: &[(0x05, 0xcc)],
        parts: &[
            TIME,
            exactly(1),
            part("period_in", Kind::U16, 1),
            part("period_out", Kind::U16, 1),
            part("total_in", Kind::U16, 1),
            part("total_out", Kind::U16, 1),
        ],
    },
    Layout {
        channel: 0x20,
        models: &[Model::Ws203],
        marks: &[(0x03, 0x67), (0x04, 0x68), (0x05, 0x00)],
        parts: &[TIME, part("report_type", Kind::U8, 1), STATE_5, TEMPERATURE, HUMIDITY],
    },
];
