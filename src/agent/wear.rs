//! What the flash is given, as far as the kernel can tell.
//!
//! The file system's device number names a block device, or a partition, whose `stat` in
//! sysfs counts sectors of 512 bytes written, by whomever. It cannot be told where the
//! number belongs to no block device: overlayfs, tmpfs, btrfs, network file systems. One
//! in memory (`zram`, `ram`) wears nothing out and counts as "cannot be told" too.
//! `/proc/self/io` is not asked: it counts what never reached a device.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use tracing::{info, warn};

use crate::engine::wear::{Meter, Sample, WearStatus, Written};
use crate::model::time::ProcTime;

const SECTOR: u64 = 512;
/// Sectors written: the seventh number of a device's `stat`.
const SECTORS_WRITTEN: usize = 6;

/// The block device under a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockDevice {
    name: String,
    stat: PathBuf,
}

impl BlockDevice {
    /// The device of the file system that `dir` lies on, if the kernel counts for it.
    pub fn of(dir: &Path) -> Option<BlockDevice> {
        let number = fs::metadata(dir).ok()?.dev();
        BlockDevice::numbered(Path::new("/sys/dev/block"), major(number), minor(number))
    }

    fn numbered(devices: &Path, major: u32, minor: u32) -> Option<BlockDevice> {
        let folder = fs::canonicalize(devices.join(format!("{major}:{minor}"))).ok()?;
        let name = folder.file_name()?.to_str()?.to_owned();
        if name.starts_with("zram") || name.starts_with("ram") {
            return None;
        }
        let device = BlockDevice { name, stat: folder.join("stat") };
        device.bytes_written().map(|_| device)
    }

    /// Bytes that were written to it since it is there.
    pub fn bytes_written(&self) -> Option<u64> {
        let stat = fs::read_to_string(&self.stat).ok()?;
        let sectors: u64 = stat.split_whitespace().nth(SECTORS_WRITTEN)?.parse().ok()?;
        sectors.checked_mul(SECTOR)
    }
}

/// The counters of this process's time.
#[derive(Debug)]
pub struct Wear {
    device: Option<BlockDevice>,
    start: Sample,
    meter: Meter,
    written: Written,
    exceeded: bool,
}

impl Wear {
    /// Counts from now on.
    pub fn start(device: Option<BlockDevice>, now: ProcTime, written: &Written) -> Wear {
        if let Some(device) = &device {
            info!(device = %device.name, "writes to the flash are measured");
        }
        let mut wear =
            Wear { device, start: Sample::default(), meter: Meter::default(), written: *written, exceeded: false };
        wear.start = wear.sample(written);
        wear.meter.note(now, wear.start);
        wear
    }

    fn sample(&self, written: &Written) -> Sample {
        let device = self.device.as_ref().and_then(BlockDevice::bytes_written);
        Sample { readings: written.readings, written: written.bytes, device }
    }

    /// Reads the counters. A file of one line is read, so once a second is no burden.
    pub fn note(&mut self, now: ProcTime, written: &Written) {
        self.written = *written;
        self.meter.note(now, self.sample(written));
        let exceeded = written.budget.is_some_and(|budget| budget.is_exceeded());
        if exceeded && !self.exceeded {
            warn!("more is written than `write_budget` allows, although commits wait as long as they may");
        }
        self.exceeded = exceeded;
    }

    /// What is wrong with it.
    pub fn trouble(&self) -> Option<String> {
        self.exceeded.then(|| "more is written to the flash than write_budget allows".to_owned())
    }

    /// For the status document.
    pub fn status(&self) -> WearStatus {
        self.meter.status(self.start, self.device.as_ref().map(|device| device.name.as_str()), &self.written)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A tree such as sysfs has: numbers are links to folders.
    fn sysfs(name: &str, stat: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let folder = root.path().join("devices").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("stat"), stat).expect("a file");
        symlink(&folder, root.path().join("179:2")).expect("a link");
        root
    }

    #[test]
    fn sectors_of_a_partition_are_counted_in_512_bytes() {
        let root = sysfs("mmcblk0p2", "  8  0 64 1  200 30 4096 5 0 6 7 0 0 0 0\n");
        let device = BlockDevice::numbered(root.path(), 179, 2).expect("it is there");
        assert_eq!((device.name.as_str(), device.bytes_written()), ("mmcblk0p2", Some(4_096 * 512)));
        assert_eq!(BlockDevice::numbered(root.path(), 0, 45), None, "overlayfs and tmpfs have no device");
        fs::write(&device.stat, "gone").expect("a file");
        assert_eq!(device.bytes_written(), None);
    }

    #[test]
    fn what_lies_in_memory_wears_nothing_out() {
        let root = sysfs("zram0", "0 0 0 0 1 1 8 0 0 0 0\n");
        assert_eq!(BlockDevice::numbered(root.path(), 179, 2), None);
    }

    #[test]
    fn without_a_device_the_estimate_is_published() {
        let written = |readings, bytes| Written { readings, bytes, budget: None };
        let mut wear = Wear::start(None, ProcTime::from_millis(0), &written(0, 0));
        wear.note(ProcTime::from_millis(20_000), &written(100, 2_000));
        let status = wear.status();
        assert_eq!((status.source, status.written_bytes, status.bytes_per_reading), ("estimate", 2_000, Some(20.0)));
        assert_eq!(wear.trouble(), None);
    }
}
