//! The outbox as persisted bytes: a log of what happened since the last commit,
//! or everything there is.

use super::lane::Progress;
use super::{LaneKind, Outbox, OutboxLedger};
use crate::engine::wire::{Damaged, Reader, put_bytes, put_u64};

pub(super) const OP_PUSH: u8 = 0;
pub(super) const OP_EVICT: u8 = 1;
pub(super) const OP_ACK: u8 = 2;
pub(super) const OP_EPOCH: u8 = 3;
pub(super) const OP_EVICT_APART: u8 = 4;

impl Outbox {
    /// True when nothing happened since the last commit.
    pub fn is_committed(&self) -> bool {
        self.log_len == 0
    }

    /// Appends what happened since the last commit.
    pub(in crate::engine) fn write_changes(&self, out: &mut Vec<u8>) {
        put_u64(out, self.log_len);
        out.extend_from_slice(&self.log);
    }

    /// What happened is durable now; its rows may be published.
    pub(in crate::engine) fn mark_committed(&mut self) {
        self.durable_order = self.next_order;
        self.log.clear();
        self.log_len = 0;
    }

    /// Does again what happened before a commit.
    pub(in crate::engine) fn apply_changes(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let count = reader.u64()?;
        for _ in 0..count {
            let op = reader.u8()?;
            match op {
                OP_PUSH => {
                    let kind = read_lane(reader)?;
                    self.restore_row(kind, reader.bytes()?)?;
                }
                OP_EVICT | OP_EVICT_APART => {
                    let kind = read_lane(reader)?;
                    let (epoch, seq) = (reader.u64()?, reader.u64()?);
                    let index = self.lanes[kind as usize].position(epoch, seq).ok_or(Damaged)?;
                    self.evict(kind, index, op == OP_EVICT_APART);
                }
                OP_ACK => {
                    let kind = read_lane(reader)?;
                    let (epoch, first, last) = (reader.u64()?, reader.u64()?, reader.u64()?);
                    self.ack(kind, epoch, first, last);
                }
                OP_EPOCH => {
                    self.epoch = reader.u64()?;
                    self.next_seq = [0; LaneKind::ALL.len()];
                }
                _ => return Err(Damaged),
            }
        }
        self.durable_order = self.next_order;
        Ok(())
    }

    fn restore_row(&mut self, kind: LaneKind, row: &[u8]) -> Result<(), Damaged> {
        super::row::read(row)?;
        let lane = kind as usize;
        self.lanes[lane].push(self.epoch, self.next_seq[lane], self.next_order, |out| out.extend_from_slice(row));
        self.next_seq[lane] += 1;
        self.next_order += 1;
        self.ledger[lane].queued += 1;
        Ok(())
    }

    /// Appends everything. `hand_over` is asked after each row whether it takes what is there.
    pub(in crate::engine) fn write_all(&self, out: &mut Vec<u8>, hand_over: &mut dyn FnMut(&mut Vec<u8>)) {
        put_u64(out, self.epoch);
        put_u64(out, self.next_order);
        for kind in LaneKind::ALL {
            let lane = &self.lanes[kind as usize];
            let OutboxLedger { queued, acked, evicted } = self.ledger[kind as usize];
            for number in [self.next_seq[kind as usize], queued, acked, evicted, lane.len() as u64] {
                put_u64(out, number);
            }
            for entry in lane.entries() {
                put_u64(out, entry.epoch);
                put_u64(out, entry.seq);
                put_u64(out, entry.order);
                out.push(u8::from(entry.progress == Progress::Acked));
                put_bytes(out, lane.row(entry));
                hand_over(out);
            }
        }
    }

    /// Reads what [`Outbox::write_all`] wrote. Nothing is in flight afterwards.
    pub(in crate::engine) fn read_all(reader: &mut Reader<'_>, bytes_max: usize) -> Result<Outbox, Damaged> {
        let mut outbox = Outbox::new(bytes_max);
        outbox.epoch = reader.u64()?;
        outbox.next_order = reader.u64()?;
        outbox.durable_order = outbox.next_order;
        for kind in LaneKind::ALL {
            let index = kind as usize;
            outbox.next_seq[index] = reader.u64()?;
            let (queued, acked, evicted) = (reader.u64()?, reader.u64()?, reader.u64()?);
            outbox.ledger[index] = OutboxLedger { queued, acked, evicted };
            let rows = reader.u64()?;
            let lane = &mut outbox.lanes[index];
            for _ in 0..rows {
                let (epoch, seq, order) = (reader.u64()?, reader.u64()?, reader.u64()?);
                let acked = reader.u8()? == 1;
                let row = reader.bytes()?;
                super::row::read(row)?;
                lane.push(epoch, seq, order, |out| out.extend_from_slice(row));
                if acked {
                    *lane.progress_mut(lane.len() - 1) = Progress::Acked;
                }
            }
        }
        Ok(outbox)
    }
}

fn read_lane(reader: &mut Reader<'_>) -> Result<LaneKind, Damaged> {
    LaneKind::ALL.get(usize::from(reader.u8()?)).copied().ok_or(Damaged)
}
