//! Where the blocks lie in the file of one database, found by reading the file
//! from front to back.
//!
//! Not sled's own index: to open a database costs some MiB of memory and writes to
//! the medium, and what sled cannot make sense of in a damaged one, it overwrites.
//! A frame is written once and says what it is, so any copy of it is as good as any
//! other.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use super::frame::{FRAME_BYTES_MAX, Header, MAGIC, frame_len, unpack};

/// Bytes looked at in one go, beside the longest frame.
const STEP: usize = 256 * 1024;
/// Bytes of a file looked at: a damaged length must not stop the outbox.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
const PAGE: usize = 4_096;

/// The frames of one database.
#[derive(Debug)]
pub(super) struct Index {
    file: File,
    places: BTreeMap<(u64, u16), Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    len: u32,
    parts: u16,
}

impl Index {
    /// Reads the file at `path` through. Pages of it that cannot be read count as zeros.
    ///
    /// # Errors
    /// It cannot be opened, or nothing of it can be read.
    pub(super) fn read(path: &Path, lane: u8) -> io::Result<Index> {
        // Opening a pipe waits for ever.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("is no file"));
        }
        let file = File::open(path)?;
        let end = file.metadata()?.len().min(FILE_BYTES_MAX);
        let mut places = BTreeMap::new();
        let mut window = vec![0; STEP + FRAME_BYTES_MAX];
        let mut pages_read = 0;
        let mut last_error = None;
        let mut offset = 0;
        while offset < end {
            let len = window.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            let window = &mut window[..len];
            if file.read_exact_at(window, offset).is_ok() {
                pages_read += 1;
            } else {
                for (at, page) in (offset..).step_by(PAGE).zip(window.chunks_mut(PAGE)) {
                    page.fill(0);
                    match file.read_exact_at(page, at) {
                        Ok(()) => pages_read += 1,
                        Err(error) => last_error = Some(error),
                    }
                }
            }
            offset += note(&mut places, lane, offset, window, len.min(STEP)) as u64;
        }
        match last_error {
            Some(error) if pages_read == 0 => Err(error),
            _ => Ok(Index { file, places }),
        }
    }

    /// Puts a block into `into`; false when a part of it is missing or not what it was.
    ///
    /// # Errors
    /// The medium does not give a part that was there.
    pub(super) fn block(&self, lane: u8, number: u64, into: &mut Vec<u8>) -> io::Result<bool> {
        let mut head: Option<Header> = None;
        let mut stored = Vec::new();
        let mut value = Vec::new();
        let mut part = 0;
        loop {
            let Some(place) = self.places.get(&(number, part)) else { return Ok(false) };
            value.resize(place.len as usize, 0);
            self.file.read_exact_at(&mut value, place.offset)?;
            let Some((header, payload)) = Header::read_prefix(&value) else { return Ok(false) };
            let ours = header.lane == lane && header.number == number && header.part == part;
            let whole = *head.get_or_insert(header);
            if !ours || (whole.whole, whole.parts, whole.packed) != (header.whole, header.parts, header.packed) {
                return Ok(false);
            }
            stored.extend_from_slice(payload);
            part += 1;
            if part == header.parts {
                break;
            }
        }
        let Some(block) = head.and_then(|head| unpack(head, stored)) else { return Ok(false) };
        *into = block;
        Ok(true)
    }

    /// Whether it is of the file that has this name now.
    pub(super) fn is_of(&self, path: &Path) -> bool {
        let identity = |found: Metadata| (found.dev(), found.ino());
        let ours = self.file.metadata().map(identity).ok();
        ours.is_some() && ours == std::fs::metadata(path).map(identity).ok()
    }

    /// True when every part of the block was found.
    pub(super) fn has(&self, number: u64) -> bool {
        let Some(first) = self.places.get(&(number, 0)) else { return false };
        (1..first.parts).all(|part| self.places.contains_key(&(number, part)))
    }

    /// The numbers of which something was found, in order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        let mut before = None;
        self.places.keys().filter_map(move |(number, _)| (before.replace(*number) != Some(*number)).then_some(*number))
    }

    /// The highest number of which something was found.
    pub(super) fn last(&self) -> Option<u64> {
        self.places.last_key_value().map(|((number, _), _)| *number)
    }
}

/// Looks at the first `judged` places of `bytes`, which lie at `offset`. Returns how
/// many bytes were dealt with: more than `judged` when a frame reaches over it.
fn note(places: &mut BTreeMap<(u64, u16), Place>, lane: u8, offset: u64, bytes: &[u8], judged: usize) -> usize {
    let mut at = 0;
    while at < judged {
        let Some(found) = bytes[at..].iter().position(|byte| *byte == MAGIC[0]) else { return judged };
        at += found;
        if at >= judged {
            return judged;
        }
        let Some((header, payload)) = Header::read_prefix(&bytes[at..]) else {
            at += 1;
            continue;
        };
        let len = frame_len(payload);
        if header.lane == lane {
            let len = u32::try_from(len).expect("at most FRAME_BYTES_MAX");
            let place = Place { offset: offset + at as u64, len, parts: header.parts };
            places.insert((header.number, header.part), place);
        }
        at += len;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::frame::frames;
    use super::*;

    #[test]
    fn frames_are_found_wherever_they_lie_and_only_those_of_the_lane() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let mut bytes = vec![MAGIC[0]; STEP - 5];
        for (lane, number) in [(1, 7), (1, 5), (2, 6), (1, 9)] {
            bytes.extend(frames(lane, number, &[u8::try_from(number).unwrap(); 50]).unwrap().concat());
            bytes.extend([MAGIC[0]; 3]);
        }
        std::fs::write(&path, &bytes).unwrap();
        let index = Index::read(&path, 1).unwrap();
        assert_eq!(index.numbers().collect::<Vec<_>>(), [5, 7, 9]);
        assert_eq!(index.last(), Some(9));
        let mut block = Vec::new();
        assert!(index.has(7) && index.block(1, 7, &mut block).unwrap());
        assert_eq!(block, [7; 50]);
        assert!(!index.has(6) && !index.block(1, 6, &mut block).unwrap());
    }

    #[test]
    fn what_changed_behind_the_index_is_not_given_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        std::fs::write(&path, frames(1, 7, &[1; 50]).unwrap().concat()).unwrap();
        let index = Index::read(&path, 1).unwrap();
        std::fs::write(&path, frames(1, 8, &[1; 50]).unwrap().concat()).unwrap();
        assert!(!index.block(1, 7, &mut Vec::new()).unwrap());
    }
}
