//! The CBOR form of `SenML` (RFC 8428, section 6); [`senml`](super::senml) says what it means.
//!
//! A pack is an array of maps, of definite or indefinite length, with integer labels; the
//! names of the JSON form are understood too. Numbers are integers, floats of every width,
//! bignums, decimal fractions and bigfloats. Whatever is no CBOR, is cut short or is nested
//! deeper than `serde_cbor` goes (127) is not in the format: nothing in `SenML` is deep.

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::model::record::RejectReason;

use super::cbor_number::{self as number, Parts};
use super::senml::{Entry, Label, Number, Pack, Value};
use super::visit::{Outcome, Visit};

/// Tag 55799, "this is CBOR".
const SELF_DESCRIBED: &[u8] = b"\xd9\xd9\xf7";

/// Tells `visit` the records of `payload`.
pub(super) fn tell(payload: &[u8], visit: &mut dyn Visit) -> Outcome {
    let document = payload.strip_prefix(SELF_DESCRIBED).unwrap_or(payload);
    match document.first() {
        None => return Err(RejectReason::Empty),
        Some(0x80..=0x9f) => {}
        Some(0xa0..=0xbf) => return Err(RejectReason::WrongShape),
        Some(_) => return Err(RejectReason::NotInFormat),
    }
    let mut pack = Pack::new(visit);
    let mut fault = None;
    let mut deserializer = serde_cbor::Deserializer::from_slice(document);
    let read = deserializer.deserialize_any(Entries { pack: &mut pack, fault: &mut fault });
    match (fault, read.and_then(|()| deserializer.end())) {
        (Some(reason), _) => Err(reason),
        (None, Err(_)) => Err(RejectReason::NotInFormat),
        (None, Ok(())) => pack.finish(),
    }
}

/// The array that a pack is.
struct Entries<'t, 'v, 'p> {
    pack: &'t mut Pack<'v, 'p>,
    fault: &'t mut Option<RejectReason>,
}

impl<'de> Visitor<'de> for Entries<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut entry = None;
        while items.next_element_seed(Item { entry: Some(&mut entry), tag: None })?.is_some() {
            match entry.take().map(|entry| self.pack.take(entry)) {
                Some(Ok(())) => {}
                Some(Err(reason)) => {
                    *self.fault = Some(reason);
                    return Err(A::Error::custom(""));
                }
                None => self.pack.reject(RejectReason::WrongShape),
            }
        }
        Ok(())
    }
}

/// The item that comes next.
struct Item<'t, 'p> {
    /// Where its fields go when it is a map; where there is no such place, a map is data.
    entry: Option<&'t mut Option<Entry<'p>>>,
    tag: Option<u64>,
}

impl Item<'_, '_> {
    const VALUE: Self = Item { entry: None, tag: None };
}

impl<'de> DeserializeSeed<'de> for Item<'_, 'de> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item<'_, 'de> {
    type Value = Value<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CBOR")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Integer(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Integer(value.into())))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Integer(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Number(Number::Float(value)))
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(value.to_owned().into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Value<'de>, E> {
        Ok(match number::bignum(self.tag, value) {
            Some(Ok(integer)) => Value::Number(Number::Integer(integer)),
            Some(Err(float)) => Value::Number(Number::Float(float)),
            None => Value::Opaque,
        })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, content: D) -> Result<Value<'de>, D::Error> {
        let tag = serde_cbor::tags::current_cbor_tag();
        content.deserialize_any(Item { entry: self.entry, tag })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let (mut found, mut count) = ([None, None], 0);
        while let Some(part) = items.next_element_seed(Item::VALUE)? {
            if let (Some(place), Value::Number(Number::Integer(part))) = (found.get_mut(count), part) {
                *place = Some(part);
            }
            count += 1;
        }
        let ([Some(exponent), Some(mantissa)], 2, Some(parts)) = (found, count, self.tag.and_then(Parts::of_tag))
        else {
            return Ok(Value::Opaque);
        };
        Ok(Value::Number(match parts {
            Parts::Decimal => Number::Digits(number::decimal_fraction(exponent, mantissa).as_str().to_owned().into()),
            Parts::Binary => Number::Float(number::bigfloat(exponent, mantissa)),
        }))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value<'de>, A::Error> {
        let mut entry = Entry::default();
        while let Some(label) = fields.next_key_seed(LabelKey)? {
            let value = fields.next_value_seed(Item::VALUE)?;
            entry.set(label, value);
        }
        if let Some(place) = self.entry {
            *place = Some(entry);
        }
        Ok(Value::Opaque)
    }
}

/// The next label of a map.
struct LabelKey;

impl<'de> DeserializeSeed<'de> for LabelKey {
    type Value = Label;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Label, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LabelKey {
    type Value = Label;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a label")
    }

    fn visit_str<E: Error>(self, label: &str) -> Result<Label, E> {
        Ok(Label::of_text(label))
    }

    fn visit_i64<E: Error>(self, label: i64) -> Result<Label, E> {
        Ok(Label::of_number(label.into()))
    }

    fn visit_u64<E: Error>(self, label: u64) -> Result<Label, E> {
        Ok(Label::of_number(label.into()))
    }

    fn visit_i128<E: Error>(self, _label: i128) -> Result<Label, E> {
        Ok(Label::Other)
    }

    fn visit_bool<E: Error>(self, _label: bool) -> Result<Label, E> {
        Ok(Label::Other)
    }

    fn visit_f64<E: Error>(self, _label: f64) -> Result<Label, E> {
        Ok(Label::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Label, E> {
        Ok(Label::Other)
    }

    fn visit_bytes<E: Error>(self, _label: &[u8]) -> Result<Label, E> {
        Ok(Label::Other)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, content: D) -> Result<Label, D::Error> {
        content.deserialize_any(LabelKey)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Label, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Label::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Label, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Label::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    fn senml(payload: &[u8]) -> String {
        told(|visit| tell(payload, visit))
    }

    /// A pack of one record, named `a`, with one more field.
    fn with(field: &[u8]) -> String {
        senml(&[b"\x81\xa2\x00\x61a", field].concat())
    }

    #[test]
    fn integer_labels_say_the_same_as_names() {
        let numbered =
            b"\x82\xa5\x21\x62d/\x22\x1a\x3b\x9a\xca\x00\x24\x14\x00\x61x\x02\xf9\x3e\x00\xa2\x00\x61y\x05\x07";
        let named = b"\x9f\xbf\x62bn\x62d/\x62bt\x1a\x3b\x9a\xca\x00\x62bv\x14\x61n\x61x\x61v\xf9\x3e\x00\xff\xa2\x61n\x61y\x61s\x07\xff";
        let expected = "record @1000000000000ms bn=\"d/\" x=21.5 y(sum)=7";
        assert_eq!(senml(numbered), expected);
        assert_eq!(senml(named), expected);
        assert_eq!(senml(&[SELF_DESCRIBED, numbered].concat()), expected);
    }

    #[test]
    fn every_kind_of_number_is_read() {
        for (bytes, expected) in [
            (b"\x02\x18\x2a".as_slice(), "42"),
            (b"\x02\x3b\xff\xff\xff\xff\xff\xff\xff\xff", "-1.8446744073709552e19"),
            (b"\x02\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"),
            (b"\x02\xf9\x3e\x00", "1.5"),
            (b"\x02\xfa\x3f\xc0\x00\x00", "1.5"),
            (b"\x02\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00", "1.5"),
            (b"\x02\xc4\x82\x21\x19\x0a\xab", "2731e-2"),
            (b"\x02\xc4\x82\x21\xc3\x42\x0a\xab", "-2732e-2"),
            (b"\x02\xc5\x82\x20\x03", "1.5"),
            (b"\x02\xc2\x42\x01\x00", "256"),
            (b"\x02\x82\x01\x02", "opaque"),
            (b"\x02\xf6", "null"),
            (b"\x03\x61z", "\"z\""),
            (b"\x03\x7f\x61z\x61z\xff", "\"zz\""),
            (b"\x04\xf5", "true"),
            (b"\x08\x41z", "opaque"),
        ] {
            assert_eq!(with(bytes), format!("record bn=\"a\" a={expected}"), "{bytes:x?}");
        }
    }

    #[test]
    fn times_are_read_in_every_form() {
        let at = |time: &[u8]| senml(&[b"\x81\xa3\x00\x61a\x02\x01\x06", time].concat());
        assert_eq!(at(b"\xfb\x41\xd9\x8a\x47\x2f\xa0\x00\x00"), "record @1713970366500ms bn=\"a\" a=1");
        assert_eq!(at(b"\xc4\x82\x20\x1b\x00\x00\x00\x03\xfd\x9b\x1f\x69"), "record @1713970365700ms bn=\"a\" a=1");
        assert_eq!(at(b"\x24"), "record @now-5000ms bn=\"a\" a=1");
        assert_eq!(at(b"\xf9\x7e\x00"), "rejected: bad_time");
        assert_eq!(at(b"\x61x"), "rejected: bad_time");
    }

    #[test]
    fn what_is_not_understood_is_passed_over_or_refused() {
        let pack = |field: &[u8]| senml(&[b"\x81\xa3\x00\x61a\x02\x01", field].concat());
        for field in [
            b"\x18\x63\x80".as_slice(),
            b"\x07\x01",
            b"\x61x\xa1\x01\x02",
            b"\x80\xf5",
            b"\xa1\x01\x02\xf5",
            b"\xf5\xf5",
        ] {
            assert_eq!(pack(field), "record bn=\"a\" a=1", "{field:x?}");
        }
        assert_eq!(pack(b"\x62x_\x01"), "rejected: wrong_shape");
        assert_eq!(pack(b"\x20\x0b"), "rejected: wrong_shape", "version 11");
        assert_eq!(senml(b"\x82\xa2\x00\x61a\x02\x01\x07"), "record bn=\"a\" a=1\nrejected: wrong_shape");
    }

    #[test]
    fn what_is_no_pack_is_refused() {
        for (payload, reason) in [
            (b"".as_slice(), "empty"),
            (b"\x80", "no_values"),
            (b"\xa0", "wrong_shape"),
            (b"[]", "not_in_format"),
            (b"\x81\xa2\x00\x61a\x02", "not_in_format"),
            (b"\x81\xa2\x00\x61a\x02\x01\x00", "not_in_format"),
            (b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff\xa0", "not_in_format"),
            (b"\x81\xa1\x00\x7b\x7f\xff\xff\xff\xff\xff\xff\xff", "not_in_format"),
            (b"\x81\xa1\x00\x61\xff", "not_in_format"),
        ] {
            assert_eq!(senml(payload), format!("rejected: {reason}"), "{payload:x?}");
        }
        for unit in [b"\x81".as_slice(), b"\x9f", b"\x81\xa1\x02", b"\x81\xbf", b"\xc4\x82"] {
            assert_eq!(
                senml(&[b"\x81\xa1\x02", unit.repeat(1_000_000).as_slice()].concat()),
                "rejected: not_in_format"
            );
        }
    }
}
