//! The payload of a Sparkplug message, and what a metric's value is.
//!
//! ```text
//! payload  1 timestamp  2 metric…  3 seq  4 uuid  5 body
//! metric   1 name  2 alias  3 timestamp  4 datatype  5 is_historical  6 is_transient
//!          7 is_null  8 metadata  9 properties
//!          one of: 10 int (u32)  11 long (u64)  12 float  13 double  14 bool  15 string
//!                  16 bytes  17 dataset  18 template  19 extension
//! ```
//!
//! Field numbers: `sparkplug_b.proto` of the specification, 3.0. Times are milliseconds
//! since 1970, UTC. Signed integers are two's complement in the unsigned fields; encoders
//! differ in whether an `Int8` has 8 or 32 bits there, so the bits of its type count. What
//! the datatype and the field contradict each other in is decided by the field.
//!
//! Not read: compressed payloads (uuid `SPBV1.0_COMPRESSED`); they are not in the format.

use crate::engine::wire::Damaged;

use super::super::visit::Scalar;
use super::protobuf::{Fields, Value};

/// The datatype of a metric, by the number of the specification.
pub(super) mod datatype {
    /// None is given.
    pub(in super::super) const UNKNOWN: u64 = 0;
    pub(in super::super) const INT8: u64 = 1;
    pub(in super::super) const INT16: u64 = 2;
    pub(in super::super) const INT32: u64 = 3;
    pub(in super::super) const INT64: u64 = 4;
    pub(in super::super) const BOOLEAN: u64 = 11;
    pub(in super::super) const DATE_TIME: u64 = 13;
}

/// A payload that has been checked as a whole: its metrics can be gone through without
/// errors, as often as needed.
#[derive(Clone, Copy)]
pub(super) struct Payload<'p> {
    pub(super) timestamp: Option<u64>,
    pub(super) seq: Option<u64>,
    bytes: &'p [u8],
}

impl<'p> Payload<'p> {
    /// Checks all of `bytes`.
    ///
    /// # Errors
    /// [`Damaged`] when it is no payload, cut short, or compressed.
    pub(super) fn parse(bytes: &'p [u8]) -> Result<Payload<'p>, Damaged> {
        let mut payload = Payload { timestamp: None, seq: None, bytes };
        for field in Fields::of(bytes) {
            match field? {
                (1, value) => payload.timestamp = Some(value.varint()?),
                (2, value) => {
                    Metric::parse(value.bytes()?)?;
                }
                (3, value) => payload.seq = Some(value.varint()?),
                (4, Value::Bytes(b"SPBV1.0_COMPRESSED")) => return Err(Damaged),
                _ => {}
            }
        }
        Ok(payload)
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric<'p>> + use<'p> {
        Fields::of(self.bytes).filter_map(|field| match field {
            Ok((2, Value::Bytes(metric))) => Metric::parse(metric).ok(),
            Ok(_) | Err(Damaged) => None,
        })
    }
}

/// One metric, borrowed.
#[derive(Clone, Copy, Default)]
pub(super) struct Metric<'p> {
    /// Not empty.
    pub(super) name: Option<&'p str>,
    pub(super) alias: Option<u64>,
    pub(super) timestamp: Option<u64>,
    /// As it stands there; 0 where it does not.
    pub(super) datatype: u64,
    pub(super) is_historical: bool,
    is_null: bool,
    value: Option<Raw<'p>>,
}

/// The value as it is sent.
#[derive(Clone, Copy)]
enum Raw<'p> {
    Int(u32),
    Long(u64),
    Float(f64),
    Bool(bool),
    Text(&'p str),
    Opaque,
}

impl<'p> Metric<'p> {
    fn parse(bytes: &'p [u8]) -> Result<Metric<'p>, Damaged> {
        let mut metric = Metric::default();
        for field in Fields::of(bytes) {
            let (number, value) = field?;
            match number {
                1 => metric.name = Some(value.text()?).filter(|name| !name.is_empty()),
                2 => metric.alias = Some(value.varint()?),
                3 => metric.timestamp = Some(value.varint()?),
                4 => metric.datatype = value.varint()?,
                5 => metric.is_historical = value.truth()?,
                7 => metric.is_null = value.truth()?,
                10 => metric.value = Some(Raw::Int(low_half(value.varint()?))),
                11 => metric.value = Some(Raw::Long(value.varint()?)),
                12 => metric.value = Some(Raw::Float(f32::from_bits(value.four()?).into())),
                13 => metric.value = Some(Raw::Float(f64::from_bits(value.eight()?))),
                14 => metric.value = Some(Raw::Bool(value.truth()?)),
                15 => metric.value = Some(Raw::Text(value.text()?)),
                16..=19 => {
                    value.bytes()?;
                    metric.value = Some(Raw::Opaque);
                }
                _ => {}
            }
        }
        Ok(metric)
    }

    /// What the value is, read as `datatype`.
    pub(super) fn scalar(&self, datatype: u64) -> Scalar<'p> {
        match self.value {
            Some(_) if self.is_null => Scalar::Null,
            None => Scalar::Null,
            Some(Raw::Int(bits)) => integer(bits.into(), u64::from(bits), datatype),
            Some(Raw::Long(bits)) => integer(bits.cast_signed(), bits, datatype),
            Some(Raw::Float(value)) => Scalar::Float(value),
            Some(Raw::Bool(truth)) => Scalar::Bool(truth),
            Some(Raw::Text(text)) => Scalar::Text(text),
            Some(Raw::Opaque) => Scalar::Opaque,
        }
    }

    /// The value where it is a plain count, such as `bdSeq`.
    pub(super) fn count(&self) -> Option<u64> {
        match self.value {
            Some(Raw::Int(bits)) => Some(bits.into()),
            Some(Raw::Long(bits)) => Some(bits),
            Some(Raw::Float(_) | Raw::Bool(_) | Raw::Text(_) | Raw::Opaque) | None => None,
        }
    }
}

/// True where the number in the field does not say by itself what it is.
pub(super) fn is_signed(datatype: u64) -> bool {
    (datatype::INT8..=datatype::INT64).contains(&datatype)
}

fn integer(signed: i64, bits: u64, datatype: u64) -> Scalar<'static> {
    let [byte, second, third, fourth, ..] = bits.to_le_bytes();
    match datatype {
        datatype::INT8 => Scalar::Int(i8::from_le_bytes([byte]).into()),
        datatype::INT16 => Scalar::Int(i16::from_le_bytes([byte, second]).into()),
        datatype::INT32 => Scalar::Int(i32::from_le_bytes([byte, second, third, fourth]).into()),
        datatype::INT64 => Scalar::Int(signed),
        datatype::BOOLEAN => Scalar::Bool(bits != 0),
        datatype::DATE_TIME => i64::try_from(bits).map_or(Scalar::Uint(bits), Scalar::Int),
        _ if bits >> 32 == 0 => Scalar::Int(signed),
        _ => Scalar::Uint(bits),
    }
}

/// A `uint32` on the wire may be the sign-extended varint of an encoder that has it as a
/// negative `int32`; protocol buffers keep the low bits of both.
fn low_half(varint: u64) -> u32 {
    let [a, b, c, d, ..] = varint.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{put_message, put_varint};
    use super::*;

    fn metric(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    fn int(datatype: u64, bits: u64) -> Scalar<'static> {
        let bytes = metric(|out| put_varint(out, 10, bits));
        Metric::parse(bytes.leak()).unwrap().scalar(datatype)
    }

    fn long(datatype: u64, bits: u64) -> Scalar<'static> {
        let bytes = metric(|out| put_varint(out, 11, bits));
        Metric::parse(bytes.leak()).unwrap().scalar(datatype)
    }

    #[test]
    fn negative_integers_are_twos_complement_of_their_own_width() {
        assert_eq!(int(1, 0xffff_fffb), Scalar::Int(-5));
        assert_eq!(int(1, 0xfb), Scalar::Int(-5), "some encoders send eight bits");
        assert_eq!(int(2, 0xfffb), Scalar::Int(-5));
        assert_eq!(int(3, 0xffff_fffb), Scalar::Int(-5));
        assert_eq!(int(3, u64::MAX - 4), Scalar::Int(-5), "and some a sign-extended varint");
        assert_eq!(long(4, u64::MAX - 4), Scalar::Int(-5));
        assert_eq!(long(4, 1 << 63), Scalar::Int(i64::MIN));
        assert_eq!(int(4, 7), Scalar::Int(7));
    }

    #[test]
    fn unsigned_integers_and_those_without_a_datatype_are_what_they_are() {
        assert_eq!(int(5, 255), Scalar::Int(255));
        assert_eq!(int(7, 0xffff_ffff), Scalar::Int(4_294_967_295));
        assert_eq!(int(0, 0xffff_fffb), Scalar::Int(4_294_967_291));
        assert_eq!(long(7, 0xffff_ffff), Scalar::Int(4_294_967_295), "Tahu sends UInt32 in the long field");
        assert_eq!(long(8, u64::MAX), Scalar::Uint(u64::MAX));
        assert_eq!(long(13, 1_713_970_366_000), Scalar::Int(1_713_970_366_000));
        assert_eq!(long(13, u64::MAX), Scalar::Uint(u64::MAX));
        assert_eq!(int(11, 1), Scalar::Bool(true));
    }

    #[test]
    fn other_values_are_told_by_their_field() {
        let scalar = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            write(&mut bytes);
            format!("{:?}", Metric::parse(&bytes).unwrap().scalar(0))
        };
        assert_eq!(scalar(&|out| out.extend(b"\x65\0\0\xac\x41")), "Float(21.5)");
        assert_eq!(scalar(&|out| out.extend(b"\x65\0\0\xc0\x7f")), "Float(NaN)");
        assert_eq!(scalar(&|out| out.extend(b"\x69\0\0\0\0\0\0\0\x40")), "Float(2.0)");
        assert_eq!(scalar(&|out| put_varint(out, 14, 1)), "Bool(true)");
        assert_eq!(scalar(&|out| put_message(out, 15, b"RUN")), "Text(\"RUN\")");
        for number in 16..=19 {
            assert_eq!(scalar(&|out| put_message(out, number, b"\xff")), "Opaque");
        }
        assert_eq!(scalar(&|_| ()), "Null");
        assert_eq!(scalar(&|out| (put_varint(out, 10, 7), put_varint(out, 7, 1)).0), "Null");
        assert_eq!(scalar(&|out| (put_varint(out, 10, 7), put_message(out, 15, b"x")).1), "Text(\"x\")", "the last");
    }

    #[test]
    fn a_known_field_of_another_kind_is_damaged() {
        for number in [1, 12, 13, 15, 16, 17] {
            assert!(Metric::parse(&metric(|out| put_varint(out, number, 1))).is_err(), "{number}");
        }
        for number in [2, 3, 4, 5, 7, 10, 11, 14] {
            assert!(Metric::parse(&metric(|out| put_message(out, number, b""))).is_err(), "{number}");
        }
        assert!(Metric::parse(&metric(|out| put_message(out, 1, b"\xff"))).is_err(), "a name is text");
        assert!(Payload::parse(&metric(|out| put_varint(out, 2, 1))).is_err());
        assert!(Payload::parse(&metric(|out| put_message(out, 4, b"SPBV1.0_COMPRESSED"))).is_err());
        assert!(Payload::parse(&metric(|out| put_message(out, 4, b"anything else"))).is_ok());
    }
}
