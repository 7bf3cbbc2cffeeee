//! The books: every record ends in exactly one place.
//!
//! Per stream: `received = rejected + duplicate + future + ignored + filtered + accepted`.
//! Per window of the stream: `accepted = open + on_time + late_update +
//! side_output + backfilled + dropped + no_window`. Of the readings that are passed on:
//! `accepted = open + on_time + early + side_output`. The unit is the record; a message that cannot be
//! decoded counts as one.

use crate::model::record::RejectReason;

use super::wire::{Damaged, Reader, put_u64};

/// Books of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamLedger {
    /// Everything that arrived, redeliveries aside.
    pub received: u64,
    /// By reason, in the order of [`RejectReason::ALL`].
    pub rejected: [u64; RejectReason::ALL.len()],
    /// Dropped by `dedup`.
    pub duplicate: u64,
    /// Later than the clock allows; whole in lane `late`.
    pub future: u64,
    /// Messages that hold no readings by design: retained ones that are state, not events,
    /// and commands that others sent.
    pub ignored: u64,
    /// Passed over by the stream's `filter`.
    pub filtered: u64,
    /// Taken into the windows.
    pub accepted: u64,

    /// Outside the balance: messages that said who is there.
    pub availability: u64,
    /// Outside the balance: messages recognised as delivered before.
    pub redelivered: u64,
    /// Outside the balance: records that came at `QoS` 0, without any promise.
    pub unprotected: u64,
    /// Outside the balance: fields that accepted records had to leave behind, and values that
    /// could not be named.
    pub fields_left_out: u64,
    /// Outside the balance: fields that `carry_forward` had no room to remember.
    pub fields_not_carried: u64,
    /// Outside the balance: sequence numbers that never came, as far as `dedup` can tell.
    pub sequence_gaps: u64,
    /// Outside the balance: sequences that started over.
    pub sequence_restarts: u64,
    /// Outside the balance: accepted records that should have had a sequence number.
    pub sequence_missing: u64,
    /// Outside the balance: values that a device had held back while it could not send.
    pub historical: u64,
    /// Outside the balance: what was born, to Sparkplug, beyond a bound.
    pub births_not_kept: u64,
    /// Outside the balance: how often a Sparkplug edge node was asked for its births.
    pub rebirths_requested: u64,
    /// Outside the balance: how often a device fell idle.
    pub idled: u64,
    /// Outside the balance: devices whose state was freed after `state_ttl`.
    pub expired: u64,
    /// Outside the balance: tombstones that made room for newer ones.
    pub tombstones_evicted: u64,
}

/// Books of one window definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowLedger {
    /// Records of the stream since this window was defined.
    pub accepted: u64,
    /// In windows that have not fired.
    pub open: u64,
    /// First published by a pane that the watermark fired.
    pub on_time: u64,
    /// First published by an update within allowed lateness.
    pub late_update: u64,
    /// Beyond allowed lateness, or beyond a bound on open windows: published raw.
    pub side_output: u64,
    /// Beyond allowed lateness with `late = "backfill"`: in a delta, emitted or pending.
    pub backfilled: u64,
    /// Beyond allowed lateness with `late = "drop"`.
    pub dropped: u64,
    /// Between two windows: the slide is larger than the size.
    pub no_window: u64,
}

/// Books of the readings that are passed on as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordsLedger {
    /// Records of the stream for which this was on.
    pub accepted: u64,
    /// Held until the watermark passes them.
    pub open: u64,
    /// Sent on arrival, or in order when the watermark had passed them.
    pub on_time: u64,
    /// Sent in order, before the watermark had passed them.
    pub early: u64,
    /// Behind the watermark, or behind what was sent early: in lane `late`.
    pub side_output: u64,
}

impl RecordsLedger {
    /// True when every accepted record is in exactly one place.
    pub fn balances(&self) -> bool {
        self.accepted == self.open + self.on_time + self.early + self.side_output
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for count in [self.accepted, self.open, self.on_time, self.early, self.side_output] {
            put_u64(out, count);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<RecordsLedger, Damaged> {
        Ok(RecordsLedger {
            accepted: reader.u64()?,
            open: reader.u64()?,
            on_time: reader.u64()?,
            early: reader.u64()?,
            side_output: reader.u64()?,
        })
    }
}

impl StreamLedger {
    /// Counts a record or message that could not be used.
    pub fn reject(&mut self, reason: RejectReason) {
        self.received += 1;
        self.rejected[reason as usize] += 1;
    }

    /// Sum over the reasons.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// True when every record that arrived is in exactly one place.
    pub fn balances(&self) -> bool {
        self.received
            == self.rejected_total() + self.duplicate + self.future + self.ignored + self.filtered + self.accepted
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.rejected.len() as u64);
        for count in self.rejected {
            put_u64(out, count);
        }
        for count in [
            self.received,
            self.duplicate,
            self.future,
            self.ignored,
            self.accepted,
            self.redelivered,
            self.unprotected,
            self.fields_left_out,
            self.sequence_gaps,
            self.sequence_restarts,
            self.sequence_missing,
            self.idled,
            self.expired,
            self.tombstones_evicted,
            self.filtered,
            self.availability,
            self.historical,
            self.births_not_kept,
            self.rebirths_requested,
            self.fields_not_carried,
        ] {
            put_u64(out, count);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<StreamLedger, Damaged> {
        let mut ledger = StreamLedger::default();
        let reasons: usize = reader.uint()?;
        for index in 0..reasons {
            let count = reader.u64()?;
            // Reasons are append-only: an older state has fewer of them.
            *ledger.rejected.get_mut(index).ok_or(Damaged)? = count;
        }
        ledger.received = reader.u64()?;
        ledger.duplicate = reader.u64()?;
        ledger.future = reader.u64()?;
        ledger.ignored = reader.u64()?;
        ledger.accepted = reader.u64()?;
        ledger.redelivered = reader.u64()?;
        ledger.unprotected = reader.u64()?;
        ledger.fields_left_out = reader.u64()?;
        ledger.sequence_gaps = reader.u64()?;
        ledger.sequence_restarts = reader.u64()?;
        ledger.sequence_missing = reader.u64()?;
        ledger.idled = reader.u64()?;
        ledger.expired = reader.u64()?;
        ledger.tombstones_evicted = reader.u64()?;
        ledger.filtered = reader.u64()?;
        ledger.availability = reader.u64()?;
        ledger.historical = reader.u64()?;
        ledger.births_not_kept = reader.u64()?;
        ledger.rebirths_requested = reader.u64()?;
        ledger.fields_not_carried = reader.u64()?;
        Ok(ledger)
    }
}

impl WindowLedger {
    /// True when every accepted record is in exactly one place.
    pub fn balances(&self) -> bool {
        let late = self.side_output + self.backfilled + self.dropped;
        let settled = self.on_time + self.late_update + late + self.no_window;
        self.accepted == self.open + settled
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for count in [
            self.accepted,
            self.open,
            self.on_time,
            self.late_update,
            self.side_output,
            self.backfilled,
            self.dropped,
            self.no_window,
        ] {
            put_u64(out, count);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<WindowLedger, Damaged> {
        Ok(WindowLedger {
            accepted: reader.u64()?,
            open: reader.u64()?,
            on_time: reader.u64()?,
            late_update: reader.u64()?,
            side_output: reader.u64()?,
            backfilled: reader.u64()?,
            dropped: reader.u64()?,
            no_window: reader.u64()?,
        })
    }
}
