//! The state of an interval join: what of it has changed, or all of it.

use std::sync::Arc;

use crate::engine::join::books::IntervalSideLedger;
use crate::engine::join::interval_join::{self, IntervalJoin, Kept, RecordId};
use crate::engine::outbox::row::check_values;
use crate::engine::snapshot::Extent;
use crate::engine::timers::LiveTime;
use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_str, put_u64};
use crate::model::record::TimeSource;
use crate::model::time::EventTime;

use super::{put_left, read_left};

const RECORD_MATCHED: u8 = 1;
const RECORD_RECEIVE_TIME: u8 = 2;

impl IntervalJoin {
    pub(super) fn write(&self, out: &mut Vec<u8>, extent: Extent, live: LiveTime) {
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
            out.push((u8::from(kept.matched) * RECORD_MATCHED) | receive);
            put_i64(out, kept.until.as_millis());
            put_left(out, kept.deadline, live);
            put_bytes(out, &kept.values);
        }
    }

    pub(super) fn read(&mut self, reader: &mut Reader<'_>, written: LiveTime) -> Result<(), Damaged> {
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
            let until = EventTime::from_millis(reader.i64()?);
            let deadline = read_left(reader, written)?;
            let values = reader.bytes()?;
            check_values(values)?;
            let values = Box::from(values);
            self.insert(id, Kept { values, source, matched: flags & RECORD_MATCHED != 0, until, deadline, wait: None });
        }
        Ok(())
    }

    pub(super) fn take_over(&mut self, old: IntervalJoin) {
        (self.books, self.pairs, self.next_number) = (old.books, old.pairs, old.next_number);
        for (id, kept) in old.records {
            self.insert(id, Kept { wait: None, ..kept });
        }
    }

    pub(super) fn give_up(&mut self) {
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
