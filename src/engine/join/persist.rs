//! Joins as persisted bytes, and what a changed configuration makes of them.
//!
//! ```text
//! snapshot: n × (definition | section)      page: n × (0 | 1 section)
//!
//! definition: name | ttl | window: outer, n × (stream | window)
//!                        | interval: left | right | lower | upper | key
//! window:     books | floor | revisions | removed | fences | n × cell
//! interval:   books of both sides | pairs | next number | removed | n × record
//! ```
//!
//! A deadline is stored as the time that is left.

use std::sync::Arc;

use crate::engine::snapshot::Extent;
use crate::engine::spec::{JoinKind, JoinSpec, KeySpec, WindowRef};
use crate::engine::stream::Stream;
use crate::engine::timers::LiveTime;
use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_str, put_time, put_u64};
use crate::model::ids::Name;
use crate::model::record::TimeSource;
use crate::model::time::{EventTime, Span};

use super::books::{IntervalSideLedger, WindowJoinLedger};
use super::interval_join::{self, IntervalJoin, Kept, RecordId};
use super::window_join::{self, Cell, CellId, WindowJoin};
use super::{Join, Joins, Scene};

const CELL_PASSED: u8 = 1;
const CELL_SETTLED: u8 = 2;
const RECORD_MATCHED: u8 = 1;
const RECORD_RECEIVE_TIME: u8 = 2;

impl Joins {
    /// True when a commit would write nothing.
    pub(in crate::engine) fn is_committed(&self) -> bool {
        !self.list.iter().any(Join::has_changed)
    }

    /// Everything so far is durable.
    pub(in crate::engine) fn mark_committed(&mut self) {
        for join in &mut self.list {
            match join {
                Join::Window(join) => join.changes = window_join::Changes::default(),
                Join::Interval(join) => join.changes = interval_join::Changes::default(),
            }
        }
    }

    pub(in crate::engine) fn write_all(&self, out: &mut Vec<u8>, live: LiveTime) {
        put_u64(out, self.list.len() as u64);
        for (spec, join) in self.specs.iter().zip(&self.list) {
            write_definition(out, spec);
            join.write(out, Extent::Whole, live);
        }
    }

    /// Reads what [`Joins::write_all`] wrote, between `streams` as they were then.
    pub(in crate::engine) fn read_all(reader: &mut Reader<'_>, streams: &[Stream]) -> Result<Joins, Damaged> {
        let mut joins = Joins::new(&[], streams).ok_or(Damaged)?;
        for _ in 0..reader.u64()? {
            let spec = read_definition(reader)?;
            // Room is made when the configuration of today is known.
            joins.add(&spec, streams, usize::MAX).ok_or(Damaged)?;
            joins.specs.push(spec);
            joins.list.last_mut().ok_or(Damaged)?.read(reader)?;
        }
        Ok(joins)
    }

    pub(in crate::engine) fn write_changes(&self, out: &mut Vec<u8>, live: LiveTime) {
        for join in &self.list {
            out.push(u8::from(join.has_changed()));
            if join.has_changed() {
                join.write(out, Extent::Changes, live);
            }
        }
    }

    pub(in crate::engine) fn apply_changes(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for join in &mut self.list {
            if reader.u8()? == 1 {
                join.read(reader)?;
            }
        }
        Ok(())
    }

    /// Takes over what the joins of before had, as far as they are the same. Of one that
    /// is not, what is complete is emitted, and the rest is counted. Returns true when
    /// anything differs.
    pub(in crate::engine) fn take_over(&mut self, mut old: Joins, scene: &mut Scene<'_>) -> bool {
        old.mark_committed();
        let changed = old.specs != self.specs || old.geometry != self.geometry;
        for (place, join) in old.list.into_iter().enumerate() {
            let target = self.specs.iter().position(|spec| spec.name == old.specs[place].name);
            let same = target.is_some_and(|target| {
                self.specs[target].kind == old.specs[place].kind && self.geometry[target] == old.geometry[place]
            });
            match (join, target.map(|target| &mut self.list[target])) {
                (Join::Window(old), Some(Join::Window(new))) if same => new.take_over(old),
                (Join::Interval(old), Some(Join::Interval(new))) if same => new.take_over(old),
                (Join::Window(mut old), new) => {
                    old.give_up(scene);
                    if let Some(Join::Window(new)) = new {
                        new.books = old.books;
                        // Ids that the old definition has used stay below.
                        new.first_revision = old.next_revision.max(old.first_revision);
                    }
                }
                (Join::Interval(mut old), new) => {
                    old.give_up();
                    if let Some(Join::Interval(new)) = new {
                        (new.books, new.pairs) = (old.books, old.pairs);
                    }
                }
            }
        }
        changed
    }
}

impl Join {
    fn has_changed(&self) -> bool {
        match self {
            Join::Window(join) => join.changes.any,
            Join::Interval(join) => join.changes.any,
        }
    }

    fn write(&self, out: &mut Vec<u8>, extent: Extent, live: LiveTime) {
        match self {
            Join::Window(join) => join.write(out, extent, live),
            Join::Interval(join) => join.write(out, extent, live),
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        match self {
            Join::Window(join) => join.read(reader),
            Join::Interval(join) => join.read(reader),
        }
    }
}

fn write_definition(out: &mut Vec<u8>, spec: &JoinSpec) {
    put_str(out, spec.name.as_str());
    put_u64(out, spec.ttl.as_millis());
    match &spec.kind {
        JoinKind::Window { sides, outer } => {
            out.push(u8::from(*outer));
            put_u64(out, sides.len() as u64);
            for side in sides {
                put_str(out, side.stream.as_str());
                put_str(out, side.window.as_str());
            }
        }
        JoinKind::Interval { left, right, lower_ms, upper_ms, key } => {
            out.push(match key {
                KeySpec::Device => 2,
                KeySpec::Group => 3,
                KeySpec::Stream => 4,
            });
            put_str(out, left.as_str());
            put_str(out, right.as_str());
            put_i64(out, *lower_ms);
            put_i64(out, *upper_ms);
        }
    }
}

fn read_definition(reader: &mut Reader<'_>) -> Result<JoinSpec, Damaged> {
    let name = read_name(reader)?;
    let ttl = Span::from_millis(reader.u64()?);
    let kind = match reader.u8()? {
        outer @ (0 | 1) => {
            let mut sides = Vec::new();
            for _ in 0..reader.u64()? {
                sides.push(WindowRef { stream: read_name(reader)?, window: read_name(reader)? });
            }
            JoinKind::Window { sides, outer: outer == 1 }
        }
        key @ 2..=4 => {
            let key = [KeySpec::Device, KeySpec::Group, KeySpec::Stream][usize::from(key - 2)];
            let (left, right) = (read_name(reader)?, read_name(reader)?);
            let (lower_ms, upper_ms) = (reader.i64()?, reader.i64()?);
            if lower_ms > upper_ms {
                return Err(Damaged);
            }
            JoinKind::Interval { left, right, lower_ms, upper_ms, key }
        }
        _ => return Err(Damaged),
    };
    Ok(JoinSpec { name, ttl, kind })
}

fn read_name(reader: &mut Reader<'_>) -> Result<Name, Damaged> {
    Name::new(reader.str()?).ok_or(Damaged)
}

fn put_left(out: &mut Vec<u8>, deadline: LiveTime, live: LiveTime) {
    put_u64(out, deadline.remaining(live).as_millis());
}

fn read_left(reader: &mut Reader<'_>) -> Result<LiveTime, Damaged> {
    Ok(LiveTime::default().plus(Span::from_millis(reader.u64()?)))
}

impl WindowJoin {
    fn write(&self, out: &mut Vec<u8>, extent: Extent, live: LiveTime) {
        self.books.write(out);
        put_time(out, self.floor);
        put_u64(out, u64::from(self.first_revision));
        put_u64(out, u64::from(self.next_revision));
        match extent {
            Extent::Changes => {
                put_u64(out, self.changes.removed.len() as u64);
                self.changes.removed.iter().for_each(|id| write_cell_id(out, id));
                put_u64(out, self.changes.fences.len() as u64);
                for key in &self.changes.fences {
                    put_str(out, key);
                    put_time(out, self.fences.get(key).copied());
                }
                let dirty: Vec<_> = self.changes.dirty.iter().filter_map(|id| self.cells.get_key_value(id)).collect();
                put_u64(out, dirty.len() as u64);
                dirty.into_iter().for_each(|(id, cell)| write_cell(out, id, cell, live));
            }
            Extent::Whole => {
                put_u64(out, 0);
                put_u64(out, self.fences.len() as u64);
                for (key, until) in &self.fences {
                    put_str(out, key);
                    put_time(out, Some(*until));
                }
                put_u64(out, self.cells.len() as u64);
                self.cells.iter().for_each(|(id, cell)| write_cell(out, id, cell, live));
            }
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        self.books = WindowJoinLedger::read(reader)?;
        self.floor = reader.time()?;
        self.first_revision = reader.uint()?;
        self.next_revision = reader.uint()?;
        for _ in 0..reader.u64()? {
            let id = read_cell_id(reader)?;
            self.remove(&id);
        }
        for _ in 0..reader.u64()? {
            let key = Arc::from(reader.str()?);
            match reader.time()? {
                Some(until) => self.fences.insert(key, until),
                None => self.fences.remove(&key),
            };
        }
        for _ in 0..reader.u64()? {
            let (id, cell) = read_cell(reader, self.sides.len())?;
            self.insert(id, cell);
        }
        Ok(())
    }

    fn take_over(&mut self, old: WindowJoin) {
        self.books = old.books;
        self.fences = old.fences;
        self.floor = old.floor;
        self.first_revision = old.first_revision;
        self.next_revision = old.next_revision;
        for (id, cell) in old.cells {
            self.insert(id, Cell { wait: None, ..cell });
        }
    }

    fn give_up(&mut self, scene: &mut Scene<'_>) {
        for id in self.cells.keys().cloned().collect::<Vec<_>>() {
            self.close(scene, &id, window_join::Cause::Redefined);
        }
    }
}

fn write_cell_id(out: &mut Vec<u8>, id: &CellId) {
    put_str(out, &id.key);
    put_i64(out, id.start.as_millis());
}

fn read_cell_id(reader: &mut Reader<'_>) -> Result<CellId, Damaged> {
    Ok(CellId { key: Arc::from(reader.str()?), start: EventTime::from_millis(reader.i64()?) })
}

fn write_cell(out: &mut Vec<u8>, id: &CellId, cell: &Cell, live: LiveTime) {
    write_cell_id(out, id);
    put_u64(out, id.start.lag_behind(cell.end).as_millis());
    out.push(u8::from(cell.passed) * CELL_PASSED | u8::from(cell.settled) * CELL_SETTLED);
    put_u64(out, u64::from(cell.revision));
    put_left(out, cell.deadline, live);
    for pane in &cell.panes {
        match pane {
            None => out.push(0),
            Some(pane) => {
                out.push(1);
                put_bytes(out, pane);
            }
        }
    }
}

fn read_cell(reader: &mut Reader<'_>, sides: usize) -> Result<(CellId, Cell), Damaged> {
    let id = read_cell_id(reader)?;
    let end = id.start + Span::from_millis(reader.u64()?);
    let flags = reader.u8()?;
    let (revision, deadline) = (reader.uint()?, read_left(reader)?);
    let mut panes = Vec::with_capacity(sides);
    for _ in 0..sides {
        panes.push(match reader.u8()? {
            0 => None,
            1 => {
                let pane = reader.bytes()?;
                crate::engine::outbox::row::read(pane)?;
                Some(Box::from(pane))
            }
            _ => return Err(Damaged),
        });
    }
    let (passed, settled) = (flags & CELL_PASSED != 0, flags & CELL_SETTLED != 0);
    Ok((id, Cell { end, panes, revision, passed, settled, deadline, wait: None }))
}

impl IntervalJoin {
    fn write(&self, out: &mut Vec<u8>, extent: Extent, live: LiveTime) {
        self.books.iter().for_each(|books| books.write(out));
        put_u64(out, self.pairs);
        put_u64(out, self.next_number);
        let written: Vec<_> = match extent {
            Extent::Changes => {
                put_u64(out, self.changes.removed.len() as u64);
                self.changes.removed.iter().for_each(|id| write_record_id(out, id));
                self.changes.dirty.iter().filter_map(|id| self.records.get_key_value(id)).collect()
            }
            Extent::Whole => {
                put_u64(out, 0);
                self.records.iter().collect()
            }
        };
        put_u64(out, written.len() as u64);
        for (id, kept) in written {
            write_record_id(out, id);
            let receive = u8::from(kept.source == TimeSource::Receive) * RECORD_RECEIVE_TIME;
            out.push(u8::from(kept.matched) * RECORD_MATCHED | receive);
            put_left(out, kept.deadline, live);
            put_bytes(out, &kept.values);
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for books in &mut self.books {
            *books = IntervalSideLedger::read(reader)?;
        }
        self.pairs = reader.u64()?;
        self.next_number = reader.u64()?;
        for _ in 0..reader.u64()? {
            let id = read_record_id(reader)?;
            self.remove(&id);
        }
        for _ in 0..reader.u64()? {
            let id = read_record_id(reader)?;
            let flags = reader.u8()?;
            let receive = flags & RECORD_RECEIVE_TIME != 0;
            let source = if receive { TimeSource::Receive } else { TimeSource::Device };
            let deadline = read_left(reader)?;
            let values = Box::from(reader.bytes()?);
            self.insert(id, Kept { values, source, matched: flags & RECORD_MATCHED != 0, deadline, wait: None });
        }
        Ok(())
    }

    fn take_over(&mut self, old: IntervalJoin) {
        (self.books, self.pairs, self.next_number) = (old.books, old.pairs, old.next_number);
        for (id, kept) in old.records {
            self.insert(id, Kept { wait: None, ..kept });
        }
    }

    fn give_up(&mut self) {
        for id in self.records.keys().cloned().collect::<Vec<_>>() {
            self.let_go(&id, interval_join::Cause::Redefined);
        }
    }
}

fn write_record_id(out: &mut Vec<u8>, id: &RecordId) {
    put_str(out, &id.key);
    out.push(id.side);
    put_i64(out, id.at.as_millis());
    put_u64(out, id.number);
}

fn read_record_id(reader: &mut Reader<'_>) -> Result<RecordId, Damaged> {
    let (key, side) = (Arc::from(reader.str()?), reader.u8()?);
    if side > 1 {
        return Err(Damaged);
    }
    Ok(RecordId { key, side, at: EventTime::from_millis(reader.i64()?), number: reader.u64()? })
}
