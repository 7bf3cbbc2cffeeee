//! A block device of our own: ext4 on a loop device over a file. What the kernel
//! counts for it is what a card would have been given: data, metadata and journal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Large enough that nothing but what is measured decides where blocks lie.
const BYTES: u64 = 2 << 30;
/// The kernel counts in sectors of this size, whatever the device has.
const SECTOR: u64 = 512;
/// The seventh number of a device's `stat`: sectors written.
const SECTORS_WRITTEN: usize = 6;

/// A mounted file system that nobody else writes to.
pub(crate) struct LoopDevice {
    device: PathBuf,
    mount: PathBuf,
    _dir: TempDir,
}

impl LoopDevice {
    /// Makes one.
    ///
    /// # Errors
    /// Why there is none: it takes root, `losetup` and `mkfs.ext4`.
    pub(crate) fn make() -> Result<LoopDevice, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("a loop device takes root: run this as root".into());
        }
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let (image, mount) = (dir.path().join("image"), dir.path().join("mount"));
        let file = fs::File::create(&image).map_err(|error| error.to_string())?;
        file.set_len(BYTES).map_err(|error| error.to_string())?;
        fs::create_dir(&mount).map_err(|error| error.to_string())?;
        let device = run("losetup", &["--find", "--show", text(&image)])?;
        let made = LoopDevice { device: PathBuf::from(device.trim()), mount, _dir: dir };
        // Else the kernel goes on to write zeros into tables for minutes.
        let now = "lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-E", now, text(&made.device)])?;
        run("mount", &["-o", "noatime", text(&made.device), text(&made.mount)])?;
        Ok(made)
    }

    /// Where files go.
    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// Bytes that the device has been given, after everything that waits was written.
    pub(crate) fn bytes_written(&self) -> u64 {
        let mount = fs::File::open(&self.mount).unwrap();
        rustix::fs::syncfs(&mount).unwrap();
        let name = self.device.file_name().unwrap().to_str().unwrap();
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(SECTORS_WRITTEN).unwrap().parse::<u64>().unwrap() * SECTOR
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Whatever fails was not there.
        let _ = run("umount", &[text(&self.mount)]);
        let _ = run("losetup", &["--detach", text(&self.device)]);
    }
}

/// Bytes of the blocks that the files under `dir` take.
pub(crate) fn bytes_on_disk(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let size = |entry: fs::DirEntry| {
        let found = entry.metadata().unwrap();
        found.blocks() * SECTOR + if found.is_dir() { bytes_on_disk(&entry.path()) } else { 0 }
    };
    entries.map(size).sum()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
    }
}
