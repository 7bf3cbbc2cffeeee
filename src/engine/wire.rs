//! The alphabet of persisted bytes: LEB128 integers, little-endian floats,
//! length-prefixed text. Layouts are in `snapshot.rs`, `outbox/row.rs` and `outbox/state.rs`.
//!
//! Integers and lengths are those of protocol buffers too: `decode/sparkplug` reads them
//! with the same [`Reader`].
//!
//! Reading never panics and never allocates more than the input holds: every
//! length is checked against what is left.

use crate::model::time::EventTime;

/// The bytes are not what was written: cut short, or of another layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stored bytes are damaged")]
pub struct Damaged;

/// Appends an unsigned integer, 7 bits a byte.
pub fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a signed integer, zigzag-coded so that small ones stay short.
pub fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, (value.cast_unsigned() << 1) ^ (value >> 63).cast_unsigned());
}

/// Appends a float, bit-exact.
pub fn put_f64(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Appends eight bytes that have no small values.
pub fn put_fixed(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends bytes behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends text behind its length.
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Appends a time that may be missing.
pub fn put_time(out: &mut Vec<u8>, time: Option<EventTime>) {
    match time {
        None => out.push(0),
        Some(time) => {
            out.push(1);
            put_i64(out, time.as_millis());
        }
    }
}

/// Reads what the `put_*` functions wrote.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// A time that may be missing.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are something else.
    pub fn time(&mut self) -> Result<Option<EventTime>, Damaged> {
        match self.u8()? {
            0 => Ok(None),
            1 => Ok(Some(EventTime::from_millis(self.i64()?))),
            _ => Err(Damaged),
        }
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Damaged`] at the end.
    pub fn u8(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        Ok(*first)
    }

    /// An unsigned integer.
    ///
    /// # Errors
    /// [`Damaged`] when cut short or longer than 64 bits.
    pub fn u64(&mut self) -> Result<u64, Damaged> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Damaged);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    /// An unsigned integer that has to fit `T`.
    ///
    /// # Errors
    /// [`Damaged`] when it does not.
    pub fn uint<T: TryFrom<u64>>(&mut self) -> Result<T, Damaged> {
        T::try_from(self.u64()?).map_err(|_| Damaged)
    }

    /// A signed integer.
    ///
    /// # Errors
    /// As [`Reader::u64`].
    pub fn i64(&mut self) -> Result<i64, Damaged> {
        let coded = self.u64()?;
        Ok((coded >> 1).cast_signed() ^ -((coded & 1).cast_signed()))
    }

    /// A float.
    ///
    /// # Errors
    /// [`Damaged`] when cut short.
    pub fn f64(&mut self) -> Result<f64, Damaged> {
        self.fixed().map(f64::from_bits)
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// [`Damaged`] when cut short.
    pub fn fixed(&mut self) -> Result<u64, Damaged> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(Damaged)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Bytes behind their length, borrowed.
    ///
    /// # Errors
    /// [`Damaged`] when the length exceeds what is left.
    pub fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let len: usize = self.uint()?;
        self.take(len)
    }

    /// So many bytes, borrowed.
    ///
    /// # Errors
    /// [`Damaged`] when there are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Damaged)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Text behind its length, borrowed.
    ///
    /// # Errors
    /// [`Damaged`] also when it is not UTF-8.
    pub fn str(&mut self) -> Result<&'a str, Damaged> {
        core::str::from_utf8(self.bytes()?).map_err(|_| Damaged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_every_cut_is_noticed() {
        let mut out = Vec::new();
        for value in [0, 1, 127, 128, u64::MAX] {
            put_u64(&mut out, value);
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            put_i64(&mut out, value);
        }
        put_f64(&mut out, -0.25);
        put_str(&mut out, "grün");

        let read = |bytes: &[u8]| -> Result<(), Damaged> {
            let mut reader = Reader::new(bytes);
            for value in [0, 1, 127, 128, u64::MAX] {
                assert_eq!(reader.u64()?, value);
            }
            for value in [0, -1, 1, i64::MIN, i64::MAX] {
                assert_eq!(reader.i64()?, value);
            }
            assert_eq!(reader.f64()?.to_bits(), (-0.25_f64).to_bits());
            assert_eq!(reader.str()?, "grün");
            assert!(reader.is_empty());
            Ok(())
        };
        assert_eq!(read(&out), Ok(()));
        for cut in 0..out.len() {
            assert_eq!(read(&out[..cut]), Err(Damaged), "cut at {cut}");
        }
    }

    #[test]
    fn a_length_beyond_the_input_allocates_nothing() {
        let mut out = Vec::new();
        put_u64(&mut out, u64::MAX);
        assert_eq!(Reader::new(&out).bytes(), Err(Damaged));
    }
}
