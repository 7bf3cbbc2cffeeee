//! The seam to durable storage: pages and snapshots of opaque bytes.
//!
//! A store keeps the newest complete snapshot and the pages that were committed
//! after it, in order, without holes. What the bytes mean is known to
//! `engine/checkpoint.rs` and `engine/restore.rs` alone.

/// Hands a state over piece by piece, in order; the same pieces each time.
pub type WriteState<'a> = dyn Fn(&mut dyn FnMut(&[u8])) + 'a;

/// Durable storage of the engine's state. One owner, synchronous calls.
pub trait Store {
    /// What survived: called once, before anything is committed.
    ///
    /// # Errors
    /// Only what cannot be repaired or put aside; damage that can is repaired,
    /// and reported in [`Loaded::damage`].
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Makes `page` durable, after every page before it. When this returns,
    /// a power cut cannot take the page away.
    ///
    /// # Errors
    /// [`StoreError::Full`]: nothing was written, try again later.
    /// [`StoreError::SnapshotDue`]: no slot is left until a snapshot is taken,
    /// or damage was found and the first write must be a snapshot. A page too
    /// large for an empty ring is answered so each time: the snapshot carries
    /// the same change, so take it and do not offer the page again.
    /// [`StoreError::Failed`]: nothing is known about this page.
    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError>;

    /// Replaces the snapshot and drops the pages before it, atomically.
    /// On an error the previous snapshot and its pages are still whole, and
    /// pages can still be committed after them.
    ///
    /// # Errors
    /// As for [`Store::commit`], but never [`StoreError::SnapshotDue`].
    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError>;

    /// As [`Store::snapshot`], without the whole state in memory a second time.
    ///
    /// # Errors
    /// As for [`Store::snapshot`].
    fn snapshot_in_pieces(&mut self, write: &WriteState<'_>) -> Result<(), StoreError> {
        let mut state = Vec::new();
        write(&mut |piece| state.extend_from_slice(piece));
        self.snapshot(&state)
    }

    /// Notes outside the pages how far the state has come and under which
    /// epoch, so that a medium that silently falls back to an older state is
    /// found out by the next [`Store::load`]. Called after each snapshot and at
    /// a clean stop. Nothing to do for a store that cannot fall back.
    ///
    /// # Errors
    /// As for [`Store::commit`], but never [`StoreError::SnapshotDue`]. The
    /// state itself is as durable as before: reporting it is enough.
    fn witness(&mut self, _epoch: u64) -> Result<(), StoreError> {
        Ok(())
    }

    /// True when a snapshot should be taken soon: slots run out, a write has
    /// failed, or damage was found by [`Store::load`].
    fn wants_snapshot(&self) -> bool;

    /// What is wrong with the medium although it takes writes, for people; it belongs
    /// among the reasons of health.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// Bytes handed to the medium so far, for wear accounting.
    fn bytes_written(&self) -> u64;
}

/// What survived.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The newest complete snapshot.
    pub snapshot: Option<Vec<u8>>,
    /// The pages after it, oldest first.
    pub pages: Vec<Vec<u8>>,
    /// The highest epoch known from outside the state itself (0: none): a
    /// state that was lost must come back with a higher one.
    pub epoch_floor: u64,
    /// What was damaged and how it was dealt with. Not empty: state was lost
    /// or rolled back, and the epoch has to rise.
    pub damage: Vec<String>,
}

/// Why the store did not do it. One variant per reaction.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written. Withhold acknowledgements, try again later.
    #[error("storage is full")]
    Full,
    /// The page ring has no free slot. Take a snapshot, then go on.
    #[error("the page ring is full until a snapshot is taken")]
    SnapshotDue,
    /// A page or snapshot is larger than all slots together; nothing was written.
    /// Make the state smaller, then take a snapshot.
    #[error("a state of {bytes} bytes has no room")]
    TooLarge {
        /// Its size, packed.
        bytes: usize,
    },
    /// Nothing is known about this write. Withhold acknowledgements, report,
    /// try a snapshot (which rewrites everything) later.
    #[error("storage failed: {0}")]
    Failed(String),
}
