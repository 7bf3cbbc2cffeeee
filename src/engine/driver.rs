//! Commit, then act. Owns the engine and its store, and is the only place where
//! a [`Step`] is carried out.
//!
//! Pure but for the store behind its trait: the simulator drives this very code
//! with a disk that crashes and a broker that repeats itself.
//!
//! [`Step`]: super::step::Step

use crate::model::time::{Now, ProcTime, Span};

use self::outbox::ChainState;
pub use self::reconfigure::ReconfigureError;
use super::chain::Chain;
use super::commit_policy::CommitPolicy;
use super::outbox::local::Local;
use super::samples::Sample;
use super::spec::PipelineSpec;
use super::status::Status;
use super::step::{Effect, Event};
use super::store::{Loaded, Store, StoreError};
use super::wear::{Budget, Written, physical};
use super::{Canary, Engine};

/// Pause after a failed write, doubled up to [`RETRY_MAX`].
const RETRY_MIN: Span = Span::from_secs(1);
/// Longest pause between two tries to write.
const RETRY_MAX: Span = Span::from_secs(30);

/// Bytes of the buffer for pages that are kept between commits.
const WRITES_KEPT: usize = 256 * 1024;

/// Runs one engine on one store.
#[derive(Debug)]
pub struct Driver<S: Store + Chain> {
    engine: Engine,
    store: S,
    policy: CommitPolicy,
    snapshot_interval: Span,
    /// No page may follow before a snapshot is durable.
    snapshot_needed: bool,
    snapshot_at: Option<ProcTime>,
    failure: Option<Failure>,
    chain: ChainState,
    writes: Vec<u8>,
    commits: u64,
    snapshots: u64,
    local: Option<Local>,
    budget: Option<Budget>,
    /// What the medium was given, by estimate.
    written: u64,
}

/// A store that does not take our writes.
#[derive(Clone, Debug)]
struct Failure {
    reason: String,
    pause: Span,
}

impl Failure {
    /// One more, after `before`.
    fn again(before: Option<&Failure>, error: &StoreError) -> Failure {
        let doubled = |failure: &Failure| Span::from_millis(failure.pause.as_millis().saturating_mul(2)).min(RETRY_MAX);
        Failure { reason: error.to_string(), pause: before.map_or(RETRY_MIN, doubled) }
    }
}

/// What the driver knows about durability.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct StorageStatus {
    /// Why commits fail at the moment; null: they do not.
    pub failure: Option<String>,
    /// Why the outbox on disk does not answer at the moment; null: it does.
    pub outbox_failure: Option<String>,
    /// Bytes of the outbox on disk, with what is freed later.
    pub outbox_disk_bytes: u64,
    /// What is wrong with the medium although it takes writes; null: nothing.
    pub warning: Option<String>,
    /// Pages made durable since the start.
    pub commits: u64,
    /// Snapshots since the start.
    pub snapshots: u64,
    /// Bytes handed to the medium since the start.
    pub bytes_written: u64,
    /// Messages taken in and not acknowledged.
    pub unacknowledged: usize,
    /// The broker's in-flight window as learned.
    pub broker_window: usize,
}

impl<S: Store + Chain> Driver<S> {
    /// Restores what the store holds, fits it to `pipeline`, re-arms every deadline.
    ///
    /// # Errors
    /// When the store cannot be read at all. Damage is no error: what can be
    /// used is used, an alarm is queued, and the epoch rises.
    pub fn start(pipeline: PipelineSpec, mut store: S, now: Now) -> Result<Driver<S>, StoreError> {
        let loaded = store.load()?;
        let ack_within = pipeline.broker.map_or(pipeline.commit.interval, |broker| broker.ack_within);
        let policy = CommitPolicy::new(pipeline.commit.interval, ack_within);
        let snapshot_interval = pipeline.commit.snapshot_interval;
        let lost = !loaded.damage.is_empty();
        let budget_spec = pipeline.commit.budget;
        let local = Local::new(&pipeline);
        let (engine, snapshot_needed, fresh) = restore(pipeline, loaded, now);
        let local = local.map(|local| local.after(engine.outbox()));
        let budget = budget_spec.map(|budget| Budget::new(budget.per_day, budget.interval_max));
        let mut driver = Driver {
            engine,
            store,
            policy,
            snapshot_interval,
            snapshot_needed,
            snapshot_at: None,
            failure: None,
            chain: ChainState::default(),
            writes: Vec::new(),
            commits: 0,
            snapshots: 0,
            local,
            budget,
            written: 0,
        };
        driver.engine.outbox_mut().set_has_chain();
        if lost || fresh {
            driver.adopt_blocks();
        }
        if driver.snapshot_needed {
            match driver.take_snapshot(now) {
                // Else the first page would do the epoch and the alarms again.
                Ok(()) => driver.engine.mark_committed(Some(now)),
                Err(error) => driver.note_failure(now, &error),
            }
        }
        if driver.failure.is_none() {
            driver.free_blocks();
        }
        Ok(driver)
    }

    /// Takes one input in. Never commits, never acts; rows may move to the chain.
    pub fn handle(&mut self, now: Now, event: Event<'_>) {
        let unacknowledged = self.engine.uncommitted_messages();
        self.engine.handle(now, event);
        if matches!(event, Event::SessionStarted { resumed: false }) && !self.engine.is_committed() {
            // The packet ids of the old session are forgotten. If a crash brought
            // them back, a message of the new one could pass for one of the old.
            self.policy.handle_urgent(now.proc);
        } else if matches!(event, Event::Replay(_)) {
            // Somebody waits to be told.
            self.policy.handle_urgent(now.proc);
        } else if let Event::Client { .. } = event {
            if self.engine.uncommitted_messages() > unacknowledged {
                self.policy.handle_client_message(now.proc);
            } else if !self.engine.is_committed() {
                self.policy.handle_change(now.proc);
            }
            if self.engine.clients_wait() {
                self.policy.handle_client_waiting(now.proc);
            }
        } else if self.engine.uncommitted_messages() > unacknowledged {
            self.policy.handle_message(now.proc);
        } else if !self.engine.is_committed() {
            self.policy.handle_change(now.proc);
        }
        self.keep_small(now);
    }

    /// Does what is due: commits, and then performs what that allows.
    pub fn advance(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        if self.engine.next_deadline().is_some_and(|at| at <= now.proc) {
            self.handle(now, Event::Tick);
        }
        self.make_room(now, false);
        if self.engine.clients_are_behind() {
            self.engine.let_clients_catch_up(now);
            if !self.engine.is_committed() {
                self.policy.handle_change(now.proc);
            }
            if self.engine.clients_wait() {
                self.policy.handle_client_waiting(now.proc);
            }
        }
        if self.policy.is_due(now.proc) {
            self.commit(now, perform);
        }
        if self.failure.is_none() && self.snapshot_is_due(now.proc) {
            self.make_room(now, true);
            if self.policy.next_deadline().is_some() {
                // The page that names the blocks. A snapshot is taken while nothing waits.
                self.commit(now, perform);
            }
            if self.failure.is_none() {
                self.snapshot_now(now);
            }
        }
        self.publish(now, perform);
        self.engine.tell_clients(&mut |connection, what| perform(Effect::Tell { connection, what }));
    }

    /// Between two inputs: what needs no commit, where it has become much. False: it has not.
    pub fn tell_early(&mut self, perform: &mut dyn FnMut(Effect)) -> bool {
        let is_much = self.engine.has_much_to_tell();
        if is_much {
            self.engine.tell_clients(&mut |connection, what| perform(Effect::Tell { connection, what }));
        }
        is_much
    }

    /// When [`Driver::advance`] next has something to do without a new input.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        if self.engine.clients_are_behind() {
            // At once.
            return Some(ProcTime::default());
        }
        // While changes wait, their commit comes first.
        let snapshot = self.snapshot_at.filter(|_| self.failure.is_none() && self.policy.next_deadline().is_none());
        let due = [self.engine.next_deadline(), self.policy.next_deadline(), snapshot, self.chain.next_deadline()];
        due.into_iter().flatten().min()
    }

    /// The last commit and a snapshot, so that the next start is quick.
    pub fn stop(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        self.make_room(now, true);
        self.commit(now, perform);
        if self.failure.is_none() {
            self.snapshot_now(now);
        }
        self.engine.tell_clients(&mut |connection, what| perform(Effect::Tell { connection, what }));
    }

    /// Commits what there is, and does what waits for it.
    pub fn flush(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        self.make_room(now, true);
        self.commit(now, perform);
    }

    /// See [`Engine::take_samples`].
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.engine.take_samples()
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine's part of the status document.
    pub fn status(&self, now: Now) -> Status {
        self.engine.status(now)
    }

    /// The store's part of it.
    pub fn storage_status(&self) -> StorageStatus {
        StorageStatus {
            failure: self.failure.as_ref().map(|failure| failure.reason.clone()),
            outbox_failure: self.chain.failure().map(str::to_owned),
            outbox_disk_bytes: self.store.chain_bytes(),
            warning: self.store.complaint(),
            commits: self.commits,
            snapshots: self.snapshots,
            bytes_written: self.store.bytes_written(),
            unacknowledged: self.engine.uncommitted_messages(),
            broker_window: self.policy.window(),
        }
    }

    /// What the medium was given for what was taken in.
    pub fn written(&self) -> Written {
        Written { readings: self.engine.readings(), bytes: self.written, budget: self.budget }
    }

    /// Counts what was written since the last call, and holds the next commit back for it.
    fn count_written(&mut self, now: ProcTime) {
        let before =
            core::mem::replace(&mut self.written, physical(self.store.bytes_written(), self.commits + self.snapshots));
        if let Some(budget) = &mut self.budget {
            budget.spend(now, self.written.saturating_sub(before));
            self.policy.hold_back(budget.paid_at());
        }
    }

    /// Ends the run and gives the store back, as a crash would: nothing is written.
    pub fn into_store(self) -> S {
        self.store
    }

    #[doc(hidden)]
    pub fn set_canary(&mut self, canary: Canary) {
        self.engine.set_canary(canary);
    }

    #[doc(hidden)]
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    fn commit(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        let step = self.engine.step(now, core::mem::take(&mut self.writes));
        if self.engine.canary() == Some(Canary::AckBeforeCommit) {
            step.effects.iter().cloned().for_each(&mut *perform);
        }
        let result = if step.writes.is_empty() {
            Ok(())
        } else if self.snapshot_needed {
            self.take_snapshot(now)
        } else {
            match self.store.commit(&step.writes) {
                Err(StoreError::SnapshotDue | StoreError::TooLarge { .. }) => self.take_snapshot(now),
                result => result,
            }
        };
        match result {
            Ok(()) => {
                self.engine.mark_committed((!step.writes.is_empty()).then_some(now));
                self.policy.handle_committed(now.proc);
                self.commits += 1;
                if self.failure.take().is_some() {
                    tracing::info!("storage works again");
                }
                if self.snapshot_at.is_none() {
                    self.snapshot_at = Some(now.proc + self.snapshot_interval);
                }
                step.effects.into_iter().for_each(&mut *perform);
                if let Some(local) = &mut self.local {
                    local.publish(self.engine.outbox(), perform);
                }
                self.free_blocks();
            }
            Err(error) => self.note_failure(now, &error),
        }
        self.count_written(now.proc);
        // A rare large one is not kept: it would be as large as a part of the state.
        self.writes = if step.writes.capacity() > WRITES_KEPT { Vec::new() } else { step.writes };
    }

    /// A snapshot while no message waits. A failure costs nothing yet: pages go on
    /// behind the old one.
    fn snapshot_now(&mut self, now: Now) {
        // Windows have other numbers then, and pages refer to those of the last snapshot.
        self.snapshot_needed |= self.engine.drop_retired();
        match self.take_snapshot(now) {
            // What it had to give up is in it.
            Ok(()) => {
                self.engine.mark_committed(Some(now));
                self.free_blocks();
            }
            Err(error) => self.note_failure(now, &error),
        }
        self.count_written(now.proc);
    }

    fn snapshot_is_due(&self, now: ProcTime) -> bool {
        // Not while changes wait: the page after it would do them a second time.
        (self.store.wants_snapshot() || self.snapshot_at.is_some_and(|at| at <= now))
            && self.policy.next_deadline().is_none()
    }

    /// A snapshot holds everything, so that nothing waits for a commit behind it
    /// but the acknowledgements. Whoever takes one while changes wait marks them
    /// as committed.
    ///
    /// One that is too large sheds the older half of the outbox, again and again:
    /// gaps that are told are better than an agent that takes nothing any more.
    fn take_snapshot(&mut self, now: Now) -> Result<(), StoreError> {
        loop {
            let engine = &self.engine;
            match self.store.snapshot_in_pieces(&|sink| engine.write_snapshot(now, sink)) {
                Ok(()) => break,
                Err(StoreError::TooLarge { bytes }) if self.engine.shed_outbox() => {
                    tracing::error!(bytes, "the state has no room in the store: half of the outbox was given up");
                }
                Err(error) => return Err(error),
            }
        }
        if let Err(error) = self.store.witness(self.engine.outbox().epoch()) {
            // The snapshot is durable all the same: to call it failed would have
            // the changes in it written a second time.
            tracing::warn!(%error, "a roll-back of the storage would not be noticed");
        }
        self.snapshot_needed = false;
        self.snapshot_at = None;
        self.snapshots += 1;
        Ok(())
    }

    fn note_failure(&mut self, now: Now, error: &StoreError) {
        let failure = Failure::again(self.failure.as_ref(), error);
        if self.failure.is_none() {
            tracing::error!(%error, "storage does not take writes; acknowledgements are withheld");
        }
        self.policy.handle_change(now.proc);
        self.policy.handle_failed(now.proc, failure.pause);
        self.failure = Some(failure);
    }
}

/// The engine as the store remembers it, whether a snapshot has to come before the
/// next page, and whether nothing was remembered.
fn restore(pipeline: PipelineSpec, loaded: Loaded, now: Now) -> (Engine, bool, bool) {
    let mut damage = loaded.damage;
    let restored = loaded.snapshot.as_deref().and_then(|bytes| {
        let engine = Engine::read_snapshot(&pipeline, bytes);
        engine.inspect_err(|_| damage.push("the snapshot cannot be read by this version".to_owned())).ok()
    });
    let fresh = restored.is_none();
    let mut engine = restored.unwrap_or_else(|| Engine::new(pipeline.clone()));
    if !fresh {
        for (number, page) in loaded.pages.iter().enumerate() {
            // A page that fails half-way leaves the engine unusable: then snapshot and
            // pages are read again, up to the one before it.
            if engine.apply_page(page).is_err() {
                damage.push(format!("page {number} of {} cannot be read", loaded.pages.len()));
                engine = replay(&pipeline, loaded.snapshot.as_deref(), &loaded.pages[..number]);
                break;
            }
        }
    } else if !loaded.pages.is_empty() {
        damage.push("pages without a snapshot".to_owned());
    }
    let changed = engine.fit(pipeline, now);
    let lost = !damage.is_empty();
    if fresh || lost {
        engine.start_epoch(now, loaded.epoch_floor, lost);
    }
    for text in &damage {
        tracing::error!(%text, "state was damaged");
        engine.raise_alarm(now, "state_damaged", text);
    }
    (engine, fresh || changed || lost, fresh)
}

fn replay(pipeline: &PipelineSpec, snapshot: Option<&[u8]>, pages: &[Vec<u8>]) -> Engine {
    let restored = snapshot.and_then(|bytes| {
        let mut engine = Engine::read_snapshot(pipeline, bytes).ok()?;
        pages.iter().try_for_each(|page| engine.apply_page(page)).ok()?;
        Some(engine)
    });
    restored.unwrap_or_else(|| Engine::new(pipeline.clone()))
}

mod outbox;
mod reconfigure;
#[cfg(test)]
mod tests;
