//! How far the pages have come, to the last commit: what the witness (witness.rs) says of
//! the last snapshot, said after every commit.
//!
//! ```text
//! tidegate-progress 1 generation 17 seq 1234 crc 89abcdef      padded to one sector
//! ```
//!
//! Without it, damage at the end of the data file that takes commits since the last
//! snapshot looks like a commit that never finished: acknowledged readings would be gone
//! without a word.
//!
//! One sector is overwritten in place and never synced, since it claims only what is
//! durable already: the kernel writes it when it sees fit, every half minute or so. After
//! a crash it is exact; after a power cut it is at most that much behind. Whatever goes
//! wrong with it is no trouble: then it says nothing, and the witness stands alone.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::files;
use crate::engine::ring::Mark;

const NAME: &str = "progress";
const TITLE: &str = "tidegate-progress 1";
/// Written as a whole or not at all.
const SECTOR: usize = 512;

/// The file, kept open.
#[derive(Debug)]
pub(super) struct Progress(Option<File>);

impl Progress {
    /// Opens or creates the file in `dir`.
    pub(super) fn open(dir: &Path) -> Progress {
        let path = dir.join(NAME);
        let file =
            files::make_way(&path).and_then(|()| File::options().create(true).truncate(false).write(true).open(path));
        Progress(file.ok())
    }

    /// The state that was certainly reached, as far as the file in `dir` knows.
    pub(super) fn read(dir: &Path) -> Mark {
        let path = dir.join(NAME);
        // Whatever else has that name is not read: a pipe waits for ever.
        let bytes = if path.is_file() { fs::read(path).ok() } else { None };
        bytes.as_deref().and_then(parse).unwrap_or_default()
    }

    /// `mark` is durable.
    pub(super) fn note(&self, mark: Mark) {
        if let Some(file) = &self.0 {
            let mut sector = text(mark).into_bytes();
            sector.resize(SECTOR, b' ');
            // On an error it says less, or nothing.
            _ = file.write_all_at(&sector, 0);
        }
    }
}

fn text(Mark { generation, seq }: Mark) -> String {
    let body = format!("{TITLE} generation {generation} seq {seq}");
    let crc = crc32fast::hash(body.as_bytes());
    format!("{body} crc {crc:08x}\n")
}

fn parse(bytes: &[u8]) -> Option<Mark> {
    let said = std::str::from_utf8(bytes).ok()?.trim_end_matches(' ');
    let mut words = said.strip_prefix(TITLE)?.split_ascii_whitespace();
    let mut value = |name| words.next().filter(|word| *word == name).and_then(|_| words.next()?.parse().ok());
    let mark = Mark { generation: value("generation")?, seq: value("seq")? };
    // Written back it is the same text, checksum included, or it is damaged.
    (text(mark) == said).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_over_a_longer_one() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Progress::read(dir.path()), Mark::default());
        for mark in [Mark { generation: 17, seq: u64::MAX }, Mark { generation: 2, seq: 3 }] {
            Progress::open(dir.path()).note(mark);
            assert_eq!(Progress::read(dir.path()), mark);
        }
    }

    #[test]
    fn damaged_it_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        Progress::open(dir.path()).note(Mark { generation: 17, seq: 1_234 });
        let whole = fs::read(dir.path().join(NAME)).unwrap();
        let end = whole.iter().position(|byte| *byte == b'\n').unwrap();
        for at in 0..=end {
            assert_eq!(parse(&whole[..at]), None, "cut at {at}");
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes), None, "flipped at {at}");
        }
    }

    #[test]
    fn what_is_in_its_place_is_no_trouble() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(NAME)).unwrap();
        assert_eq!(Progress::read(dir.path()), Mark::default());
        Progress::open(dir.path()).note(Mark { generation: 1, seq: 2 });
        assert_eq!(Progress::read(dir.path()), Mark { generation: 1, seq: 2 });
    }
}
