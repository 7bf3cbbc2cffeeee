//! CBOR documents (RFC 8949), told like those of JSON: a map is one record, an array of maps
//! one record each.
//!
//! | item | told |
//! |---|---|
//! | map, array | a tree; integer keys as decimal text, array items by their index |
//! | integer, bignum (tags 2, 3) | `Int`, `Uint` beyond its range, a float beyond both |
//! | decimal fraction (tag 4) | `Number`, exact |
//! | float, bigfloat (tag 5) | `Float`, also when it is not finite |
//! | text, bool | itself |
//! | null, undefined | `Null` |
//! | byte string; tag 4 or 5 on what is no pair of integers | `Opaque` |
//! | any other tag, among them times (0, 1) and "this is CBOR" (55799) | what it stands on |
//!
//! A member whose key is neither text nor an integer has no name and is passed over. Simple
//! values without a meaning, bytes after the document and texts that are no UTF-8 are no CBOR
//! that we read. Items of the outer array that are no maps are rejected one by one.
//!
//! The parser is `serde_cbor`'s, driven without building a value: nothing is allocated but
//! for texts in pieces (bounded by the payload), and no length prefix is trusted. Its own
//! limit of nesting, tags included, is one below that for JSON: [`DEPTH_MAX`].

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::model::record::RejectReason;

use super::cbor_number::{self as number, Parts};
use super::visit::{Outcome, Scalar, Visit};

/// Maps, arrays and tags inside each other that `serde_cbor` goes down.
const DEPTH_MAX: usize = 127;

/// Tells `visit` the records of `payload`.
pub(super) fn tell(payload: &[u8], visit: &mut dyn Visit) -> Outcome {
    if payload.is_empty() {
        return Err(RejectReason::Empty);
    }
    let mut teller = Teller { visit, depth: 0, records: 0, items: None };
    let mut deserializer = serde_cbor::Deserializer::from_slice(payload);
    let read = teller.item(Place::Document).deserialize(&mut deserializer);
    match read.and_then(|_| deserializer.end()) {
        // The library does not say whether it is one level too many or something else at the
        // deepest place; this is the likelier of the two.
        Err(_) if teller.depth >= DEPTH_MAX => Err(RejectReason::TooDeep),
        Err(_) => Err(RejectReason::NotInFormat),
        Ok(()) => match (teller.records, teller.items) {
            (0, Some(0)) => Err(RejectReason::NoValues),
            (0, _) => Err(RejectReason::WrongShape),
            (_, _) => Ok(()),
        },
    }
}

struct Teller<'v> {
    visit: &'v mut dyn Visit,
    /// Items that are open. An error leaves it as it was there.
    depth: usize,
    /// Maps that are records.
    records: usize,
    /// Items of the outer array, if the document is one.
    items: Option<usize>,
}

impl<'v> Teller<'v> {
    fn item(&mut self, place: Place) -> Item<'_, 'v> {
        Item { teller: self, place, tag: None }
    }

    /// What a record is, and is not.
    fn not_a_map(&mut self) {
        self.visit.start_record();
        self.visit.reject_record(RejectReason::WrongShape);
    }
}

/// Where an item stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is the payload.
    Document,
    /// It is an item of the payload's array.
    Record,
    /// It is the value of a place that was entered.
    Member,
    /// Nobody wants it; it still has to be CBOR.
    Passed,
}

/// The item that comes next. Its value for the caller: the integer that it is.
struct Item<'t, 'v> {
    teller: &'t mut Teller<'v>,
    place: Place,
    tag: Option<u64>,
}

impl Item<'_, '_> {
    /// Tells what is no integer to whoever asks.
    fn scalar(self, value: Scalar<'_>) -> Option<i128> {
        match self.place {
            Place::Member => self.teller.visit.scalar(value),
            Place::Record => self.teller.not_a_map(),
            Place::Document | Place::Passed => {}
        }
        None
    }

    fn integer(self, value: i128) -> i128 {
        self.scalar(number::integer(value));
        value
    }

    /// The exponent and the mantissa of a number in two parts.
    fn parts<'de, A: SeqAccess<'de>>(self, parts: Parts, mut items: A) -> Result<(), A::Error> {
        let (mut found, mut count) = ([None; 2], 0);
        while let Some(part) = items.next_element_seed(self.teller.item(Place::Passed))? {
            if let Some(place) = found.get_mut(count) {
                *place = part;
            }
            count += 1;
        }
        match (found, parts) {
            ([Some(exponent), Some(mantissa)], Parts::Decimal) if count == 2 => {
                self.scalar(Scalar::Number(&number::decimal_fraction(exponent, mantissa)));
            }
            ([Some(exponent), Some(mantissa)], Parts::Binary) if count == 2 => {
                self.scalar(Scalar::Float(number::bigfloat(exponent, mantissa)));
            }
            _ => {
                self.scalar(Scalar::Opaque);
            }
        }
        Ok(())
    }

    fn items<'de, A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        match self.place {
            Place::Document => {
                while items.next_element_seed(self.teller.item(Place::Record))?.is_some() {
                    index += 1;
                }
                self.teller.items = Some(index);
            }
            Place::Member => {
                while items.next_element_seed(Element { teller: self.teller, index })?.is_some() {
                    index += 1;
                }
            }
            Place::Record | Place::Passed => {
                if self.place == Place::Record {
                    self.teller.not_a_map();
                }
                while items.next_element_seed(self.teller.item(Place::Passed))?.is_some() {}
            }
        }
        Ok(())
    }

    fn members<'de, A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        if matches!(self.place, Place::Document | Place::Record) {
            self.teller.records += 1;
            self.teller.visit.start_record();
        }
        let wanted = self.place != Place::Passed;
        while let Some(taken) = members.next_key_seed(Key { teller: self.teller, wanted })? {
            let place = if taken { Place::Member } else { Place::Passed };
            members.next_value_seed(self.teller.item(place))?;
            if taken {
                self.teller.visit.leave();
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Item<'_, '_> {
    type Value = Option<i128>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<i128>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item<'_, '_> {
    type Value = Option<i128>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CBOR")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Option<i128>, E> {
        Ok(self.scalar(Scalar::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Option<i128>, E> {
        Ok(Some(self.integer(value.into())))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Option<i128>, E> {
        Ok(Some(self.integer(value.into())))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Option<i128>, E> {
        Ok(Some(self.integer(value)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Option<i128>, E> {
        Ok(self.scalar(Scalar::Float(value)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Option<i128>, E> {
        Ok(self.scalar(Scalar::Text(value)))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<i128>, E> {
        Ok(self.scalar(Scalar::Null))
    }

    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<Option<i128>, E> {
        Ok(match number::bignum(self.tag, value) {
            Some(Ok(integer)) => Some(self.integer(integer)),
            Some(Err(float)) => self.scalar(Scalar::Float(float)),
            None => self.scalar(Scalar::Opaque),
        })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(mut self, content: D) -> Result<Option<i128>, D::Error> {
        self.tag = serde_cbor::tags::current_cbor_tag();
        self.teller.depth += 1;
        let teller = &mut *self.teller;
        let integer = content.deserialize_any(Item { teller, place: self.place, tag: self.tag })?;
        self.teller.depth -= 1;
        Ok(integer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Option<i128>, A::Error> {
        self.teller.depth += 1;
        let teller = &mut *self.teller;
        let item = Item { teller, place: self.place, tag: self.tag };
        match self.tag.and_then(Parts::of_tag) {
            Some(parts) => item.parts(parts, items)?,
            None => item.items(items)?,
        }
        self.teller.depth -= 1;
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Option<i128>, A::Error> {
        self.teller.depth += 1;
        let teller = &mut *self.teller;
        Item { teller, place: self.place, tag: None }.members(members)?;
        self.teller.depth -= 1;
        Ok(None)
    }
}

/// The next item of an array that somebody wants: it is entered only where it exists.
struct Element<'t, 'v> {
    teller: &'t mut Teller<'v>,
    index: usize,
}

impl<'de> DeserializeSeed<'de> for Element<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let taken = self.teller.visit.enter(&number::decimal(self.index));
        let place = if taken { Place::Member } else { Place::Passed };
        self.teller.item(place).deserialize(deserializer)?;
        if taken {
            self.teller.visit.leave();
        }
        Ok(())
    }
}

/// The next key of a map. Its value: whether its place was entered.
struct Key<'t, 'v> {
    teller: &'t mut Teller<'v>,
    wanted: bool,
}

impl Key<'_, '_> {
    fn enter(self, key: &str) -> bool {
        self.wanted && self.teller.visit.enter(key)
    }

    fn enter_number(self, key: impl fmt::Display) -> bool {
        self.enter(&number::decimal(key))
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Key<'_, '_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        Ok(self.enter(key))
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<bool, E> {
        Ok(self.enter_number(key))
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<bool, E> {
        Ok(self.enter_number(key))
    }

    fn visit_i128<E: Error>(self, key: i128) -> Result<bool, E> {
        Ok(self.enter_number(key))
    }

    fn visit_bool<E: Error>(self, _key: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E: Error>(self, _key: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bytes<E: Error>(self, _key: &[u8]) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, content: D) -> Result<bool, D::Error> {
        self.teller.depth += 1;
        let taken = content.deserialize_any(Key { teller: self.teller, wanted: self.wanted })?;
        self.teller.depth -= 1;
        Ok(taken)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        self.teller.item(Place::Passed).visit_seq(items)?;
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<bool, A::Error> {
        self.teller.item(Place::Passed).visit_map(members)?;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    /// Hex digits with blanks to bytes.
    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split(' ').collect();
        let pairs = (0..digits.len()).step_by(2).map(|at| &digits[at..at + 2]);
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hex")).collect()
    }

    fn cbor(hex: &str) -> String {
        told(|visit| tell(&bytes(hex), visit))
    }

    #[test]
    fn a_map_is_a_record_and_an_array_of_maps_one_record_each() {
        // {"t": 18.5, "io": {66: 13800, -1: [true, null]}}
        assert_eq!(
            cbor("a2 6174 f94ca0 62696f a2 1842 1935e8 20 82 f5 f6"),
            "record t=18.5 io.66=13800 io.-1.0=true io.-1.1=null"
        );
        assert_eq!(cbor("82 a1617401 bf617402ff"), "record t=1\nrecord t=2");
        assert_eq!(
            cbor("9f a1617401 07 80 a1617402 ff"),
            "record t=1\nrejected: wrong_shape\nrejected: wrong_shape\nrecord t=2"
        );
    }

    #[test]
    fn what_serde_writes_is_read_back() {
        #[derive(serde::Serialize)]
        struct Reading<'t> {
            name: &'t str,
            ratio: f32,
            level: f64,
            none: Option<u8>,
            least: i64,
            most: u64,
        }
        let reading = Reading { name: "ü", ratio: 0.5, level: 0.1, none: None, least: i64::MIN, most: u64::MAX };
        let payload = serde_cbor::to_vec(&reading).expect("CBOR");
        assert_eq!(
            told(|visit| tell(&payload, visit)),
            "record name=\"ü\" ratio=0.5 level=0.1 none=null least=-9223372036854775808 most=18446744073709551615"
        );
    }

    #[test]
    fn every_kind_of_value_is_told() {
        for (hex, expected) in [
            ("17", "23"),
            ("3903e7", "-1000"),
            ("3bffffffffffffffff", "-1.8446744073709552e19"),
            ("f93c00", "1.0"),
            ("fa47c35000", "100000.0"),
            ("fb3ff199999999999a", "1.1"),
            ("f97e00", "NaN"),
            ("f7", "null"),
            ("f4", "false"),
            ("43010203", "opaque"),
            ("5f 41aa 41bb ff", "opaque"),
            ("7f 6161 6162 ff", "\"ab\""),
            ("c0 6430303030", "\"0000\""),
            ("c1 1a514b67b0", "1363896240"),
            ("c2 49010000000000000000", "1.8446744073709552e19"),
            ("c2 421000", "4096"),
            ("c3 420100", "-257"),
            ("c4 82 21 196ab3", "27315e-2"),
            ("c4 82 21 c2 426ab3", "27315e-2"),
            ("c5 82 20 03", "1.5"),
            ("c4 83 21 01 01", "opaque"),
            ("c4 82 21 6161", "opaque"),
            ("d9d9f7 05", "5"),
        ] {
            assert_eq!(cbor(&format!("a1 6176 {hex}")), format!("record v={expected}"), "{hex}");
        }
        assert_eq!(cbor("d9d9f7 a1617605"), "record v=5", "it may say that it is CBOR");
        assert_eq!(cbor("a3 f9000001 4161 02 a0 a10203"), "record", "keys without a name are passed over");
        assert_eq!(cbor("a1 7f6161ff 01"), "record a=1");
    }

    #[test]
    fn what_is_not_cbor_yields_nothing() {
        for hex in [
            "a1",
            "a1 61",
            "a1 6176",
            "a1 6176 05 00",
            "bf 6176 05",
            "a1 6176 f8ff",
            "a1 6176 e0",
            "a1 6176 61ff",
            "a1 6176 1c",
            "ff",
            "9bffffffffffffffff a0",
            "a1 6176 7bffffffffffffffff 61",
            "a1 6176 5f 5bffffffffffffffff 61",
        ] {
            assert_eq!(cbor(hex), "rejected: not_in_format", "{hex}");
        }
        assert_eq!(cbor(""), "rejected: empty");
    }

    #[test]
    fn what_is_no_record_has_the_wrong_shape() {
        for hex in ["07", "6161", "f6", "81 01", "82 80 6161"] {
            assert_eq!(cbor(hex), "rejected: wrong_shape", "{hex}");
        }
        assert_eq!(cbor("80"), "rejected: no_values");
        assert_eq!(cbor("9fff"), "rejected: no_values");
    }

    #[test]
    fn nesting_is_bounded_whatever_it_is_made_of() {
        let nested = |unit: &[u8], count: usize, end: &[u8]| {
            told(|visit| tell(&[unit.repeat(count), end.to_vec()].concat(), visit))
        };
        let deep = nested(b"\xa1\x61a", DEPTH_MAX, b"\x05");
        assert!(deep.starts_with("record a.a.") && deep.ends_with("=5"), "{deep}");
        assert_eq!(nested(b"\xa1\x61a", DEPTH_MAX + 1, b"\x05"), "rejected: too_deep");
        for unit in [b"\x81".as_slice(), b"\x9f", b"\xa1\x61a", b"\xbf\x61a", b"\xa1", b"\xc1", b"\xc4\x82"] {
            assert_eq!(nested(unit, 1_000_000, b""), "rejected: too_deep", "{unit:x?}");
        }
    }
}
