//! The state of a window join: what of it has changed, or all of it.

use std::sync::Arc;

use crate::engine::join::Scene;
use crate::engine::join::books::WindowJoinLedger;
use crate::engine::join::cell::{Cell, CellId};
use crate::engine::join::window_join::{self, WindowJoin};
use crate::engine::outbox::row::{self, Row};
use crate::engine::snapshot::Extent;
use crate::engine::timers::LiveTime;
use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_str, put_time, put_u64};
use crate::model::time::{EventTime, Span};

use super::{put_left, read_left};

const CELL_PASSED: u8 = 1;
const CELL_CLOSING: u8 = 4;
const CELL_SETTLED: u8 = 2;

impl WindowJoin {
    pub(super) fn write(&self, out: &mut Vec<u8>, extent: Extent, live: LiveTime) {
        self.books.write(out);
        put_time(out, self.fences.floor);
        put_u64(out, u64::from(self.first_revision));
        put_u64(out, u64::from(self.next_revision));
        match extent {
            Extent::Changes => {
                put_u64(out, self.changes.removed.len() as u64);
                self.changes.removed.iter().for_each(|id| write_cell_id(out, id));
                put_u64(out, self.fences.changed.len() as u64);
                for key in &self.fences.changed {
                    put_str(out, key);
                    put_time(out, self.fences.by_key.get(key).copied());
                }
                let dirty: Vec<_> = self.changes.dirty.iter().filter_map(|id| self.cells.get_key_value(id)).collect();
                put_u64(out, dirty.len() as u64);
                for (id, cell) in dirty {
                    write_cell(out, id, cell, live);
                }
            }
            Extent::Whole => {
                put_u64(out, 0);
                put_u64(out, self.fences.by_key.len() as u64);
                for (key, until) in &self.fences.by_key {
                    put_str(out, key);
                    put_time(out, Some(*until));
                }
                put_u64(out, self.cells.len() as u64);
                self.cells.iter().for_each(|(id, cell)| write_cell(out, id, cell, live));
            }
        }
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'_>, written: LiveTime) -> Result<(), Damaged> {
        self.books = WindowJoinLedger::read(reader)?;
        self.fences.floor = reader.time()?;
        self.first_revision = reader.uint()?;
        self.next_revision = reader.uint()?;
        for _ in 0..reader.u64()? {
            let id = read_cell_id(reader)?;
            self.remove(&id);
        }
        for _ in 0..reader.u64()? {
            let key = Arc::from(reader.str()?);
            match reader.time()? {
                Some(until) => self.fences.by_key.insert(key, until),
                None => self.fences.by_key.remove(&key),
            };
        }
        for _ in 0..reader.u64()? {
            let (id, cell) = read_cell(reader, self.sides.len(), written)?;
            self.insert(id, cell);
        }
        Ok(())
    }

    pub(super) fn take_over(&mut self, old: WindowJoin) {
        self.books = old.books;
        self.fences = old.fences;
        self.first_revision = old.first_revision;
        self.next_revision = old.next_revision;
        for (id, cell) in old.cells {
            self.insert(id, Cell { wait: None, ..cell });
        }
    }

    pub(super) fn give_up(&mut self, scene: &mut Scene<'_>) {
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
    out.push(
        (u8::from(cell.passed) * CELL_PASSED)
            | (u8::from(cell.settled) * CELL_SETTLED)
            | (u8::from(cell.closing) * CELL_CLOSING),
    );
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

fn read_cell(reader: &mut Reader<'_>, sides: usize, written: LiveTime) -> Result<(CellId, Cell), Damaged> {
    let id = read_cell_id(reader)?;
    let end = id.start + Span::from_millis(reader.u64()?);
    let flags = reader.u8()?;
    let (revision, deadline) = (reader.uint()?, read_left(reader, written)?);
    let mut panes = Vec::with_capacity(sides);
    for _ in 0..sides {
        panes.push(match reader.u8()? {
            0 => None,
            1 => {
                let pane = reader.bytes()?;
                let Row::Pane(..) = row::read(pane)? else { return Err(Damaged) };
                Some(Box::from(pane))
            }
            _ => return Err(Damaged),
        });
    }
    let is_set = |flag: u8| flags & flag != 0;
    let (passed, settled, closing) = (is_set(CELL_PASSED), is_set(CELL_SETTLED), is_set(CELL_CLOSING));
    Ok((id, Cell { end, panes, revision, passed, settled, deadline, closing, wait: None, news: None }))
}
