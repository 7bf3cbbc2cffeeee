//! The published form of an accumulator: what a receiver can merge. One pane and its
//! backfill deltas, merged, give what one accumulator over all records gives.
//!
//! | kind | published as |
//! |---|---|
//! | `count` | `n` |
//! | `sum`, `mean` | `[rounded, rounded_away, count]`; the sum is `rounded + rounded_away` |
//! | `min`, `max` | the value |
//! | `range` | `[min, max]` |
//! | `first`, `last` | `{"at_ms": …, "value": …}` |
//! | `variance`, `stddev` | `[count, mean, sum of the squared distances from it]` |
//! | `quantiles` | `{"min": …, "max": …, "buckets": [[key, count], …]}`, see `quantiles.rs` |
//! | `distinct` | `{"hashes": [h, …]}`, then `{"registers": [[place, rank], …]}`, see `distinct.rs` |
//! | `histogram` | `{"bounds": [b, …], "counts": [n, …]}`, one count more than bounds |
//!
//! An accumulator without any value is null. So are those of kinds that depend on the
//! order: nothing can be merged with them.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Accumulator, Kind};
use crate::engine::number::Number;
use crate::model::time::EventTime;

/// A published accumulator; both encodings write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Published {
    /// Nothing was taken in, or nothing can be merged.
    Null,
    /// Integers are below 2^53.
    Number(f64),
    /// In a fixed order.
    List(Vec<Published>),
    /// In the order of writing.
    Map(Vec<(&'static str, Published)>),
}

/// A published form that is not one of the kind that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no published accumulator of that kind")]
pub struct Malformed;

/// What two published accumulators of one kind are together. The reference for receivers.
///
/// # Errors
/// [`Malformed`] when one is not of that kind, or their histograms have other bounds.
pub fn merge(kind: Kind, left: &Value, right: &Value) -> Result<Accumulator, Malformed> {
    let (mut left, right) = (kind.from_published(left)?, kind.from_published(right)?);
    if let (Accumulator::Histogram(left), Accumulator::Histogram(right)) = (&left, &right)
        && !left.can_merge(right)
    {
        return Err(Malformed);
    }
    left.merge(&right);
    Ok(left)
}

impl Published {
    /// An integer below 2^53.
    pub(super) fn count(count: u64) -> Published {
        Published::Number(count as f64)
    }

    /// A float; null beyond the range of 64 bits, where the result is null too.
    pub(super) fn float(value: f64) -> Published {
        if value.is_finite() { Published::Number(value) } else { Published::Null }
    }

    /// The same as a JSON value.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("plain numbers and text")
    }
}

impl Serialize for Published {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Published::Null => serializer.serialize_unit(),
            Published::Number(number) => Number(*number).serialize(serializer),
            Published::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Published::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// A value with its time.
pub(super) fn at(at: EventTime, value: f64) -> Published {
    Published::Map(vec![("at_ms", Published::Number(at.as_millis() as f64)), ("value", Published::Number(value))])
}

/// What [`at`] gave.
pub(super) fn read_at(published: &Value) -> Result<(EventTime, f64), Malformed> {
    let at = entry(published, "at_ms")?.as_i64().ok_or(Malformed)?;
    Ok((EventTime::from_millis(at), number(entry(published, "value")?)?))
}

/// Readers of the parts.
pub(super) fn number(value: &Value) -> Result<f64, Malformed> {
    value.as_f64().filter(|number| number.is_finite()).ok_or(Malformed)
}

/// What [`Published::float`] gave.
pub(super) fn float(value: &Value) -> Result<f64, Malformed> {
    if value.is_null() { Ok(f64::NAN) } else { number(value) }
}

pub(super) fn count(value: &Value) -> Result<u64, Malformed> {
    value.as_u64().ok_or(Malformed)
}

pub(super) fn list(value: &Value) -> Result<&[Value], Malformed> {
    value.as_array().map(Vec::as_slice).ok_or(Malformed)
}

/// A list of exactly that many.
pub(super) fn array<const N: usize>(value: &Value) -> Result<&[Value; N], Malformed> {
    list(value)?.try_into().map_err(|_| Malformed)
}

pub(super) fn entry<'v>(value: &'v Value, key: &str) -> Result<&'v Value, Malformed> {
    value.get(key).ok_or(Malformed)
}

/// Null is an accumulator without any value.
pub(super) fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}
