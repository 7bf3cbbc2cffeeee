//! Milesight `LoRaWAN` sensors: what they send, before anything has decoded it.
//!
//! ```text
//! payload   frame frame …
//! frame     channel(1) type(1) value           the value little endian; its length is known
//!                                              only to those who know channel and type
//! 01 75 64 · 03 94 50000000                    battery 100, illumination 80
//! 20 ce 60bb3266 4b000000                      history: seconds since 1970, illumination 75
//! ff 0b ff                                     about the device itself: passed over
//! ```
//!
//! Channels and layouts: the vendor's public decoders (Milesight-IoT/SensorDecoders), whose
//! names of members are kept; `channels.rs` and `history.rs` are the tables. What is live is
//! one record, without a time (but of counters that send one); each stored value is a record
//! with its own. States (open, leak, motion) are 0 and 1.
//!
//! **Unknown channels** reject the payload: with no length known, nothing behind one can be
//! found. So do frames that are cut, and answers to most commands.
//!
//! **Models.** Most channels mean the same everywhere. Where they do not, the [`Model`] says
//! what they mean. With `auto`:
//!
//! - a state whose meaning depends on the model has the name of its channel: `state_5`;
//! - TVOC is told as it is sent (the second generation of AM300 sends hundredths of an index);
//! - stored values are read with the layout whose live channels are in the payload too and
//!   that fits all of it. Payloads of stored values alone say nothing of the model, and many
//!   models have layouts of equal length: they are rejected. Configure the model then.
//!
//! Analogue inputs of `UC50x` are read as its second version sends them, in thousandths.
//!
//! Not covered: Modbus and SDI-12 (UC100, UC300, `UC50x`), stored values of `UC50x` and `UC51x`.

mod channels;
mod history;

use core::fmt::Write as _;

use crate::engine::spec::TimeUnit;
use crate::engine::wire::{Damaged, Reader};
use crate::model::record::RejectReason;

use self::history::Layout;
use super::visit::{Outcome, OwnTime, Scalar, Visit};
use super::{Format, Telling};

/// Bytes of one payload. A `LoRaWAN` frame has 242 at most.
const LORAWAN_BYTES_MAX: usize = 512;

/// The model, where channels alone do not say what they mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Model {
    /// As the payload shows it.
    #[default]
    Auto,
    /// AM102 and AM102L: temperature and humidity, with stored values.
    Am102,
    /// AM307, AM308 and AM319 (formaldehyde), first generation.
    Am300,
    /// The same, second generation: TVOC as an index in hundredths.
    Am300V2,
    /// AM319 with ozone.
    Am319O3,
    /// EM300-DI: digital input or pulses.
    Em300Di,
    /// EM300-MCS: door contact.
    Em300Mcs,
    /// EM300-SLD, -ZLD and -MLD: leak.
    Em300Sld,
    /// EM300-TH and EM320-TH: temperature and humidity.
    Em300Th,
    /// EM310-UDL: distance and position.
    Em310Udl,
    /// EM400-TLD, -MUD, -UDL: distance and position.
    Em400,
    /// EM500-CO2.
    Em500Co2,
    /// EM500-LGT: light.
    Em500Lgt,
    /// EM500-PP: pipe pressure.
    Em500Pp,
    /// EM500-PT100: temperature.
    Em500Pt100,
    /// EM500-SMTC: soil.
    Em500Smtc,
    /// EM500-SWL: water level.
    Em500Swl,
    /// EM500-UDL: distance.
    Em500Udl,
    /// `UC50x`: inputs and analogue inputs.
    Uc50x,
    /// `UC51x`: valves.
    Uc51x,
    /// VS121: people, by camera.
    Vs121,
    /// VS132 and VS133: people over lines.
    Vs133,
    /// VS340 and VS341: seats and desks.
    Vs340,
    /// VS350: passages.
    Vs350,
    /// WS202: motion and daylight.
    Ws202,
    /// WS203: motion, temperature and humidity.
    Ws203,
    /// WS301: door contact.
    Ws301,
    /// WS303: leak.
    Ws303,
}

impl Model {
    /// Every model, for configuration and documentation.
    pub const ALL: [Model; 28] = [
        Model::Auto,
        Model::Am102,
        Model::Am300,
        Model::Am300V2,
        Model::Am319O3,
        Model::Em300Di,
        Model::Em300Mcs,
        Model::Em300Sld,
        Model::Em300Th,
        Model::Em310Udl,
        Model::Em400,
        Model::Em500Co2,
        Model::Em500Lgt,
        Model::Em500Pp,
        Model::Em500Pt100,
        Model::Em500Smtc,
        Model::Em500Swl,
        Model::Em500Udl,
        Model::Uc50x,
        Model::Uc51x,
        Model::Vs121,
        Model::Vs133,
        Model::Vs340,
        Model::Vs350,
        Model::Ws202,
        Model::Ws203,
        Model::Ws301,
        Model::Ws303,
    ];

    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Model::Auto => "auto",
            Model::Am102 => "am102",
            Model::Am300 => "am300",
            Model::Am300V2 => "am300-v2",
            Model::Am319O3 => "am319-o3",
            Model::Em300Di => "em300-di",
            Model::Em300Mcs => "em300-mcs",
            Model::Em300Sld => "em300-sld",
            Model::Em300Th => "em300-th",
            Model::Em310Udl => "em310-udl",
            Model::Em400 => "em400",
            Model::Em500Co2 => "em500-co2",
            Model::Em500Lgt => "em500-lgt",
            Model::Em500Pp => "em500-pp",
            Model::Em500Pt100 => "em500-pt100",
            Model::Em500Smtc => "em500-smtc",
            Model::Em500Swl => "em500-swl",
            Model::Em500Udl => "em500-udl",
            Model::Uc50x => "uc50x",
            Model::Uc51x => "uc51x",
            Model::Vs121 => "vs121",
            Model::Vs133 => "vs133",
            Model::Vs340 => "vs340",
            Model::Vs350 => "vs350",
            Model::Ws202 => "ws202",
            Model::Ws203 => "ws203",
            Model::Ws301 => "ws301",
            Model::Ws303 => "ws303",
        }
    }
}

/// A part of a frame's value.
#[derive(Clone, Copy, Debug)]
struct Part {
    key: &'static str,
    kind: Kind,
    /// What is sent is so many times the value.
    scale: u16,
}

/// How a part is sent.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// So many bytes that say nothing of interest.
    Skip(usize),
    /// A byte that tells one layout from another.
    Exactly(u8),
    U8,
    U16,
    I16,
    U32,
    F16,
    F32,
    /// `U16`; all ones: the sensor could not be read.
    U16OrFailed,
    /// `I16`; beyond the range, or the sensor could not be read.
    I16OrFailed,
    /// A byte that is 0xff for yes.
    Full,
    /// A byte with the state of this channel, named by the model.
    State(u8),
    /// `U16`, whose scale depends on the model.
    Tvoc,
    /// Seconds since 1970.
    Time,
}

impl Kind {
    fn width(self) -> usize {
        match self {
            Kind::Skip(width) => width,
            Kind::Exactly(_) | Kind::U8 | Kind::Full | Kind::State(_) => 1,
            Kind::U16 | Kind::I16 | Kind::F16 | Kind::U16OrFailed | Kind::I16OrFailed | Kind::Tvoc => 2,
            Kind::U32 | Kind::F32 | Kind::Time => 4,
        }
    }
}

impl Format for Model {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        tell(*self, telling.payload, visit)
    }
}

/// Tells the records of one payload.
///
/// # Errors
/// `Empty`; `NoValues` when it is about the device only; `NotInFormat` for an unknown
/// channel, a frame that is cut, and stored values whose layout is not clear.
pub(super) fn tell(model: Model, payload: &[u8], visit: &mut dyn Visit) -> Outcome {
    if payload.is_empty() {
        return Err(RejectReason::Empty);
    }
    let layout = choose(model, payload)?;
    let frames = || Frames::of(model, layout, payload).filter_map(Result::ok);
    let mut told = false;
    for frame in frames().filter(|frame| !frame.is_history) {
        let of_interest = frame.parts.iter().any(|part| !matches!(part.kind, Kind::Skip(_)));
        if of_interest && !told {
            visit.start_record();
            told = true;
        }
        frame.tell(model, visit);
    }
    for frame in frames().filter(|frame| frame.is_history) {
        visit.start_record();
        frame.tell(model, visit);
        told = true;
    }
    if told { Ok(()) } else { Err(RejectReason::NoValues) }
}

/// The layout of the stored values, or none when there are none. An error when the payload
/// cannot be read, or with several.
fn choose(model: Model, payload: &[u8]) -> Result<Option<&'static Layout>, RejectReason> {
    if payload.len() > LORAWAN_BYTES_MAX {
        return Err(RejectReason::NotInFormat);
    }
    if Frames::of(model, None, payload).all(|frame| frame.is_ok()) {
        return Ok(None);
    }
    let mut best = None;
    let mut is_clear = true;
    for layout in history::layouts(model) {
        let frames = || Frames::of(model, Some(layout), payload);
        if frames().any(|frame| frame.is_err()) {
            continue;
        }
        let is_live = |id: &(u8, u8)| frames().flatten().any(|frame| frame.id == *id);
        let is_marked = layout.marks.iter().all(is_live);
        // A length that fits is no evidence: cut by a byte, one model's values are another's.
        if model == Model::Auto && !is_marked {
            continue;
        }
        let marks = if is_marked { layout.marks.len() } else { 0 };
        match best {
            Some((most, _)) if marks < most => {}
            Some((most, _)) if marks == most => is_clear = false,
            Some(_) | None => (best, is_clear) = (Some((marks, layout)), true),
        }
    }
    best.filter(|_| is_clear).map(|(_, layout)| Some(layout)).ok_or(RejectReason::NotInFormat)
}

/// The frames of a payload, one after the other. After an error there are no more.
struct Frames<'p> {
    model: Model,
    layout: Option<&'static Layout>,
    reader: Reader<'p>,
}

/// One frame, whose value has the length that its parts need.
struct Frame<'p> {
    id: (u8, u8),
    parts: &'static [Part],
    value: &'p [u8],
    is_history: bool,
}

impl<'p> Frames<'p> {
    fn of(model: Model, layout: Option<&'static Layout>, payload: &'p [u8]) -> Frames<'p> {
        Frames { model, layout, reader: Reader::new(payload) }
    }

    fn frame(&mut self) -> Result<Frame<'p>, Damaged> {
        let id = (self.reader.u8()?, self.reader.u8()?);
        let is_history = history::is_history(id);
        let parts = if is_history {
            self.layout.filter(|layout| layout.channel == id.0).ok_or(Damaged)?.parts
        } else {
            channels::parts(id, self.model).ok_or(Damaged)?
        };
        let value = self.reader.take(parts.iter().map(|part| part.kind.width()).sum())?;
        let frame = Frame { id, parts, value, is_history };
        let fits = frame.values().all(
            |(part, bytes)| {
                if let Kind::Exactly(expected) = part.kind { bytes == [expected] } else { true }
            },
        );
        if fits { Ok(frame) } else { Err(Damaged) }
    }
}

impl<'p> Iterator for Frames<'p> {
    type Item = Result<Frame<'p>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = self.frame();
        if frame.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(frame)
    }
}

impl<'p> Frame<'p> {
    /// Each part with its bytes.
    fn values(&self) -> impl Iterator<Item = (&'static Part, &'p [u8])> {
        let mut rest = self.value;
        self.parts.iter().map_while(move |part| {
            let (bytes, after) = rest.split_at_checked(part.kind.width())?;
            rest = after;
            Some((part, bytes))
        })
    }

    fn tell(&self, model: Model, visit: &mut dyn Visit) {
        for (part, bytes) in self.values() {
            let bits = bytes.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
            let [low, high, ..] = bits.to_le_bytes();
            let signed = i16::from_le_bytes([low, high]);
            let scaled = |value: f64| Scalar::Float(value / f64::from(part.scale));
            let number = |value: i64| if part.scale == 1 { Scalar::Int(value) } else { scaled(value as f64) };
            let value = match part.kind {
                Kind::Skip(_) | Kind::Exactly(_) => continue,
                Kind::Time => {
                    let mut digits = heapless::String::<10>::new();
                    write!(digits, "{bits}").expect("32 bits are ten digits at most");
                    visit.own_time(OwnTime::Epoch(&digits, TimeUnit::Seconds));
                    continue;
                }
                Kind::Tvoc if model == Model::Am300V2 => Scalar::Float(f64::from(bits) / 100.0),
                Kind::Tvoc => Scalar::Int(bits.into()),
                Kind::U16OrFailed if bits == 0xffff => Scalar::Null,
                Kind::I16OrFailed if bits == 0xffff || bits == 0xfffd => Scalar::Null,
                Kind::U8 | Kind::U16 | Kind::U16OrFailed | Kind::U32 | Kind::State(_) => number(bits.into()),
                Kind::I16 | Kind::I16OrFailed => number(signed.into()),
                Kind::F16 => half(u16::from_le_bytes([low, high])),
                Kind::F32 => Scalar::Float(f32::from_bits(bits).into()),
                Kind::Full => Scalar::Int(i64::from(bits == 0xff)),
            };
            let key = if let Kind::State(channel) = part.kind { channels::state(channel, model) } else { part.key };
            visit.member(key, value);
        }
    }
}

/// A float of 16 bits; the lowest of all stands for an input that is overloaded.
fn half(bits: u16) -> Scalar<'static> {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (fraction + 1_024.0) * 2_f64.powi(exponent - 25),
    };
    match bits {
        0xfbff => Scalar::Null,
        _ if bits >> 15 == 1 => Scalar::Float(-magnitude),
        _ => Scalar::Float(magnitude),
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::decode::hostile;
    use crate::engine::decode::visit::spy::told;

    use super::*;

    const LIGHT: &[u8] = include_bytes!("../../../../tests/fixtures/payloads/milesight/002.payload");

    fn bytes(hex: &str) -> Vec<u8> {
        let hex: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        hex.chunks(2).map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect()
    }

    fn read(model: Model, hex: &str) -> String {
        told(|visit| tell(model, &bytes(hex), visit))
    }

    fn auto(hex: &str) -> String {
        read(Model::Auto, hex)
    }

    #[test]
    fn f29_what_is_live_and_what_was_stored_are_records_of_their_own() {
        let expected = "record battery=100 illumination=80\nrecord @1714600800s illumination=75";
        assert_eq!(told(|visit| tell(Model::Auto, LIGHT, visit)), expected);
        assert_eq!(told(|visit| tell(Model::Em500Lgt, LIGHT, visit)), expected);
    }

    #[test]
    fn climate_is_read_by_its_scales() {
        assert_eq!(auto("01755c 036734 01 0468 65"), "record battery=92 temperature=30.8 humidity=50.5");
        assert_eq!(auto("0367 feff"), "record temperature=-0.2");
        assert_eq!(
            auto("017564 0367fa00 046871 057d6704 0673 6827"),
            "record battery=100 temperature=25.0 humidity=56.5 co2=1127 pressure=1008.8"
        );
        assert_eq!(
            auto("0367ee00 04687c 050001 06cb02 077da803 087d2500 09736627 0b7d2000 0c7d3000 0a7d0400"),
            "record temperature=23.8 humidity=62.0 state_5=1 light_level=2 co2=936 tvoc=37 pressure=1008.6 pm2_5=32 \
             pm10=48 hcho=0.04"
        );
    }

    #[test]
    fn models_name_their_states_and_scale_what_others_do_not() {
        assert_eq!(read(Model::Am300V2, "050001 087d6400"), "record pir=1 tvoc=1.0");
        assert_eq!(read(Model::Am300, "050000 087d6400"), "record pir=0 tvoc=100");
        assert_eq!(read(Model::Em300Sld, "050001"), "record leakage_status=1");
        assert_eq!(read(Model::Ws301, "030001 040000"), "record magnet_status=1 tamper_status=0");
        assert_eq!(read(Model::Ws202, "030001 040001"), "record pir=1 daylight=1");
        assert_eq!(read(Model::Em500Smtc, "046814 057ff000"), "record moisture=10.0 ec=240");
        assert_eq!(auto("030001 040000"), "record state_3=1 state_4=0");
        assert_eq!(auto("060001"), "record magnet_status=1");
    }

    #[test]
    fn other_sensors_are_read() {
        for (hex, expected) in [
            ("0382 6810", "distance=4200"),
            ("8382", "rejected"),
            ("0377 0200", "water_level=2"),
            ("037b 0a00", "pressure=10"),
            ("04ca 8813", "moisture=50.0"),
            ("03cf d8d7 f0d8 3075 07", "angle_x=-102.8 angle_y=-100.0 angle_z=300.0 threshold=7"),
            ("055b 05 5c01 5d01 5e01", "la=34.8 laeq=34.9 lamax=35.0"),
            (
                "0374 b208 0480 01000000 0581 64 0683 73000000 07c9 0100 0870 01",
                "voltage=222.6 power=1 factor=100 power_sum=115 current=1 state=1",
            ),
            ("ff3fff", "outage=1"),
            ("0397 10270000 0498 ffff 0967 fdff", "total_current=100.0 current=null temperature=null"),
            ("05c8 d2040000", "pulse=1234"),
            ("05e1 0a00 1400 0000c03f", "water_conv=1.0 pulse_conv=2.0 water=1.5"),
            ("0502 e803 0000 d007 f401", "adc_1=1.0 adc_1_min=0.0 adc_1_max=2.0 adc_1_avg=0.5"),
            ("05e2 003c 00c0 fffb 0100", "adc_1=1.0 adc_1_min=-2.0 adc_1_max=null adc_1_avg=5.960464477539063e-8"),
            ("ff2e 01", "press=1"),
            ("05cc 0300 0400", "period_in=3 period_out=4"),
        ] {
            assert!(auto(hex).contains(expected), "{hex}: {}", auto(hex));
        }
        assert_eq!(auto("05cc 0300 0400 0f85 60bb3266"), "record period_in=3 period_out=4 @1714600800s");
    }

    #[test]
    fn what_is_about_the_device_is_passed_over() {
        let about = "ff0bff ff0101 ff166710b32620650015 ff090300 ff0a0101 ff0f00 ffff0100 fffe01 ff1807";
        assert_eq!(auto(about), "rejected: no_values");
        assert_eq!(auto(&format!("{about} 017564")), "record battery=100");
    }

    #[test]
    fn stored_values_are_read_with_the_one_layout_that_fits() {
        let two = "20ce 60bb3266 1001 5e 00 20ce b8bd3266 1201 5e 00";
        let expected = "\nrecord @1714600800s temperature=27.2 humidity=47.0\nrecord @1714601400s temperature=27.4 \
                        humidity=47.0";
        assert_eq!(
            auto(&format!("01755c 03671001 04685d {two}")),
            format!("record battery=92 temperature=27.2 humidity=46.5{expected}")
        );
        assert_eq!(read(Model::Em300Th, two), expected[1..]);
        assert_eq!(read(Model::Am102, "20ce 60bb3266 1001 5e"), "record @1714600800s temperature=27.2 humidity=47.0");
        assert_eq!(
            auto("057d e803 0673 6827 20ce 60bb3266 e803 6827 1001 5e"),
            "record co2=1000 pressure=1008.8\nrecord @1714600800s co2=1000 pressure=1008.8 temperature=27.2 humidity=47.0"
        );
        assert_eq!(
            auto("03671001 04685d 060001 20ce 60bb3266 1001 5e 01"),
            "record temperature=27.2 humidity=46.5 magnet_status=1\nrecord @1714600800s temperature=27.2 \
             humidity=47.0 magnet_status=1"
        );
        assert_eq!(
            auto("03671001 04685d 050001 20ce 60bb3266 1001 5e 01"),
            "record temperature=27.2 humidity=46.5 state_5=1\nrecord @1714600800s temperature=27.2 humidity=47.0 \
             state_5=1"
        );
        assert_eq!(
            read(Model::Am300, "20ce 60bb3266 1001 5e00 01 02 e803 2500 6827 2000 3000"),
            "record @1714600800s temperature=27.2 humidity=47.0 pir=1 light_level=2 co2=1000 tvoc=37 pressure=1008.8 \
             pm2_5=32 pm10=48"
        );
        assert_eq!(
            read(Model::Em300Di, "20ce 60bb3266 1001 5e 02 00 d2040000"),
            "record @1714600800s temperature=27.2 humidity=47.0 pulse=1234"
        );
    }

    #[test]
    fn stored_values_whose_layout_is_not_clear_are_rejected() {
        assert_eq!(auto("20ce 60bb3266 1001 5e 01"), "rejected: not_in_format", "eight bytes are four models");
        assert_eq!(
            auto("017564 20ce 60bb3266 1001 5e"),
            "rejected: not_in_format",
            "seven are one, or eight that are cut"
        );
        assert_eq!(auto("20ce 60bb3266 1001"), "rejected: not_in_format", "six bytes are four models");
        assert_eq!(read(Model::Em500Udl, "20ce 60bb3266 1001"), "record @1714600800s distance=272");
        assert_eq!(read(Model::Ws301, "20ce 60bb3266 1001"), "rejected: not_in_format", "it stores nothing");
    }

    #[test]
    fn unknown_channels_and_cut_frames_reject_the_whole_payload() {
        assert_eq!(auto(""), "rejected: empty");
        assert_eq!(auto("017564 777700"), "rejected: not_in_format");
        assert_eq!(auto("017564 fe0310 00"), "rejected: not_in_format", "the answer to a command");
        for cut in [1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 17, 18] {
            let outcome = told(|visit| tell(Model::Auto, &LIGHT[..cut], visit));
            assert_eq!(outcome, "rejected: not_in_format", "cut at {cut}");
        }
        assert_eq!(auto(&"017564".repeat(LORAWAN_BYTES_MAX / 3 + 1)), "rejected: not_in_format");
    }

    #[test]
    fn every_model_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Model::ALL.iter().map(|model| model.as_str()).collect();
        assert_eq!(words.len(), Model::ALL.len());
    }

    #[test]
    fn no_input_makes_it_fall_over() {
        let air = bytes("0367ee00 04687c 050001 06cb02 077da803 087d2500 09736627 0b7d2000 0c7d3000 0a7d0400");
        let stored = bytes("20ce 60bb3266 1001 5e 02 00 d2040000 21ce 60bb3266 1001 5e 01 02 00");
        let mut turn = 0;
        hostile::survives(&[LIGHT, &air, &stored], |bytes, visit| {
            turn += 1;
            tell(Model::ALL[turn % Model::ALL.len()], bytes, visit)
        });
    }
}
