//! Damaged databases are put aside, not deleted: somebody may want to look.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::agent::clock;

use super::files;

/// Databases kept. More would fill a small disk; the oldest goes first.
const KEPT_MAX: usize = 3;
const NAME: &str = "quarantine";

/// A name for people, decided once when damage was found; nothing depends on it.
fn time() -> String {
    let now = jiff::Timestamp::from_millisecond(clock::wall().as_millis()).unwrap_or_default();
    now.strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Moves the directory `damaged` to `dir/quarantine/<time>`, in one step, and
/// says where it is.
pub(super) fn put_aside(dir: &Path, damaged: &Path) -> io::Result<PathBuf> {
    let quarantine = dir.join(NAME);
    if fs::symlink_metadata(&quarantine).is_ok_and(|found| !found.is_dir()) {
        fs::remove_file(&quarantine)?;
    }
    fs::create_dir_all(&quarantine)?;
    let mut kept = kept(&quarantine)?;
    while kept.len() >= KEPT_MAX {
        fs::remove_dir_all(kept.remove(0))?;
    }
    let time = time();
    // The clock may stand still or jump back: a taken name gets a number.
    let place = (0..=KEPT_MAX)
        .map(|n| quarantine.join(if n == 0 { time.clone() } else { format!("{time}-{n}") }))
        .find(|place| !place.exists())
        .expect("fewer than KEPT_MAX names are taken");
    files::step();
    fs::rename(damaged, &place)?;
    files::step();
    files::sync_dir(&quarantine)?;
    files::sync_dir(dir)?;
    Ok(place)
}

/// Deletes everything put aside; true if that may have freed space.
pub(super) fn clear(dir: &Path) -> bool {
    fs::remove_dir_all(dir.join(NAME)).is_ok()
}

/// The oldest first, as far as the clock was right.
fn kept(quarantine: &Path) -> io::Result<Vec<PathBuf>> {
    let mut kept = fs::read_dir(quarantine)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    kept.sort();
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_are_kept_and_each_under_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..5 {
            let damaged = dir.path().join("pages");
            fs::create_dir(&damaged).unwrap();
            fs::write(damaged.join("n"), n.to_string()).unwrap();
            let place = put_aside(dir.path(), &damaged).unwrap();
            assert!(!damaged.exists());
            assert_eq!(fs::read_to_string(place.join("n")).unwrap(), n.to_string());
        }
        assert_eq!(kept(&dir.path().join(NAME)).unwrap().len(), 3);
        assert!(clear(dir.path()));
        assert!(!clear(dir.path()));
    }
}
