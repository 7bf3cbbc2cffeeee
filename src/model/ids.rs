//! Identifiers: inline, bounded, checked once.

use core::borrow::Borrow;
use core::fmt;

use super::limits::{DEVICE_ID_BYTES, NAME_BYTES};

/// A device as the field names it, kept verbatim. 1 to 128 bytes of UTF-8
/// without control characters; stored inline.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(heapless::String<DEVICE_ID_BYTES>);

/// A name from the configuration: gateway, stream, window, field. 1 to 64
/// bytes of UTF-8 without control characters; stored inline.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(heapless::String<NAME_BYTES>);

/// A field of one stream: its place in the stream's field table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FieldIx(pub u16);

/// A state (a text or bool value) of one stream: its place in the stream's table of states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StateIx(pub u16);

macro_rules! inline_id {
    ($name:ident) => {
        impl $name {
            /// `None` when empty, too long, or with control characters.
            pub fn new(text: &str) -> Option<$name> {
                if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
                    return None;
                }
                heapless::String::try_from(text).ok().map($name)
            }

            /// The text, verbatim.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }
    };
}

inline_id!(DeviceId);
inline_id!(Name);

/// Appends `text` percent-encoded outside `[A-Za-z0-9._~-]` (RFC 3986's
/// unreserved set): the form every part of an id and of a topic has.
///
/// # Errors
/// Only what `out` gives.
pub fn push_escaped(out: &mut dyn fmt::Write, text: &str) -> fmt::Result {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| !plain(byte)) {
        out.write_str(&rest[..at])?;
        let character = rest[at..].chars().next().expect("a byte was found there");
        for byte in &rest.as_bytes()[at..at + character.len_utf8()] {
            out.write_char('%')?;
            out.write_char(char::from(HEX[usize::from(byte >> 4)]))?;
            out.write_char(char::from(HEX[usize::from(byte & 15)]))?;
        }
        rest = &rest[at + character.len_utf8()..];
    }
    out.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_verbatim_bounded_and_printable() {
        assert_eq!(DeviceId::new("a b/ü").expect("valid").as_str(), "a b/ü");
        assert_eq!(DeviceId::new(""), None);
        assert_eq!(DeviceId::new("a\nb"), None);
        assert!(DeviceId::new(&"x".repeat(128)).is_some());
        assert_eq!(DeviceId::new(&"x".repeat(129)), None);
        assert_eq!(Name::new(&"x".repeat(65)), None);
    }

    #[test]
    fn ids_are_escaped_so_that_no_part_can_break_out_of_its_place() {
        let mut out = String::new();
        push_escaped(&mut out, "a/b+#%~ü").expect("memory does not fail");
        assert_eq!(out, "a%2Fb%2B%23%25~%C3%BC");
    }
}
