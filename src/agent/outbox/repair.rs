//! What a start does for a damaged store, and then some: every block is read, and what
//! cannot be read becomes a gap now instead of when its turn comes.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown};
use std::path::Path;

use anyhow::{Context, bail};

use crate::agent::clock::SystemClock;
use crate::agent::store::look::Rehearsal;
use crate::agent::store::{OpenError, open_with};
use crate::config::boot::Config;
use crate::engine::chain::Chain;
use crate::engine::driver::Driver;
use crate::engine::step::Clock as _;
use crate::engine::store::Store;

/// What was done, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// What of the pages was damaged, and what became of it.
    pub damage: Vec<String>,
    /// Blocks that no page names: they are sent.
    pub adopted: u64,
    /// Blocks that were read.
    pub blocks: u64,
    /// What could not be read: gaps stand for it.
    pub lost: Vec<String>,
    /// What does not fit together all the same; the receiver sees it in the numbers.
    pub faults: Vec<String>,
}

impl Repaired {
    /// True when nothing had to be done.
    pub fn is_nothing(&self) -> bool {
        self.damage.is_empty() && self.adopted == 0 && self.lost.is_empty()
    }
}

/// Repairs the store of an agent that does not run. `rehearse`: on a copy, so that nothing
/// there changes.
///
/// # Errors
/// An agent runs on it, the directory cannot be used, the disk takes no writes.
pub fn repair(config: &Config, rehearse: bool) -> anyhow::Result<Repaired> {
    let dir = &config.storage.path;
    if !dir.is_dir() {
        bail!("there is no state in {}: has an agent run with this configuration?", dir.display());
    }
    if rehearse {
        if crate::agent::store::look::is_in_use(dir).context("looking at the lock")? {
            return Err(refused(OpenError::Locked(dir.clone())));
        }
        let store = Rehearsal::open(dir)?;
        let damage = store.damage();
        run(config, store, damage, true)
    } else {
        let store = open_with(dir, config.storage.reserve_bytes).map_err(refused)?;
        let damage = store.damage().to_vec();
        let repaired = run(config, store, damage, false);
        // Done with `sudo`, what was made anew belongs to root, and a service that runs as
        // somebody else could not use it.
        give_to_owner(dir).context("giving the repaired files to the owner of the directory")?;
        repaired
    }
}

/// Gives everything below `dir` to its owner. Nothing to do for whoever made it all.
fn give_to_owner(dir: &Path) -> io::Result<()> {
    let owner = fs::metadata(dir)?;
    let mut directories = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if (found.uid(), found.gid()) != (owner.uid(), owner.gid()) {
                lchown(entry.path(), Some(owner.uid()), Some(owner.gid()))?;
            }
            if found.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(())
}

fn refused(error: OpenError) -> anyhow::Error {
    let is_locked = matches!(error, OpenError::Locked(_));
    let error = anyhow::Error::from(error);
    if is_locked {
        error.context(
            "not repaired: stop the agent first (`tidegate outbox verify` looks while it runs; each start repairs too)",
        )
    } else {
        error
    }
}

fn run<S: Store + Chain>(config: &Config, store: S, damage: Vec<String>, rehearse: bool) -> anyhow::Result<Repaired> {
    let clock = SystemClock::start();
    let mut driver = Driver::start(config.pipeline.clone(), store, clock.now()).context("restoring the state")?;
    let (lost, blocks) = driver.check_blocks(clock.now()).context("reading what the outbox has on disk")?;
    let repaired = Repaired {
        damage,
        adopted: driver.adopted_blocks(),
        blocks,
        lost: lost.iter().map(ToString::to_string).collect(),
        faults: driver.engine().outbox().faults(),
    };
    if !rehearse && !repaired.is_nothing() {
        driver.stop(clock.now(), &mut |_| ());
    }
    match driver.storage_status().failure {
        Some(failure) => bail!("the repair is not durable: {failure}"),
        None => Ok(repaired),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_root_made_anew_belongs_to_the_owner_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("pages/blobs")).unwrap();
        fs::write(dir.path().join("pages/db"), "x").unwrap();
        if lchown(dir.path(), Some(12_345), Some(12_345)).is_err() {
            return; // Only root may give files away; whoever else made them owns them.
        }
        give_to_owner(dir.path()).unwrap();
        for path in ["pages", "pages/blobs", "pages/db"] {
            let found = fs::metadata(dir.path().join(path)).unwrap();
            assert_eq!((found.uid(), found.gid()), (12_345, 12_345), "{path}");
        }
    }
}
