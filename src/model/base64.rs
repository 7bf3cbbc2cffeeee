//! Base64, RFC 4648 with padding: for HTTP, which wants it in two places, and for keys and signatures.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends `bytes`.
pub fn push_base64(out: &mut String, bytes: &[u8]) {
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_usize, |bits, index| bits << 8 | usize::from(three.get(index).copied().unwrap_or(0)));
        for digit in 0..4 {
            let symbol = if digit <= three.len() { DIGITS[bits >> (18 - 6 * digit) & 63] } else { b'=' };
            out.push(char::from(symbol));
        }
    }
}

/// The bytes that `text` stands for; `None` when it is not what [`push_base64`] would write.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let digits = four.iter().position(|symbol| *symbol == b'=').unwrap_or(4);
        let mut bits = 0_u32;
        for symbol in four.get(..digits).filter(|_| four.len() == 4 && digits >= 2)? {
            let digit = DIGITS.iter().position(|digit| digit == symbol)?;
            bits = bits << 6 | u32::try_from(digit).ok()?;
        }
        bits <<= 6 * (4 - digits);
        bytes.extend_from_slice(bits.to_be_bytes().get(1..digits)?);
    }
    let mut again = String::with_capacity(text.len());
    push_base64(&mut again, &bytes);
    (again == text).then_some(bytes)
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
            assert_eq!(from_base64(expected).as_deref(), Some(text.as_bytes()), "{text}");
        }
        for wrong in ["Z", "Zg", "Zg=", "Zh==", "Zg==Zg==", "=Zg=", "Zm9v\n", "Zm9v====", "Zm-v"] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }
}
