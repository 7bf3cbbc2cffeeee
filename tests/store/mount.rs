//! A small file system of its own, to fill it or to take its writes away.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::needs::{is_ci, tell_not_run};

/// Mounted until it is dropped.
pub(crate) struct Mount {
    place: PathBuf,
    sudo: bool,
    arguments: Vec<String>,
    _dir: TempDir,
}

impl Mount {
    /// In memory.
    pub(crate) fn tmpfs(mib: u64) -> Option<Mount> {
        let options = format!("size={mib}m,mode=0777");
        Mount::new(&["-t", "tmpfs", "-o", &options, "tmpfs"], |_| ())
    }

    /// ext4 in a file.
    pub(crate) fn ext4(mib: u64) -> Option<Mount> {
        let make = |image: &Path| {
            std::fs::File::create(image).unwrap().set_len(mib << 20).unwrap();
            // 777 from the beginning: it may be mounted by another user.
            let made = Command::new("mkfs.ext4").args(["-q", "-m", "0", "-E", "root_owner"]).arg(image).output();
            assert!(made.is_ok_and(|made| made.status.success()), "mkfs.ext4 is part of every Linux");
        };
        Mount::new(&["-o", "loop", "image"], make)
    }

    /// As root, or as somebody who may become root without a password. Else the test
    /// says so and is of no use; in CI it has to run.
    fn new(arguments: &[&str], prepare: impl Fn(&Path)) -> Option<Mount> {
        let dir = TempDir::new().unwrap();
        let (place, image) = (dir.path().join("mount"), dir.path().join("image"));
        std::fs::create_dir(&place).unwrap();
        prepare(&image);
        let image = image.to_str().unwrap();
        let arguments = arguments.iter().map(|argument| if *argument == "image" { image } else { argument });
        let arguments: Vec<&str> = arguments.chain([place.to_str().unwrap()]).collect();
        for sudo in [false, true] {
            if run(sudo, "mount", &arguments) {
                let arguments = arguments.iter().map(ToString::to_string).collect();
                return Some(Mount { place, sudo, arguments, _dir: dir });
            }
        }
        assert!(!is_ci(), "CI has to mount a file system for this test");
        tell_not_run("root for a file system of its own");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        &self.place
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(run(self.sudo, "mount", &["-o", &options, self.place.to_str().unwrap()]));
    }

    /// What the kernel does when ext4 finds an error: nothing is written any more,
    /// open files or not.
    pub(crate) fn abort(&self) {
        self.remount("abort");
    }

    /// As a restart of the machine would.
    #[expect(clippy::disallowed_methods, reason = "nothing tells when a file system is let go; bounded")]
    pub(crate) fn mount_again(&self) {
        let place = self.place.to_str().unwrap();
        // A database that was dropped lets its file go a moment later.
        let unmounted = (0..2_000).any(|_| {
            let done = run(self.sudo, "umount", &[place]);
            if !done {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            done
        });
        assert!(unmounted, "something holds the file system");
        assert!(run(self.sudo, "mount", &self.arguments.iter().map(String::as_str).collect::<Vec<_>>()));
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        free_bytes(&self.place)
    }

    /// Another program takes all the space there is, but for `left` bytes; gives its file.
    pub(crate) fn fill(&self, left: u64) -> PathBuf {
        use std::io::Write as _;
        let path = self.place.join("somebody else's");
        let mut file = std::fs::File::options().create(true).append(true).open(&path).unwrap();
        loop {
            let free = free_bytes(&self.place);
            let len = usize::try_from(free.saturating_sub(left).min(1 << 20)).unwrap();
            if len < 4_096 || file.write(&vec![7; len]).is_err() {
                break;
            }
            if file.sync_data().is_err() {
                break;
            }
        }
        path
    }
}

/// Bytes that are free, as `stat` says.
fn free_bytes(path: &Path) -> u64 {
    let told = Command::new("stat").args(["-f", "-c", "%a %S"]).arg(path).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    told.split_whitespace().map(|number| number.parse::<u64>().unwrap()).product()
}

fn run(sudo: bool, program: &str, arguments: &[&str]) -> bool {
    let mut command = if sudo {
        let mut command = Command::new("sudo");
        command.args(["-n", program]);
        command
    } else {
        Command::new(program)
    };
    command.args(arguments).output().is_ok_and(|output| output.status.success())
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a handle that is still open must not keep the image.
        run(self.sudo, "umount", &["-l", self.place.to_str().unwrap()]);
    }
}
