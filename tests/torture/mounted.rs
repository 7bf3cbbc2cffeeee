//! ext4 on a [`Card`], mounted where the agent keeps its state.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker::needs::{is_ci, tell_not_run};
use crate::card::{Card, Health};

/// The state of an agent under torture takes a tenth of it.
const CARD_BYTES: u64 = 64 * 1024 * 1024;

/// A mounted card; unmounted with its owner, which has to end the agent first.
pub(crate) struct Volume {
    /// Where it is mounted.
    pub(crate) dir: PathBuf,
    card: Option<Card>,
}

/// Whether this machine lets us mount. A CI run may not be without.
pub(crate) fn is_possible() -> bool {
    let missing = if !rustix::process::geteuid().is_root() {
        "root"
    } else if !Path::new("/dev/fuse").exists() {
        "/dev/fuse"
    } else if !Path::new("/dev/loop-control").exists() {
        "/dev/loop-control"
    } else if !Path::new(MKFS).exists() {
        MKFS
    } else {
        return true;
    };
    assert!(!is_ci(), "a CI run needs {missing} to torture a file system");
    tell_not_run(&format!("{missing} for a file system of its own"));
    false
}

const MKFS: &str = "/usr/sbin/mkfs.ext4";

impl Volume {
    /// An empty file system, mounted on `dir`.
    pub(crate) fn new(dir: &Path) -> Volume {
        Volume::with_image(dir, fresh_image())
    }

    /// Mounts what a cut left: ext4 replays its journal.
    pub(crate) fn with_image(dir: &Path, image: Vec<u8>) -> Volume {
        fs::create_dir_all(dir).unwrap();
        let card = Card::with_image(image);
        let mut mount = Command::new("mount");
        mount.args(["-t", "ext4", "-o", "loop,noatime,errors=remount-ro"]);
        run(mount.arg(card.path()).arg(dir));
        Volume { dir: dir.to_owned(), card: Some(card) }
    }

    pub(crate) fn card(&self) -> &Card {
        self.card.as_ref().expect("a mounted volume has a card")
    }

    /// Everything that is in memory goes to the card, in whatever order.
    pub(crate) fn sync(&self) {
        rustix::fs::syncfs(File::open(&self.dir).unwrap()).unwrap();
    }

    /// ext4 finds that something is wrong with the card, and takes no writes from then on.
    pub(crate) fn find_error(&self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let place = self.dir.to_str().unwrap();
        let device = mounts.lines().find(|line| line.split(' ').nth(1) == Some(place)).expect("it is mounted");
        let device = device.split(' ').next().unwrap().trim_start_matches("/dev/");
        fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "torture").unwrap();
    }

    /// `ro` or `rw`; while nobody writes.
    pub(crate) fn remount(&self, how: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.dir));
    }

    /// As after a power cut: what is mounted goes, and this comes in its place.
    pub(crate) fn replace(&mut self, image: Vec<u8>) {
        self.card().set_health(Health::Good);
        assert!(unmount(&self.dir), "the agent has ended");
        drop(self.card.take());
        let dir = std::mem::take(&mut self.dir);
        *self = Volume::with_image(&dir, image);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.card.is_some() {
            unmount(&self.dir);
        }
    }
}

fn fresh_image() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    File::create(&path).unwrap().set_len(CARD_BYTES).unwrap();
    let mut mkfs = Command::new(MKFS);
    // Everything is written now: no kernel thread writes later of its own accord.
    mkfs.args(["-q", "-F", "-b", "4096", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]);
    run(mkfs.arg(&path));
    fs::read(path).unwrap()
}

/// Runs a program of the system; it has to succeed.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Takes a mount away; false where it has users, then it goes with the last of them.
/// Used while panicking too, so it says what it could not do instead of failing.
pub(crate) fn unmount(place: &Path) -> bool {
    let unmount = |more: &[&str]| Command::new("umount").args(more).arg(place).output();
    let why = match unmount(&[]) {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("{} is still in use: {why}", place.display());
    // What a test leaves behind goes when its processes end.
    let _ = unmount(&["--lazy"]);
    false
}
