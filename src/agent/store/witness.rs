//! The witness: a small file beside the pages that says how far they came.
//!
//! ```text
//! tidegate-witness 1
//! epoch 3
//! generation 17
//! seq 1234
//! lost no
//! crc 89abcdef        ← over the lines before it
//! ```
//!
//! sled falls back silently to an older state when the end of its file is
//! damaged. The witness is written by other means (a file replaced in one step,
//! at each snapshot and at a clean stop), so a state older than it is proof.
//! `lost yes`: damage was found, and no snapshot has been taken since. It keeps
//! the finding alive when the power goes before the engine could act on it.

use std::path::Path;
use std::{fs, io};

use super::files;
use crate::engine::ring::Mark;

const NAME: &str = "witness";
const TITLE: &str = "tidegate-witness 1\n";

/// What the file says.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Witness {
    /// The engine's epoch at that time.
    pub(super) epoch: u64,
    /// The state that was durable.
    pub(super) mark: Mark,
    /// Damage was found, and not answered by a snapshot yet.
    pub(super) lost: bool,
}

/// What there is to learn from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Testimony {
    /// No snapshot was ever taken, or not yet witnessed.
    Nothing,
    /// There is a file, and it cannot be believed.
    Damaged,
    /// The state was at least this far.
    Says(Witness),
}

impl Testimony {
    /// Reads the file in `dir`.
    pub(super) fn read(dir: &Path) -> io::Result<Testimony> {
        let path = dir.join(NAME);
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Ok(Testimony::Damaged);
        }
        match fs::read(path) {
            Ok(bytes) => {
                let witness = std::str::from_utf8(&bytes).ok().and_then(Witness::parse);
                Ok(witness.map_or(Testimony::Damaged, Testimony::Says))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Testimony::Nothing),
            Err(error) => Err(error),
        }
    }

    /// The state that was certainly reached.
    pub(super) fn mark(self) -> Mark {
        match self {
            Testimony::Says(witness) => witness.mark,
            Testimony::Nothing | Testimony::Damaged => Mark::default(),
        }
    }
}

impl Witness {
    /// Replaces the file.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        files::replace(dir, NAME, self.text().as_bytes())
    }

    fn text(&self) -> String {
        let Witness { epoch, mark: Mark { generation, seq }, lost } = self;
        let lost = if *lost { "yes" } else { "no" };
        let body = format!("{TITLE}epoch {epoch}\ngeneration {generation}\nseq {seq}\nlost {lost}\n");
        let crc = crc32fast::hash(body.as_bytes());
        format!("{body}crc {crc:08x}\n")
    }

    fn parse(text: &str) -> Option<Witness> {
        let mut lines = text.strip_prefix(TITLE)?.lines();
        let mut value = |name| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let epoch = value("epoch")?.parse().ok()?;
        let generation = value("generation")?.parse().ok()?;
        let seq = value("seq")?.parse().ok()?;
        let lost = value("lost")? == "yes";
        let witness = Witness { epoch, mark: Mark { generation, seq }, lost };
        // Written back it is the same text, checksum included, or it is damaged.
        (witness.text() == text).then_some(witness)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Witness {
        Witness { epoch: 3, mark: Mark { generation: 17, seq: 1234 }, lost: true }
    }

    #[test]
    fn it_reads_back_and_replaces_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Testimony::read(dir.path()).unwrap(), Testimony::Nothing);
        Witness::default().write(dir.path()).unwrap();
        example().write(dir.path()).unwrap();
        assert_eq!(Testimony::read(dir.path()).unwrap(), Testimony::Says(example()));
        fs::write(dir.path().join(NAME), [0xff]).unwrap();
        assert_eq!(Testimony::read(dir.path()).unwrap(), Testimony::Damaged);
    }

    #[test]
    fn any_damage_is_noticed() {
        let text = example().text();
        assert_eq!(Witness::parse(&text), Some(example()));
        for at in 0..text.len() {
            assert_eq!(Witness::parse(&text[..at]), None, "cut at {at}");
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(Witness::parse(&String::from_utf8(bytes).unwrap()), None, "flipped at {at}");
        }
    }
}
