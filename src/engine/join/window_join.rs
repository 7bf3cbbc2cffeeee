//! Window joins: the results of one window of one key, of several streams, as
//! one row.
//!
//! A cell is one window of one key. It keeps the newest pane of each side. Once the
//! watermarks of all sides have passed the end of the window its row is made;
//! later panes make further rows, until no side can have any.
//!
//! ```text
//! open ── all watermarks ≥ end − 1 ──▶ passed ── all ≥ end − 1 + lateness ──▶ gone
//!   │  row, or (inner, incomplete) none   │ each late pane: the next row        ▲
//!   └──────────────── ttl, room, another definition: a row or a count ──────────┘
//! ```
//!
//! A cell that went by `ttl` or for room may have used its id, so that the windows of
//! its key up to it stay shut: a fence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::devices::SlotKind;
use crate::engine::outbox::row::{self, JoinPane, JoinRow, Row, write_join};
use crate::engine::spec::KeySpec;
use crate::engine::stream::Stream;
use crate::engine::timers::LiveTime;
use crate::engine::watermark::Watermark;
use crate::model::ids::Name;
use crate::model::limits::JOIN_ROW_BYTES_MAX;
use crate::model::record::TimeSource;
use crate::model::time::{EventTime, Span};

use super::Scene;
use super::books::WindowJoinLedger;
use super::cell::{Cell, CellId, Fences, count_of};
use super::tap::TappedPane;
use super::waiting::{Wait, Waiting};

/// One window of one stream.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// Place of the stream.
    pub stream: usize,
    /// Its name.
    pub name: Name,
    pub lateness: Span,
}

/// Why a cell goes before the watermarks say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cause {
    Ttl,
    Room,
    Redefined,
}

/// State of one window join.
#[derive(Clone, Debug)]
pub(super) struct WindowJoin {
    pub name: Name,
    pub sides: Vec<Side>,
    pub key: KeySpec,
    pub outer: bool,
    pub ttl: Span,
    /// Bytes that its cells may take.
    pub budget: usize,
    pub cells: BTreeMap<CellId, Cell>,
    pub deadlines: BTreeSet<(LiveTime, CellId)>,
    pub books: WindowJoinLedger,
    pub fences: Fences,
    /// First revision of a window: above all that another definition has used.
    pub first_revision: u32,
    /// Above all that this one has used.
    pub next_revision: u32,
    pub changes: Changes,
    pub waiting: Waiting<CellId>,
    /// Cells with news, in the order of their panes; empty between inputs.
    touched: Vec<CellId>,
    bytes: usize,
}

/// What a commit has to write.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pub any: bool,
    pub dirty: BTreeSet<CellId>,
    pub removed: BTreeSet<CellId>,
}

impl WindowJoin {
    pub(super) fn new(name: Name, sides: Vec<Side>, key: KeySpec, outer: bool, ttl: Span, budget: usize) -> WindowJoin {
        WindowJoin {
            name,
            key,
            outer,
            ttl,
            budget,
            cells: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            books: WindowJoinLedger::default(),
            fences: Fences::default(),
            first_revision: 0,
            next_revision: 0,
            changes: Changes::default(),
            waiting: Waiting::new(sides.len()),
            sides,
            touched: Vec::new(),
            bytes: 0,
        }
    }

    /// A join that is new, or back, knows nothing of the windows that its streams have
    /// begun, and may have used their ids: they stay shut.
    pub(super) fn begin_after(&mut self, streams: &[Stream]) {
        let kind = match self.key {
            KeySpec::Device => SlotKind::Device,
            KeySpec::Group => SlotKind::Group,
            KeySpec::Stream => SlotKind::Stream,
        };
        for side in &self.sides {
            for (_, name, device) in streams[side.stream].devices.slots() {
                if let Some(newest) = device.newest().filter(|_| device.kind == kind) {
                    self.fences.shut(&CellId { key: Arc::from(name), start: newest });
                }
            }
        }
    }

    /// A side has a pane.
    pub(super) fn handle_pane(&mut self, scene: &mut Scene<'_>, side: usize, pane: &TappedPane<'_>) {
        self.changes.any = true;
        let id = CellId { key: Arc::from(pane.key), start: pane.start };
        if !self.cells.contains_key(&id) {
            if self.fences.stop(&id) {
                self.books.late += 1;
                return;
            }
            let panes = vec![None; self.sides.len()];
            let (revision, deadline) = (self.first_revision, LiveTime::NEVER);
            let cell = Cell {
                end: pane.end,
                panes,
                revision,
                passed: false,
                settled: false,
                deadline,
                closing: false,
                wait: None,
                news: None,
            };
            self.books.windows += 1;
            self.books.open += 1;
            self.insert(id.clone(), cell);
        }
        let Some(cell) = self.cells.get_mut(&id) else { return };
        if !cell.closing && !cell.passed {
            // While all sides only show what they have so far, none of them is overdue.
            let open = if pane.look { pane.start.lag_behind(pane.end) } else { Span::ZERO };
            cell.closing = !pane.look;
            self.deadlines.remove(&(cell.deadline, id.clone()));
            cell.deadline = scene.live.plus(open + self.ttl);
            self.deadlines.insert((cell.deadline, id.clone()));
        }
        let before = cell.cost(&id);
        let known = cell.panes[side].replace(Box::from(pane.row));
        self.bytes = self.bytes + cell.cost(&id) - before;
        self.changes.dirty.insert(id.clone());
        let says_more = known.is_none_or(|known| count_of(&known) != pane.count);
        if !cell.passed || says_more {
            if cell.news.is_none() {
                self.touched.push(id);
            }
            cell.news = Some(cell.news.unwrap_or(false) || pane.late);
        }
    }

    /// Looks at the cells that have new panes, now that all panes of an input are known:
    /// one input may show a window as idle and fire it too.
    pub(super) fn settle(&mut self, scene: &mut Scene<'_>) {
        let mut touched = core::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let Some(cell) = self.cells.get_mut(&id) else { continue };
            let late = cell.news.take().unwrap_or(false);
            if !cell.passed {
                self.unwait(&id);
                self.look(scene, &id, if late { JoinPane::Late } else { JoinPane::OnTime });
            } else if self.outer || cell.is_complete() {
                self.emit(scene, &id, JoinPane::Late);
            }
        }
        self.touched = touched;
        self.make_room(scene);
    }

    /// A watermark of a side has risen.
    pub(super) fn advance(&mut self, scene: &mut Scene<'_>, side: usize, scope: &str) {
        let watermark = scene.watermark(self.sides[side].stream, scope);
        while let Some(id) = self.waiting.pop_reached(side, scope, watermark) {
            if let Some(cell) = self.cells.get_mut(&id) {
                cell.wait = None;
            }
            self.look(scene, &id, JoinPane::OnTime);
        }
    }

    /// Closes what has waited long enough.
    pub(super) fn expire(&mut self, scene: &mut Scene<'_>) {
        while let Some((at, id)) = self.deadlines.first()
            && *at <= scene.live
        {
            let id = id.clone();
            self.close(scene, &id, Cause::Ttl);
        }
    }

    /// Looks at every cell: after a restore, and at the end of a bounded input.
    pub(super) fn look_at_all(&mut self, scene: &mut Scene<'_>) {
        self.settle(scene);
        for id in self.cells.keys().cloned().collect::<Vec<_>>() {
            self.unwait(&id);
            self.look(scene, &id, JoinPane::OnTime);
        }
        self.make_room(scene);
    }

    /// Looks at the cells of a key, which is under another watermark now.
    pub(super) fn look_at_key(&mut self, scene: &mut Scene<'_>, key: &str) {
        let first = CellId { key: Arc::from(key), start: EventTime::MIN };
        let ids = self.cells.range(first..).map(|(id, _)| id).take_while(|id| &*id.key == key);
        for id in ids.cloned().collect::<Vec<_>>() {
            self.unwait(&id);
            self.look(scene, &id, JoinPane::OnTime);
        }
    }

    /// Does with a cell what the watermarks allow; then it waits for the next one.
    fn look(&mut self, scene: &mut Scene<'_>, id: &CellId, pane: JoinPane) {
        let Some(cell) = self.cells.get(id) else { return };
        let last = cell.end - Span::MILLI;
        if !cell.passed {
            if let Some(wait) = self.in_the_way(scene, id, |_| last) {
                return self.wait(id, wait);
            }
            self.pass(scene, id, pane);
        }
        match self.in_the_way(scene, id, |side| last + side.lateness) {
            Some(wait) => self.wait(id, wait),
            None => self.retire(id),
        }
    }

    /// The watermarks of all sides have passed the end of the window.
    fn pass(&mut self, scene: &mut Scene<'_>, id: &CellId, pane: JoinPane) {
        let lateness = self.sides.iter().map(|side| side.lateness).max().unwrap_or_default();
        let Some(cell) = self.cells.get_mut(id) else { return };
        cell.passed = true;
        self.deadlines.remove(&(cell.deadline, id.clone()));
        // Late panes come as long as devices are late; then it may go at `ttl` as before.
        cell.deadline = scene.live.plus(lateness + self.ttl);
        self.deadlines.insert((cell.deadline, id.clone()));
        self.touch(id);
        let shows = self.outer || self.cells.get(id).is_some_and(Cell::is_complete);
        if shows {
            self.emit(scene, id, pane);
        }
    }

    /// No side can have another pane of it.
    fn retire(&mut self, id: &CellId) {
        let Some(cell) = self.remove(id) else { return };
        if !cell.settled {
            self.books.open -= 1;
            self.books.unmatched += 1;
        }
        self.fences.drop_up_to(id);
    }

    /// A cell goes although the watermarks have not decided.
    pub(super) fn close(&mut self, scene: &mut Scene<'_>, id: &CellId, cause: Cause) {
        let Some(cell) = self.cells.get(id) else { return };
        if !cell.settled && (self.outer || cell.is_complete()) {
            self.emit(scene, id, JoinPane::Timeout);
        }
        let Some(cell) = self.remove(id) else { return };
        if !cell.settled {
            self.books.open -= 1;
            match cause {
                Cause::Ttl => self.books.expired += 1,
                Cause::Room => self.books.evicted += 1,
                Cause::Redefined => self.books.abandoned += 1,
            }
        }
        self.fences.shut(id);
    }

    fn emit(&mut self, scene: &mut Scene<'_>, id: &CellId, pane: JoinPane) {
        let watermark = match pane {
            // The watermarks did not decide, and sides may be those of a configuration before.
            JoinPane::Timeout => None,
            JoinPane::OnTime | JoinPane::Late => {
                self.sides.iter().map(|side| scene.watermark_of_key(side.stream, self.key, &id.key)).min()
            }
        };
        let Some(cell) = self.cells.get_mut(id) else { return };
        let first = !cell.settled;
        cell.settled = true;
        self.books.open -= u64::from(first);
        if cell.cost(id) > JOIN_ROW_BYTES_MAX {
            self.books.too_large += u64::from(first);
            return self.touch(id);
        }
        let rows = cell.panes.iter().flatten().filter_map(|pane| match row::read(pane) {
            Ok(Row::Pane(row, _)) => Some(row),
            Ok(_) | Err(_) => None,
        });
        let lost = scene.partial_before.is_some_and(|before| id.start < before);
        let (mut source, mut partial) = (TimeSource::Device, lost);
        for row in rows {
            partial |= row.partial;
            source = if row.source == TimeSource::Receive { row.source } else { source };
        }
        let row = JoinRow {
            join: self.name.as_str(),
            key: &id.key,
            start: id.start,
            end: cell.end,
            pane,
            revision: cell.revision,
            watermark: watermark.and_then(Watermark::time),
            source,
            quality: scene.now.quality,
            partial,
        };
        let panes = cell.panes.iter().map(Option::as_deref);
        let sides = self.sides.iter().zip(panes).map(|(side, pane)| (side.name.as_str(), pane));
        scene.outbox.push(scene.lane(pane == JoinPane::Late), |out| write_join(out, &row, sides));
        cell.revision = cell.revision.saturating_add(1);
        self.next_revision = self.next_revision.max(cell.revision);
        match (first, cell.is_complete()) {
            (true, true) => self.books.joined += 1,
            (true, false) => self.books.missing += 1,
            (false, _) => self.books.revisions += 1,
        }
        self.touch(id);
    }

    /// The first side whose watermark is not there yet.
    fn in_the_way(&self, scene: &Scene<'_>, id: &CellId, until: impl Fn(&Side) -> EventTime) -> Option<Wait> {
        self.sides.iter().enumerate().find_map(|(place, side)| {
            let until = until(side);
            scene.wait_for((place, side.stream), self.key, &id.key, until)
        })
    }

    fn wait(&mut self, id: &CellId, wait: Wait) {
        if let Some(cell) = self.cells.get_mut(id) {
            self.waiting.add(&wait, id.clone());
            cell.wait = Some(wait);
        }
    }

    fn unwait(&mut self, id: &CellId) {
        if let Some(wait) = self.cells.get_mut(id).and_then(|cell| cell.wait.take()) {
            self.waiting.remove(&wait, id.clone());
        }
    }

    /// Puts a cell where it belongs; it does not wait yet.
    pub(super) fn insert(&mut self, id: CellId, cell: Cell) {
        self.remove(&id);
        self.changes.removed.remove(&id);
        self.bytes += cell.cost(&id);
        self.deadlines.insert((cell.deadline, id.clone()));
        self.cells.insert(id, cell);
    }

    pub(super) fn remove(&mut self, id: &CellId) -> Option<Cell> {
        self.unwait(id);
        let cell = self.cells.remove(id)?;
        self.bytes -= cell.cost(id);
        self.deadlines.remove(&(cell.deadline, id.clone()));
        self.changes.any = true;
        self.changes.dirty.remove(id);
        self.changes.removed.insert(id.clone());
        Some(cell)
    }

    fn make_room(&mut self, scene: &mut Scene<'_>) {
        while self.bytes > self.budget
            && let Some((_, id)) = self.deadlines.first()
        {
            let id = id.clone();
            self.close(scene, &id, Cause::Room);
        }
    }

    fn touch(&mut self, id: &CellId) {
        self.changes.any = true;
        self.changes.dirty.insert(id.clone());
    }
}
