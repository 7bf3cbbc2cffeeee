//! The wire format of protocol buffers, as far as Sparkplug needs it: fields one after the
//! other, borrowed.
//!
//! ```text
//! field = tag value …     tag = number << 3 | kind, a varint
//! kind 0 varint    1 eight bytes    2 length and bytes    5 four bytes
//! ```
//!
//! A reader of our own instead of a library for the messages (`prost` was considered): what
//! is read is two messages with eighteen fields that count, names and texts stay where they
//! are, a length that lies allocates nothing because nothing is allocated, and nothing
//! recurses because what lies deeper (properties, metadata, templates, data sets) is passed
//! over as bytes. The library would build the whole tree of each message on the heap and
//! bring a procedural macro.
//!
//! Groups (kinds 3 and 4) do not occur in Sparkplug and count as damage.

use crate::engine::wire::{Damaged, Reader, put_bytes, put_u64};

/// The value of one field.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Value<'p> {
    Varint(u64),
    Eight(u64),
    Bytes(&'p [u8]),
    Four(u32),
}

impl<'p> Value<'p> {
    pub(super) fn varint(self) -> Result<u64, Damaged> {
        match self {
            Value::Varint(value) => Ok(value),
            Value::Eight(_) | Value::Bytes(_) | Value::Four(_) => Err(Damaged),
        }
    }

    pub(super) fn eight(self) -> Result<u64, Damaged> {
        match self {
            Value::Eight(value) => Ok(value),
            Value::Varint(_) | Value::Bytes(_) | Value::Four(_) => Err(Damaged),
        }
    }

    pub(super) fn four(self) -> Result<u32, Damaged> {
        match self {
            Value::Four(value) => Ok(value),
            Value::Varint(_) | Value::Eight(_) | Value::Bytes(_) => Err(Damaged),
        }
    }

    pub(super) fn bytes(self) -> Result<&'p [u8], Damaged> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            Value::Varint(_) | Value::Eight(_) | Value::Four(_) => Err(Damaged),
        }
    }

    pub(super) fn text(self) -> Result<&'p str, Damaged> {
        core::str::from_utf8(self.bytes()?).map_err(|_| Damaged)
    }

    pub(super) fn truth(self) -> Result<bool, Damaged> {
        Ok(self.varint()? != 0)
    }
}

/// The fields of one message. After an error there are no more.
#[derive(Clone)]
pub(super) struct Fields<'p> {
    reader: Reader<'p>,
}

impl<'p> Fields<'p> {
    pub(super) fn of(message: &'p [u8]) -> Fields<'p> {
        Fields { reader: Reader::new(message) }
    }

    fn field(&mut self) -> Result<(u64, Value<'p>), Damaged> {
        let tag = self.reader.u64()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.reader.u64()?),
            1 => Value::Eight(self.reader.fixed()?),
            2 => Value::Bytes(self.reader.bytes()?),
            5 => Value::Four(u32::from_le_bytes(self.reader.take(4)?.try_into().map_err(|_| Damaged)?)),
            _ => return Err(Damaged),
        };
        // Numbers have 29 bits, and none is 0.
        if (1..1 << 29).contains(&(tag >> 3)) { Ok((tag >> 3, value)) } else { Err(Damaged) }
    }
}

impl<'p> Iterator for Fields<'p> {
    type Item = Result<(u64, Value<'p>), Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(field)
    }
}

/// Appends a field of kind 0.
pub(super) fn put_varint(out: &mut Vec<u8>, number: u64, value: u64) {
    put_u64(out, number << 3);
    put_u64(out, value);
}

/// Appends a field of kind 2.
pub(super) fn put_message(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_u64(out, number << 3 | 2);
    put_bytes(out, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u64, Value<'_>)>, Damaged> {
        Fields::of(bytes).collect()
    }

    #[test]
    fn each_kind_is_read() {
        // 1: 150 as in the encoding guide of protocol buffers; 2: "testing" likewise.
        let bytes = b"\x08\x96\x01\x12\x07testing\x1d\x01\0\0\0\x21\x02\0\0\0\0\0\0\0";
        let expected =
            [(1, Value::Varint(150)), (2, Value::Bytes(b"testing")), (3, Value::Four(1)), (4, Value::Eight(2))];
        assert_eq!(read(bytes), Ok(expected.to_vec()));
        assert_eq!(read(b""), Ok(vec![]));
    }

    #[test]
    fn what_is_cut_lies_or_is_no_field_is_damaged() {
        for bytes in [
            &b"\x08"[..],
            b"\x08\x96",
            b"\x12\x08testing",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01testing",
            b"\x1d\x01\0\0",
            b"\x21\x01\0\0\0\0\0\0",
            b"\x00\x01",                                         // number 0
            b"\x0b\x0c",                                         // a group
            b"\x0e\x00",                                         // kind 6
            b"\x80\x80\x80\x80\x10\x00",                         // number 2^29
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // more than 64 bits
        ] {
            assert_eq!(read(bytes), Err(Damaged), "{}", bytes.escape_ascii());
        }
    }
}
