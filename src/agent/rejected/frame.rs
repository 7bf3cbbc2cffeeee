//! The bytes of a ring file: one frame after the other, the oldest first.
//!
//! ```text
//! "tgR" | version 1 | length u32 | crc32 u32 | head: one line of JSON \n | payload
//!                                 └ of what follows, as the length
//! ```
//!
//! Numbers are little-endian. A frame that cannot be read, or is of another version, is skipped:
//! the next one begins with its mark. So a torn or damaged frame costs itself alone.

use serde::{Deserialize, Serialize};

use crate::engine::samples::{Part, Sample};
use crate::model::ids::Name;
use crate::model::limits::SAMPLE_BYTES_MAX;
use crate::model::record::RejectReason;
use crate::model::time::WallTime;

const MARK: &[u8; 4] = b"tgR\x01";
const HEADER: usize = 12;
/// Beyond it a length is damage: topic and payload, each byte of the topic escaped as six.
const BODY_MAX: usize = 8 * SAMPLE_BYTES_MAX;
/// Bytes of a hint that are kept.
const HINT_MAX: usize = 512;

/// A sample on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    /// Its number among those of its stream and reason.
    pub number: u64,
    /// It was handed to the engine, and what became of it is not known: it may have been taken in.
    pub in_doubt: bool,
    /// What came.
    pub sample: Sample,
}

#[derive(Serialize, Deserialize)]
struct Head {
    n: u64,
    topic: String,
    received_ms: i64,
    retain: bool,
    payload_bytes: usize,
    whole: bool,
    part: Portion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    in_doubt: bool,
}

/// [`Part`] as it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Portion {
    Whole,
    Records { of: u32, places: u64 },
    Unknown,
}

/// What a file holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The oldest first.
    pub(super) kept: Vec<Kept>,
    /// Some of it cannot be read.
    pub(super) damaged: bool,
}

/// Appends one frame.
pub(super) fn write(out: &mut Vec<u8>, kept: &Kept) {
    let Kept { number, in_doubt, sample } = kept;
    let hint = sample.hint.as_deref().map(|hint| hint[..hint.floor_char_boundary(HINT_MAX)].to_owned());
    let part = match sample.part {
        Part::Whole => Portion::Whole,
        Part::Records { of, places } => Portion::Records { of, places },
        Part::Unknown => Portion::Unknown,
    };
    let head = Head {
        n: *number,
        topic: sample.topic.clone(),
        received_ms: sample.received.as_millis(),
        retain: sample.retain,
        payload_bytes: sample.payload_bytes,
        whole: sample.is_whole,
        part,
        hint,
        in_doubt: *in_doubt,
    };
    let mut body = serde_json::to_vec(&head).expect("plain data, and memory does not fail");
    body.push(b'\n');
    body.extend_from_slice(&sample.payload);
    let length = u32::try_from(body.len()).expect("a sample is some KiB");
    out.extend_from_slice(MARK);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    out.extend_from_slice(&body);
}

/// All frames that can be read, of a file of this stream and reason.
pub(super) fn read(bytes: &[u8], stream: &Name, reason: RejectReason) -> Found {
    let mut found = Found::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        if let Some((kept, length)) = frame(rest, stream, reason) {
            found.kept.push(kept);
            rest = &rest[length..];
        } else {
            found.damaged = true;
            let next = rest[1..].windows(MARK.len()).position(|window| window == MARK);
            rest = next.map_or(&[][..], |at| &rest[1 + at..]);
        }
    }
    found
}

/// The frame that `bytes` begin with, and its length.
fn frame(bytes: &[u8], stream: &Name, reason: RejectReason) -> Option<(Kept, usize)> {
    let (header, rest) = bytes.split_at_checked(HEADER)?;
    let number = |at: usize| header.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    if !header.starts_with(MARK) {
        return None;
    }
    let length = usize::try_from(number(4)?).ok().filter(|length| *length <= BODY_MAX)?;
    let body = rest.get(..length)?;
    if crc32fast::hash(body) != number(8)? {
        return None;
    }
    let line = body.iter().position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&body[..line]).ok()?;
    let sample = Sample {
        stream: stream.clone(),
        reason,
        topic: head.topic,
        received: WallTime::from_millis(head.received_ms),
        retain: head.retain,
        payload: body[line + 1..].to_vec(),
        payload_bytes: head.payload_bytes,
        is_whole: head.whole,
        part: match head.part {
            Portion::Whole => Part::Whole,
            Portion::Records { of, places } => Part::Records { of, places },
            Portion::Unknown => Part::Unknown,
        },
        hint: head.hint,
    };
    Some((Kept { number: head.n, in_doubt: head.in_doubt, sample }, HEADER + length))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    pub(in super::super) fn sample(stream: &str, reason: RejectReason, payload: &[u8]) -> Sample {
        Sample {
            stream: name(stream),
            reason,
            topic: "d/ä\n".to_owned(),
            received: WallTime::from_millis(1_700_000_000_000),
            retain: true,
            payload: payload.to_owned(),
            payload_bytes: payload.len(),
            is_whole: true,
            part: Part::Records { of: 64, places: u64::MAX - 1 },
            hint: Some("looks like seconds".to_owned()),
        }
    }

    fn kept(number: u64) -> Kept {
        let payload = [b"\ntgR\x00\n".as_slice(), &[0xff; 20]].concat();
        Kept { number, in_doubt: number % 2 == 1, sample: sample("s", RejectReason::NotJson, &payload) }
    }

    fn numbers(bytes: &[u8]) -> (Vec<u64>, bool) {
        let found = read(bytes, &name("s"), RejectReason::NotJson);
        assert!(found.kept.iter().all(|found| *found == kept(found.number)), "what is read is what was written");
        (found.kept.iter().map(|kept| kept.number).collect(), found.damaged)
    }

    fn file() -> (Vec<u8>, usize) {
        let mut bytes = Vec::new();
        let mut length = 0;
        for number in 1..=3 {
            write(&mut bytes, &kept(number));
            length = if number == 1 { bytes.len() } else { length };
        }
        (bytes, length)
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(numbers(&file().0), (vec![1, 2, 3], false));
        assert_eq!(numbers(b""), (vec![], false));
    }

    #[test]
    fn a_damaged_byte_costs_its_frame_alone_wherever_it_is() {
        let (bytes, length) = file();
        for at in length..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let (numbers, said) = numbers(&damaged);
            assert!(said && numbers.len() == 2 && numbers[0] == 1, "byte {at}: {numbers:?}");
        }
    }

    #[test]
    fn a_file_that_was_cut_keeps_what_is_before_the_cut() {
        let borders = [1, 2, 3].map(|count| {
            let mut bytes = Vec::new();
            (1..=count).for_each(|number| write(&mut bytes, &kept(number)));
            bytes.len()
        });
        let (bytes, _) = file();
        for end in 0..=bytes.len() {
            let (numbers, said) = numbers(&bytes[..end]);
            assert_eq!(numbers.len(), borders.iter().filter(|border| **border <= end).count(), "{end}");
            assert_eq!(said, end > 0 && !borders.contains(&end), "{end}");
        }
    }

    #[test]
    fn frames_of_another_version_are_skipped() {
        let (mut bytes, length) = file();
        bytes[3] = 2;
        assert_eq!(numbers(&bytes), (vec![2, 3], true));
        let mut after = file().0;
        after[length + 3] = 9;
        assert_eq!(numbers(&after), (vec![1, 3], true));
    }
}
