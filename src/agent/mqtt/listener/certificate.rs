//! The common name in a client's certificate: the one thing of it that the TLS library, which
//! has checked it, does not tell. A walk through DER (X.690) to the subject (RFC 5280, 4.1):
//!
//! ```text
//! Certificate { tbs { [0] version?, serial, algorithm, issuer, validity, SUBJECT, … }, … }
//! SUBJECT { set { (2.5.4.3, text) }, … }
//! ```

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// `UTF8String`, `PrintableString`, `IA5String`.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.4.3
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// As a user name.
const NAME_BYTES_MAX: usize = 128;

/// The last common name of the subject; `None`: there is none that could be a user name.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let (tbs, _) = value(certificate, SEQUENCE).and_then(|(inside, _)| value(inside, SEQUENCE))?;
    let mut rest = tbs;
    if rest.first() == Some(&VERSION) {
        rest = any(rest)?.2;
    }
    for _serial_algorithm_issuer_validity in 0..4 {
        rest = any(rest)?.2;
    }
    let (mut names, _) = value(rest, SEQUENCE)?;
    let mut found = None;
    while !names.is_empty() {
        let (mut set, after) = value(names, SET)?;
        names = after;
        while !set.is_empty() {
            let (pair, after) = value(set, SEQUENCE)?;
            set = after;
            let (id, text) = value(pair, OBJECT_ID)?;
            if id == COMMON_NAME {
                let (tag, text, _) = any(text)?;
                found = TEXTS.contains(&tag).then(|| core::str::from_utf8(text).ok()).flatten();
            }
        }
    }
    let is_name = |name: &&str| !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control);
    found.filter(is_name).map(str::to_owned)
}

/// The content of the first element, which has to have this tag, and what follows it.
fn value(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// Tag, content, and what follows.
fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = if *first < 0x80 {
        (usize::from(*first), rest)
    } else {
        let (digits, rest) =
            rest.split_at_checked(usize::from(*first & 0x7f)).filter(|(digits, _)| digits.len() <= 4)?;
        (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        if content.len() < 0x80 {
            bytes.push(u8::try_from(content.len()).expect("short"));
        } else {
            bytes.extend([0x82, 0, 0]);
            let length = u16::try_from(content.len()).expect("not that long").to_be_bytes();
            bytes[2..4].copy_from_slice(&length);
        }
        bytes.extend_from_slice(content);
        bytes
    }

    fn name(id: [u8; 3], tag: u8, text: &[u8]) -> Vec<u8> {
        let pair = [element(OBJECT_ID, &id), element(tag, text)].concat();
        element(SET, &element(SEQUENCE, &pair))
    }

    fn certificate(subject: &[u8]) -> Vec<u8> {
        let issuer = element(SEQUENCE, &name(COMMON_NAME, 0x0c, b"the authority"));
        let tbs = [
            element(VERSION, &element(0x02, &[2])),
            element(0x02, &[1]),
            element(SEQUENCE, &[]),
            issuer,
            element(SEQUENCE, &[]),
            element(SEQUENCE, subject),
            element(SEQUENCE, &[0; 200]),
        ];
        element(SEQUENCE, &[element(SEQUENCE, &tbs.concat()), element(SEQUENCE, &[])].concat())
    }

    #[test]
    fn the_common_name_of_the_subject_is_found() {
        let subject = [name([0x55, 4, 10], 0x0c, b"Plant"), name(COMMON_NAME, 0x13, b"press-7")].concat();
        assert_eq!(common_name(&certificate(&subject)).as_deref(), Some("press-7"));
        assert_eq!(common_name(&certificate(&name([0x55, 4, 10], 0x0c, b"Plant"))), None);
        for bad in [&b""[..], b"a\nb", &[0xff], &[b'x'; 200]] {
            assert_eq!(common_name(&certificate(&name(COMMON_NAME, 0x0c, bad))), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_cut_off_or_damaged_has_none() {
        let whole = certificate(&name(COMMON_NAME, 0x0c, b"press-7"));
        for end in 0..whole.len() - 210 {
            assert_eq!(common_name(&whole[..end]), None, "{end}");
        }
        for place in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[place] ^= 0xff;
            // Whatever it is: no panic.
            let _ = common_name(&damaged);
        }
    }
}
