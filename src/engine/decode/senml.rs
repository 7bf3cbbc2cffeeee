//! `SenML` (RFC 8428): what the records of a pack say together. [`senml_json`](super::senml_json)
//! and [`senml_cbor`](super::senml_cbor) read the two forms.
//!
//! ```text
//! [{"bn":"urn:dev:1:","bt":1.7e9,"n":"a","v":1},{"n":"b","vb":true},{"n":"a","t":5,"v":2}]
//!
//! record @1700000000000 bn="urn:dev:1:" a=1 b=true
//! record @1700000005000 bn="urn:dev:1:" a=2
//! ```
//!
//! - Base fields hold from their record on, until they are given again. Base value and base sum
//!   are added to numbers, as floats, and count alone where there is no number; without a base
//!   a number is told as it stands.
//! - `bn` is told as a member; where there is none it is the name. A value stands under `n`, or
//!   under the base name where `n` is empty; a sum under the same and `(sum)`.
//! - `SenML` records that follow each other with equal base name and equal time become one record,
//!   as long as no member repeats: they are one event with several fields.
//! - Times are added in decimal, to the nanosecond, and rounded to the millisecond, half away
//!   from zero. A sum below 2^28 s counts from the arrival of the message. Without `bt` and
//!   `t` there is no time.
//!
//! The whole pack is refused for a version beyond 10, for a field with `_` at its end (the
//! sender says that it must be understood, and none is known here) and for a base field that
//! cannot be read, because it would spoil the records after it. A bad name, time or pair of
//! values costs its record alone. A pack without a usable record counts once, for its first.
//!
//! Units, update times and links are passed over. Data (`vd`) is told as `Opaque`.

use core::hash::BuildHasher;
use std::borrow::Cow;
use std::collections::BTreeSet;

use foldhash::fast::FixedState;

use crate::model::record::RejectReason;

use super::cbor_number;
use super::time::read_decimal;
use super::visit::{Outcome, OwnTime, Scalar, Visit};

/// Longest base name and name together. The standard has no limit; without one, a long base
/// name would be walked for every record.
const NAME_BYTES_MAX: usize = 256;
/// The newest version there is.
const VERSION_MAX: f64 = 10.0;
/// Times below count from now: 2^28 seconds.
const RELATIVE_NANOS: i128 = (1 << 28) * NANOS_PER_SECOND;
const NANOS_PER_SECOND: i128 = 1_000_000_000;
const NANOS_PER_MILLI: i128 = 1_000_000;

/// What a field of a `SenML` record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Label {
    BaseName,
    BaseTime,
    BaseValue,
    BaseSum,
    BaseVersion,
    Name,
    Value,
    Data,
    Sum,
    Time,
    /// Its name says that whoever does not know it must not go on.
    MustUnderstand,
    /// Of no interest, or not known.
    Other,
}

impl Label {
    /// Of the JSON form, and of extensions in the CBOR form.
    pub(super) fn of_text(label: &str) -> Label {
        match label {
            "bn" => Label::BaseName,
            "bt" => Label::BaseTime,
            "bv" => Label::BaseValue,
            "bs" => Label::BaseSum,
            "bver" => Label::BaseVersion,
            "n" => Label::Name,
            "v" | "vs" | "vb" => Label::Value,
            "vd" => Label::Data,
            "s" => Label::Sum,
            "t" => Label::Time,
            other if other.ends_with('_') => Label::MustUnderstand,
            _ => Label::Other,
        }
    }

    /// Of the CBOR form (RFC 8428, table 4).
    pub(super) fn of_number(label: i128) -> Label {
        match label {
            -1 => Label::BaseVersion,
            -2 => Label::BaseName,
            -3 => Label::BaseTime,
            -5 => Label::BaseValue,
            -6 => Label::BaseSum,
            0 => Label::Name,
            2..=4 => Label::Value,
            5 => Label::Sum,
            6 => Label::Time,
            8 => Label::Data,
            _ => Label::Other,
        }
    }
}

/// What a field holds.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value<'p> {
    Number(Number<'p>),
    Text(Cow<'p, str>),
    Bool(bool),
    Null,
    Opaque,
}

/// A number of either form.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Number<'p> {
    /// In the syntax of JSON.
    Digits(Cow<'p, str>),
    Float(f64),
    Integer(i128),
}

/// One `SenML` record as it stands, field by field. Of equal labels the last counts.
#[derive(Clone, Default, Debug)]
pub(super) struct Entry<'p> {
    base_name: Option<Cow<'p, str>>,
    base_time: Option<i128>,
    base_value: Option<f64>,
    base_sum: Option<f64>,
    name: Option<Cow<'p, str>>,
    time: Option<i128>,
    value: Option<Value<'p>>,
    values: u32,
    sum: Option<Value<'p>>,
    /// What is wrong with this record.
    fault: Option<RejectReason>,
    /// What is wrong with the whole pack.
    pack_fault: Option<RejectReason>,
}

impl<'p> Entry<'p> {
    /// Takes in one field.
    pub(super) fn set(&mut self, label: Label, value: Value<'p>) {
        match (label, value) {
            (Label::BaseName, Value::Text(name)) => self.base_name = Some(name),
            (Label::BaseTime, Value::Number(time)) => {
                self.base_time = time.nanos();
                self.pack_fault = self.pack_fault.or(self.base_time.is_none().then_some(RejectReason::BadTime));
            }
            (Label::BaseValue, Value::Number(value)) => self.base_value = Some(value.float()),
            (Label::BaseSum, Value::Number(sum)) => self.base_sum = Some(sum.float()),
            (Label::BaseVersion, Value::Number(version)) if version.float() <= VERSION_MAX => {}
            (Label::Name, Value::Text(name)) => self.name = Some(name),
            (Label::Time, Value::Number(time)) => {
                self.time = time.nanos();
                self.fault = self.fault.or(self.time.is_none().then_some(RejectReason::BadTime));
            }
            (Label::Value, value) => self.take_value(value),
            (Label::Data, _) => self.take_value(Value::Opaque),
            (Label::Sum, sum) => self.sum = Some(sum),
            (Label::Time, _) => self.fault = Some(RejectReason::BadTime),
            (Label::Name, _) => self.fault = Some(RejectReason::WrongShape),
            (
                Label::BaseName
                | Label::BaseTime
                | Label::BaseValue
                | Label::BaseSum
                | Label::BaseVersion
                | Label::MustUnderstand,
                _,
            ) => self.pack_fault = Some(RejectReason::WrongShape),
            (Label::Other, _) => {}
        }
    }

    fn take_value(&mut self, value: Value<'p>) {
        self.value = Some(value);
        self.values += 1;
    }

    /// Nothing but base fields for the records to come.
    fn is_base(&self) -> bool {
        self.name.is_none() && self.time.is_none() && self.value.is_none() && self.sum.is_none()
    }
}

/// A pack that is being told.
pub(super) struct Pack<'v, 'p> {
    visit: &'v mut dyn Visit,
    base_name: Cow<'p, str>,
    base_time: Option<i128>,
    base_value: Option<f64>,
    base_sum: Option<f64>,
    /// Base name (or name) and time of the record that is being told.
    open: Option<(Cow<'p, str>, Option<OwnTime<'static>>)>,
    /// Hashes of the members it has. A collision costs no more than a record of its own.
    members: BTreeSet<u64>,
    /// A member's key with `(sum)`.
    sum_key: String,
    usable: bool,
    first_fault: Option<RejectReason>,
}

impl<'v, 'p> Pack<'v, 'p> {
    /// A pack of which nothing is known yet.
    pub(super) fn new(visit: &'v mut dyn Visit) -> Pack<'v, 'p> {
        Pack {
            visit,
            base_name: Cow::Borrowed(""),
            base_time: None,
            base_value: None,
            base_sum: None,
            open: None,
            members: BTreeSet::new(),
            sum_key: String::new(),
            usable: false,
            first_fault: None,
        }
    }

    /// Tells the next `SenML` record, or rejects it. An error is one of the whole pack.
    pub(super) fn take(&mut self, mut entry: Entry<'p>) -> Outcome {
        if let Some(reason) = entry.pack_fault {
            return Err(reason);
        }
        if let Some(name) = entry.base_name.take() {
            self.base_name = name;
        }
        self.base_time = entry.base_time.or(self.base_time);
        self.base_value = entry.base_value.or(self.base_value);
        self.base_sum = entry.base_sum.or(self.base_sum);
        if entry.is_base() && entry.fault.is_none() {
            return Ok(());
        }
        if let Err(reason) = self.tell(entry) {
            self.reject(reason);
        }
        Ok(())
    }

    /// An item of the pack is not usable.
    pub(super) fn reject(&mut self, reason: RejectReason) {
        self.open = None;
        self.first_fault = self.first_fault.or(Some(reason));
        self.visit.start_record();
        self.visit.reject_record(reason);
    }

    /// The pack has ended.
    pub(super) fn finish(self) -> Outcome {
        if self.usable { Ok(()) } else { Err(self.first_fault.unwrap_or(RejectReason::NoValues)) }
    }

    fn tell(&mut self, entry: Entry<'p>) -> Outcome {
        if let Some(reason) = entry.fault {
            return Err(reason);
        }
        let name = entry.name.unwrap_or_default();
        if entry.values > 1 || !is_name(&self.base_name, &name) {
            return Err(RejectReason::WrongShape);
        }
        let time = time(self.base_time, entry.time)?;
        let (value, sum) = self.based(entry.value, entry.sum);
        if value.is_none() && sum.is_none() {
            return Err(RejectReason::NoValues);
        }
        let base = if self.base_name.is_empty() { name.clone() } else { self.base_name.clone() };
        let key = if name.is_empty() { base.clone() } else { name };
        self.sum_key.clear();
        self.sum_key.push_str(&key);
        self.sum_key.push_str("(sum)");
        let members = [value.is_some().then(|| hash(&key)), sum.is_some().then(|| hash(&self.sum_key))];
        self.go_on_or_start(base, time, members);
        if let Some(value) = value {
            tell_value(self.visit, &key, &value, self.base_value);
        }
        if let Some(sum) = sum {
            tell_value(self.visit, &self.sum_key, &sum, self.base_sum);
        }
        Ok(())
    }

    /// Value and sum of a record, zero where only the base is there (RFC 8428, section 4.5.4).
    /// A base sum makes no sum of what is no number, and a sum alone needs no value.
    fn based(&self, value: Option<Value<'p>>, sum: Option<Value<'p>>) -> (Option<Value<'p>>, Option<Value<'p>>) {
        const ZERO: Value<'static> = Value::Number(Number::Integer(0));
        let summable = matches!(value, None | Some(Value::Number(_)));
        let sum = sum.or_else(|| self.base_sum.filter(|_| summable).map(|_| ZERO));
        let value = value.or_else(|| self.base_value.filter(|_| sum.is_none()).map(|_| ZERO));
        (value, sum)
    }

    /// Sees to it that the record that is told is the one for `base` at `time`, and has
    /// none of `members` yet.
    fn go_on_or_start(&mut self, base: Cow<'p, str>, time: Option<OwnTime<'static>>, members: [Option<u64>; 2]) {
        let same = self.open.as_ref().is_some_and(|(open, at)| *open == base && *at == time);
        let repeats = members.iter().flatten().any(|member| self.members.contains(member));
        if !same || repeats {
            self.members.clear();
            self.visit.start_record();
            if let Some(time) = time {
                self.visit.own_time(time);
            }
            self.visit.member("bn", Scalar::Text(&base));
            self.open = Some((base, time));
            self.usable = true;
        }
        self.members.extend(members.into_iter().flatten());
    }
}

fn tell_value(visit: &mut dyn Visit, key: &str, value: &Value<'_>, base: Option<f64>) {
    visit.member(
        key,
        match (value, base) {
            (Value::Number(number), Some(base)) => Scalar::Float(base + number.float()),
            (Value::Number(number), None) => number.scalar(),
            (Value::Text(text), _) => Scalar::Text(text),
            (Value::Bool(truth), _) => Scalar::Bool(*truth),
            (Value::Null, _) => Scalar::Null,
            (Value::Opaque, _) => Scalar::Opaque,
        },
    );
}

fn hash(key: &str) -> u64 {
    FixedState::with_seed(0).hash_one(key)
}

/// The rule for base name and name together: letters, digits and `-:./_`, the first of them
/// a letter or a digit.
fn is_name(base: &str, name: &str) -> bool {
    if base.len() + name.len() > NAME_BYTES_MAX {
        return false;
    }
    let mut bytes = base.bytes().chain(name.bytes());
    bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-:./_".contains(&byte))
}

/// The time of a record; `None` when the pack says nothing of it.
fn time(base: Option<i128>, own: Option<i128>) -> Result<Option<OwnTime<'static>>, RejectReason> {
    let (None, None) = (base, own) else {
        let nanos = base.unwrap_or(0).checked_add(own.unwrap_or(0)).ok_or(RejectReason::BadTime)?;
        let half = if nanos < 0 { -NANOS_PER_MILLI / 2 } else { NANOS_PER_MILLI / 2 };
        let millis = nanos.checked_add(half).and_then(|nanos| i64::try_from(nanos / NANOS_PER_MILLI).ok());
        let millis = millis.ok_or(RejectReason::BadTime)?;
        return Ok(Some(if nanos < RELATIVE_NANOS { OwnTime::Relative(millis) } else { OwnTime::Millis(millis) }));
    };
    Ok(None)
}

impl Number<'_> {
    /// As a float; not finite where it is too large for one.
    fn float(&self) -> f64 {
        match self {
            Number::Digits(digits) => digits.parse().unwrap_or(f64::NAN),
            Number::Float(value) => *value,
            Number::Integer(value) => *value as f64,
        }
    }

    fn scalar(&self) -> Scalar<'_> {
        match self {
            Number::Digits(digits) => Scalar::Number(digits),
            Number::Float(value) => Scalar::Float(*value),
            Number::Integer(value) => cbor_number::integer(*value),
        }
    }

    /// As seconds; to the nanosecond within three centuries of 1970, to the millisecond beyond.
    fn nanos(&self) -> Option<i128> {
        let of_digits = |digits: &str| {
            let nanos = read_decimal(digits, 9).map(i128::from);
            nanos.or_else(|| read_decimal(digits, 3).map(|millis| i128::from(millis) * NANOS_PER_MILLI))
        };
        match self {
            Number::Digits(digits) => of_digits(digits),
            Number::Float(value) if value.is_finite() => of_digits(&cbor_number::shortest(*value)),
            Number::Float(_) => None,
            Number::Integer(value) => value.checked_mul(NANOS_PER_SECOND),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_exact_rounded_and_relative_below_its_border() {
        let at = |digits: &str| {
            let nanos = Number::Digits(digits.into()).nanos();
            nanos.map(|nanos| time(Some(nanos), None).expect("a time").expect("a time"))
        };
        assert_eq!(at("1.713970366e+09"), Some(OwnTime::Millis(1_713_970_366_000)));
        assert_eq!(at("1713970366.0005"), Some(OwnTime::Millis(1_713_970_366_001)));
        assert_eq!(at("1713970366.000499999999"), Some(OwnTime::Millis(1_713_970_366_001)), "to the nanosecond first");
        assert_eq!(at("1713970366.0004999994"), Some(OwnTime::Millis(1_713_970_366_000)));
        assert_eq!(at("268435455.9"), Some(OwnTime::Relative(268_435_455_900)));
        assert_eq!(at("268435456"), Some(OwnTime::Millis(268_435_456_000)));
        assert_eq!(at("-0.0005"), Some(OwnTime::Relative(-1)));
        assert_eq!(at("-1e15"), Some(OwnTime::Relative(-1_000_000_000_000_000_000)));
        assert_eq!(at("9223372036854775.807"), Some(OwnTime::Millis(i64::MAX)));
        assert_eq!(at("9223372036854775.808"), None);
        assert_eq!(time(Some(i128::MAX), Some(1)), Err(RejectReason::BadTime));
        assert_eq!(time(None, None), Ok(None));
    }

    #[test]
    fn a_float_is_the_time_that_it_prints() {
        let at = |value| Number::Float(value).nanos();
        assert_eq!(at(1_713_970_366.65), Some(1_713_970_366_650_000_000));
        assert_eq!(at(-0.1), Some(-100_000_000));
        assert_eq!((at(f64::NAN), at(f64::INFINITY), at(1e300)), (None, None, None));
        assert_eq!(Number::Integer(i128::MAX).nanos(), None);
    }

    #[test]
    fn a_name_is_made_of_the_characters_that_are_allowed() {
        for (base, name) in [("urn:dev:ow:10:", "a"), ("", "Z"), ("0", ""), ("a", "-:./_")] {
            assert!(is_name(base, name), "{base}{name}");
        }
        let long = "a".repeat(NAME_BYTES_MAX);
        assert!(is_name("", &long) && !is_name("a", &long));
        for (base, name) in [("", ""), ("", "_a"), (":", "a"), ("a b", ""), ("a", "°C"), ("a", "%")] {
            assert!(!is_name(base, name), "{base}{name}");
        }
    }
}
