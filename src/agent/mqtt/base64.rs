//! Base64, RFC 4648 with padding: for the two places in HTTP that want it, and for keys and
//! signatures.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes`.
pub(in crate::agent) fn push_base64(out: &mut String, bytes: &[u8]) {
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, index| bits << 8 | usize::from(three.get(index).copied().unwrap_or(0)));
        for digit in 0..4 {
            let symbol = if digit <= three.len() { DIGITS[bits >> (18 - 6 * digit) & 63] } else { b'=' };
            out.push(char::from(symbol));
        }
    }
}

/// The bytes, if `text` is what [`push_base64`] writes for them: padded, without white space, and
/// no bit is set that stands for nothing. So one signature has one text.
pub(in crate::agent) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let groups = text.as_bytes().chunks_exact(4);
    if !groups.remainder().is_empty() {
        return None;
    }
    let last = groups.len().saturating_sub(1);
    for (index, four) in groups.enumerate() {
        let padding = four.iter().rev().take_while(|symbol| **symbol == b'=').count();
        if padding > 2 || (padding > 0 && index != last) {
            return None;
        }
        let mut bits = 0_u32;
        for symbol in &four[..4 - padding] {
            let digit = DIGITS.iter().position(|digit| digit == symbol)?;
            bits = bits << 6 | u32::try_from(digit).ok()?;
        }
        bits <<= 6 * padding;
        let [_, three @ ..] = bits.to_be_bytes();
        if three[3 - padding..].iter().any(|unused| *unused != 0) {
            return None;
        }
        bytes.extend_from_slice(&three[..3 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (text, expected) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}?", "w78/"),
        ] {
            let mut out = String::new();
            push_base64(&mut out, text.as_bytes());
            assert_eq!(out, expected, "{text}");
            assert_eq!(from_base64(expected).as_deref(), Some(text.as_bytes()), "{expected}");
        }
    }

    #[test]
    fn only_the_one_text_of_some_bytes_is_read() {
        for wrong in ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "====", "Z===", "Zm9v\n", "Zm 9", "Zm9-"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
