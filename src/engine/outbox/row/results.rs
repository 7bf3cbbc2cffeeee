//! The results of one field in stored form: one float for each aggregate, as most of them
//! are. What is no number is a NaN that says what it is, and what follows it.
//!
//! ```text
//! number:      the float
//! none:        NaN
//! absent:      NaN 1           the field had nothing that the aggregate is of
//! labelled:    NaN 2 | n, (label, float)
//! approximate: NaN 3 | the result
//! ```

use super::{Damaged, Reader};
use crate::engine::aggregate::{Finished, Kind};
use crate::engine::wire::{put_f64, put_str, put_u64};

const NONE: u64 = 0x7ff8_0000_0000_0000;
const ABSENT: u64 = NONE + 1;
const LABELLED: u64 = NONE + 2;
const APPROXIMATE: u64 = NONE + 3;

/// Appends a result.
#[inline]
pub(super) fn write_result(out: &mut Vec<u8>, result: &Finished<'_>) {
    match result {
        Finished::Number(value) => put_f64(out, *value),
        Finished::None => put_f64(out, f64::from_bits(NONE)),
        Finished::Absent => put_f64(out, f64::from_bits(ABSENT)),
        Finished::Labelled(numbers) => {
            put_f64(out, f64::from_bits(LABELLED));
            put_u64(out, numbers.len() as u64);
            for (label, value) in numbers {
                put_str(out, label);
                put_f64(out, *value);
            }
        }
    }
}

/// Says that the result that follows is approximate.
pub(super) fn write_approximate(out: &mut Vec<u8>) {
    put_f64(out, f64::from_bits(APPROXIMATE));
}

/// The result of one aggregate.
#[derive(Clone, Copy, Debug)]
pub struct StoredResult<'a> {
    /// What it is.
    pub value: StoredValue<'a>,
    /// It is not what the aggregate promises.
    pub approximate: bool,
}

impl StoredResult<'_> {
    /// The number, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self.value {
            StoredValue::Number(value) => Some(value),
            StoredValue::Absent | StoredValue::None | StoredValue::Labelled(_) => None,
        }
    }
}

/// See [`Finished`].
#[derive(Clone, Copy, Debug)]
pub enum StoredValue<'a> {
    /// The field had nothing that the aggregate is of.
    Absent,
    /// There is none.
    None,
    /// The usual one.
    Number(f64),
    /// Several, in their order.
    Labelled(StoredNumbers<'a>),
}

/// Numbers with labels.
#[derive(Clone, Copy, Debug)]
pub struct StoredNumbers<'a> {
    count: u64,
    reader: Reader<'a>,
}

impl<'a> StoredNumbers<'a> {
    /// How many.
    pub fn len(self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// True without any.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Each with its label.
    pub fn numbers(self) -> impl Iterator<Item = (&'a str, f64)> {
        let mut reader = self.reader;
        (0..self.count).map_while(move |_| Some((reader.str().ok()?, reader.f64().ok()?)))
    }
}

/// Reads a result.
pub(super) fn read_result<'a>(reader: &mut Reader<'a>) -> Result<StoredResult<'a>, Damaged> {
    let mut value = reader.f64()?;
    let approximate = value.to_bits() == APPROXIMATE;
    if approximate {
        value = reader.f64()?;
    }
    let value = match value.to_bits() {
        _ if value.is_finite() => StoredValue::Number(value),
        ABSENT => StoredValue::Absent,
        LABELLED => {
            let count = reader.u64()?;
            let numbers = StoredNumbers { count, reader: *reader };
            for _ in 0..numbers.count {
                reader.str()?;
                reader.f64()?;
            }
            StoredValue::Labelled(numbers)
        }
        _ => StoredValue::None,
    };
    Ok(StoredResult { value, approximate })
}

/// The results of one field, by aggregate; without those that are absent.
#[derive(Clone, Debug)]
pub struct FieldResults<'a> {
    kinds: &'a [u8],
    reader: Reader<'a>,
    left: usize,
}

impl<'a> FieldResults<'a> {
    /// Those of `kinds` that stand at `reader`, which goes on behind them.
    pub(super) fn read(kinds: &'a [u8], reader: &mut Reader<'a>) -> Result<FieldResults<'a>, Damaged> {
        let first = *reader;
        let mut left = 0;
        for _ in kinds {
            let result = read_result(reader)?;
            left += usize::from(!matches!(result.value, StoredValue::Absent));
        }
        Ok(FieldResults { kinds, reader: first, left })
    }
}

impl ExactSizeIterator for FieldResults<'_> {}

impl<'a> Iterator for FieldResults<'a> {
    type Item = (Kind, StoredResult<'a>);

    fn next(&mut self) -> Option<(Kind, StoredResult<'a>)> {
        loop {
            let (tag, rest) = self.kinds.split_first()?;
            self.kinds = rest;
            let kind = Kind::from_tag(*tag).expect("checked when the row was read");
            let result = read_result(&mut self.reader).expect("checked when the row was read");
            if !matches!(result.value, StoredValue::Absent) {
                self.left -= 1;
                return Some((kind, result));
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
