//! Where packets begin and end, and what stands in their bodies, read without trust.
//!
//! Framing is ours so that a packet's size is judged when its length is known, before a byte of
//! it is kept, and so that CONNECT, which anybody may send, has a bound of its own.

use super::fault::Fault;

/// Bytes of the remaining length.
const LENGTH_BYTES_MAX: usize = 4;

/// One whole packet in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// Type and flags.
    pub(super) first: u8,
    /// What follows the header.
    pub(super) body: &'a [u8],
    /// Bytes of all of it.
    pub(super) bytes: usize,
}

/// The packet at the start of `bytes`; `None` when it is not whole.
///
/// # Errors
/// Its length has five bytes, or is above `max` (header included).
pub(super) fn frame(bytes: &[u8], max: usize) -> Result<Option<Frame<'_>>, Fault> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
    let Some((len, width)) = var_int(rest)? else { return Ok(None) };
    let header = 1 + width;
    let whole = header + len as usize;
    if whole > max {
        return Err(Fault::TooLarge { bytes: whole, max });
    }
    Ok(bytes.get(header..whole).map(|body| Frame { first, body, bytes: whole }))
}

/// A number of one to four bytes, seven bits each, and its width; `None` when it is not whole.
fn var_int(bytes: &[u8]) -> Result<Option<(u32, usize)>, Fault> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(LENGTH_BYTES_MAX).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    if bytes.len() < LENGTH_BYTES_MAX { Ok(None) } else { Err(Fault::Malformed("a length of more than four bytes")) }
}

/// What is left to be read of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a>(pub(super) &'a [u8]);

impl<'a> Body<'a> {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The next `count` bytes.
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, left) = self.0.split_at_checked(count).ok_or(Fault::Malformed("it ends too early"))?;
        self.0 = left;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Never 0.
    pub(super) fn packet_id(&mut self) -> Result<u16, Fault> {
        match self.u16()? {
            0 => Err(Fault::Malformed("packet id 0")),
            id => Ok(id),
        }
    }

    /// Bytes after their length.
    pub(super) fn binary(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }

    /// A text: UTF-8 (so no surrogates) without NUL.
    pub(super) fn text(&mut self) -> Result<&'a str, Fault> {
        let text = core::str::from_utf8(self.binary()?).map_err(|_| Fault::Malformed("a text that is not UTF-8"))?;
        if text.as_bytes().contains(&0) {
            return Err(Fault::Malformed("a text with NUL in it"));
        }
        Ok(text)
    }

    /// What stands after its length as a number of one to four bytes: properties.
    pub(super) fn section(&mut self) -> Result<Body<'a>, Fault> {
        let (len, width) = var_int(self.0)?.ok_or(Fault::Malformed("it ends too early"))?;
        self.take(width)?;
        self.take(len as usize).map(Body)
    }

    /// # Errors
    /// Something follows.
    pub(super) fn end(self) -> Result<(), Fault> {
        if self.is_empty() { Ok(()) } else { Err(Fault::Malformed("bytes behind its end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_cut_off_when_it_is_whole_and_not_before() {
        let bytes = [0x30, 0x82, 0x01].into_iter().chain([7; 130]).chain([0xc0, 0]).collect::<Vec<u8>>();
        for cut in 0..133 {
            assert_eq!(frame(&bytes[..cut], 200), Ok(None), "{cut}");
        }
        let whole = frame(&bytes, 133).unwrap().unwrap();
        assert_eq!((whole.first, whole.body.len(), whole.bytes), (0x30, 130, 133));
        assert!(frame(&bytes[133..], 2).unwrap().unwrap().body.is_empty());
    }

    #[test]
    fn a_packet_that_is_too_large_is_known_from_its_length_alone() {
        assert_eq!(frame(&[0x30, 0x82, 0x01], 132), Err(Fault::TooLarge { bytes: 133, max: 132 }));
        assert_eq!(frame(&[0x30, 0xff, 0xff, 0xff, 0x7f], 1024).unwrap_err().code(), 0x95);
    }

    #[test]
    fn a_length_of_five_bytes_is_malformed_as_soon_as_its_fourth_byte_says_so() {
        assert_eq!(frame(&[0x30, 0x80, 0x80, 0x80], 1024), Ok(None));
        assert_eq!(frame(&[0x30, 0x80, 0x80, 0x80, 0x80], 1024).unwrap_err().code(), 0x81);
    }

    #[test]
    fn a_body_is_never_read_beyond_its_end() {
        assert!(Body(&[]).u8().is_err());
        assert!(Body(&[1]).u16().is_err());
        assert!(Body(&[0, 0]).packet_id().is_err());
        assert!(Body(&[0, 3, b'a', b'b']).text().is_err());
        assert!(Body(&[2, 0]).section().is_err());
        assert!(Body(&[0x80]).section().is_err());
        assert!(Body(&[0]).end().is_err());
        assert_eq!(Body(&[0, 2, b'a', b'b']).text(), Ok("ab"));
    }

    #[test]
    fn a_text_is_utf_8_without_nul_and_surrogates() {
        for wrong in [&[0, 1, 0xff][..], &[0, 1, 0], &[0, 3, 0xed, 0xa0, 0x80], &[0, 2, 0xc0, 0x80]] {
            assert_eq!(Body(wrong).text().unwrap_err().code(), 0x81, "{wrong:?}");
        }
    }
}
