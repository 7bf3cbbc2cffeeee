//! Base64, RFC 4648 with padding: one direction, for the two places in HTTP that want it.

/// Appends `bytes`.
pub(super) fn push_base64(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, index| bits << 8 | usize::from(three.get(index).copied().unwrap_or(0)));
        for digit in 0..4 {
            let symbol = if digit <= three.len() { DIGITS[bits >> (18 - 6 * digit) & 63] } else { b'=' };
            out.push(char::from(symbol));
        }
    }
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
        }
    }
}
