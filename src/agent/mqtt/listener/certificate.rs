//! What the TLS library, which has checked a certificate, does not tell: the common name in a
//! client's, and when our own ends. A walk through DER (X.690; the fields: RFC 5280, 4.1):
//!
//! ```text
//! Certificate { tbs { [0] version?, serial, algorithm, issuer, VALIDITY, SUBJECT, … }, … }
//! VALIDITY { not before, NOT AFTER }
//! SUBJECT { set { (2.5.4.3, text) }, … }
//! ```

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::model::time::WallTime;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
/// `UTF8String`, `PrintableString`, `IA5String`.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.4.3
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// As a user name.
const NAME_BYTES_MAX: usize = 128;

/// The last common name of the subject; `None`: there is none that could be a user name.
pub(super) fn common_name(certificate: &[u8]) -> Option<String> {
    let (_validity, _, rest) = any(from_validity(certificate)?)?;
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

/// The last moment at which the certificate counts.
pub(super) fn not_after(certificate: &[u8]) -> Option<WallTime> {
    let (validity, _) = value(from_validity(certificate)?, SEQUENCE)?;
    let (_not_before, _, rest) = any(validity)?;
    let (tag, text, _) = any(rest)?;
    let text = core::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let written = match tag {
        // Years in two digits are those from 1950 to 2049.
        UTC_TIME if text.len() == 12 => {
            let century = if text.get(..2)?.parse::<u8>().ok()? >= 50 { "19" } else { "20" };
            format!("{century}{text}")
        }
        GENERALIZED_TIME if text.len() == 14 => text.to_owned(),
        _ => return None,
    };
    let moment = DateTime::strptime("%Y%m%d%H%M%S", &written).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(WallTime::from_millis(moment.timestamp().as_millisecond()))
}

/// The certificate from its validity on.
fn from_validity(certificate: &[u8]) -> Option<&[u8]> {
    let (tbs, _) = value(certificate, SEQUENCE).and_then(|(inside, _)| value(inside, SEQUENCE))?;
    let mut rest = tbs;
    if rest.first() == Some(&VERSION) {
        rest = any(rest)?.2;
    }
    for _serial_algorithm_issuer in 0..3 {
        rest = any(rest)?.2;
    }
    Some(rest)
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
        certificate_until(subject, &element(UTC_TIME, b"491231235959Z"))
    }

    fn certificate_until(subject: &[u8], not_after: &[u8]) -> Vec<u8> {
        let issuer = element(SEQUENCE, &name(COMMON_NAME, 0x0c, b"the authority"));
        let tbs = [
            element(VERSION, &element(0x02, &[2])),
            element(0x02, &[1]),
            element(SEQUENCE, &[]),
            issuer,
            element(SEQUENCE, &[&element(UTC_TIME, b"200101000000Z"), not_after].concat()),
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
    fn the_end_of_a_certificate_is_found() {
        let ends = |tag: u8, text: &[u8]| {
            not_after(&certificate_until(&[], &element(tag, text))).map(|at| at.as_millis() / 1_000)
        };
        assert_eq!(ends(UTC_TIME, b"261201120000Z"), Some(1_796_126_400));
        assert_eq!(ends(UTC_TIME, b"500101000000Z"), Some(-631_152_000));
        assert_eq!(ends(GENERALIZED_TIME, b"20500101000000Z"), Some(2_524_608_000));
        for (tag, text) in
            [(UTC_TIME, &b"261301120000Z"[..]), (UTC_TIME, b"26"), (0x13, b"261201120000Z"), (UTC_TIME, b"")]
        {
            assert_eq!(ends(tag, text), None, "{text:?}");
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
            let _ = (common_name(&damaged), not_after(&damaged));
        }
    }
}
