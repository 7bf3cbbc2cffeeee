//! A record meets the sessions of its device.
//!
//! **Ids.** A session is named by the time of the record that opened it, and keeps that
//! name however it grows, forwards or backwards. A merged one keeps the smallest of its
//! parts' names, which is that of the earliest part: each name is a time inside its
//! session, and sessions do not overlap. The other names are void once they were
//! published (`replaces`).
//!
//! **No name is used twice.** Suppose a record at t opens a session, and t had been the
//! name of S, or of a part of S. If S lives, t is inside it, and the record joins it. If S
//! has expired, so has whatever the record could open: S reached to t + gap at least,
//! for it held a record at t, so that `t + gap - 1 + lateness` is not above the watermark,
//! which never moves back. With a maximum length S may have been cut short at the start
//! of the session after it, N. While N lives, what the record opens is cut there too, and
//! has expired with S. If N has expired as well, it reached to t + gap, or was cut at the
//! start of another one after it, for which the same holds; and what ended last was not
//! cut.

use crate::model::time::{EventTime, Span};

use super::{Addition, Outcome, take_in, window_tag};
use crate::engine::emit::Emit;
use crate::engine::fire::{due_of, keep_buffer};
use crate::engine::stream::Stream;
use crate::engine::window::pane::Pane;
use crate::engine::window::{Interval, session};

impl Stream {
    /// Lateness is judged on the merged session: a record that would be late alone
    /// is kept if it touches a live one.
    pub(super) fn add_to_session(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        gap: Span,
        max_length: Option<Span>,
    ) -> Outcome {
        let lateness = self.spec.windows[addition.window].lateness;
        let tag = window_tag(addition.window);
        let panes = &self.devices.get(addition.slot).panes;
        let first_of_kind = panes.partition_point(|pane| pane.window < tag);
        let past_of_kind = panes.partition_point(|pane| pane.window <= tag);
        let sessions = &panes[first_of_kind..past_of_kind];
        let (touched, merged) = session::join(sessions, addition.record.at, gap, max_length);
        if addition.watermark.has_expired(merged.end, lateness) {
            return Outcome::Expired;
        }
        let first = first_of_kind + touched.start;
        if touched.is_empty() {
            if let Err(refused) = self.open_pane(out, addition, merged, first) {
                return refused;
            }
        } else {
            self.merge_sessions(out, addition, first, touched.len(), merged);
        }
        self.take_into_session(out, addition, first, merged.end)
    }

    /// Makes one of `count` sessions from place `first` on; nearly always the one session
    /// that goes on, and then nothing is copied.
    fn merge_sessions(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        first: usize,
        count: usize,
        merged: Interval,
    ) {
        let aggregates = &self.spec.windows[addition.window].aggregates;
        let tag = window_tag(addition.window);
        let panes = &mut self.devices.get_mut(addition.slot).panes;
        let cost_of = |panes: &[Pane]| panes.iter().map(|pane| pane.cost(aggregates)).sum::<usize>();
        *out.open_cost -= cost_of(&panes[first..first + count]);
        if panes[first].start != merged.start {
            self.changes.removed.push((addition.slot, tag, panes[first].start));
            panes[first].start = merged.start;
        }
        for _ in 1..count {
            let other = panes.remove(first + 1);
            self.open_panes -= 1;
            self.changes.removed.push((addition.slot, tag, other.start));
            panes[first].merge(&other, aggregates);
            keep_buffer(&mut self.spare, other.accumulators);
        }
        panes[first].end = merged.end;
        *out.open_cost += cost_of(&panes[first..=first]);
    }

    fn take_into_session(
        &mut self,
        out: &mut Emit<'_>,
        addition: &Addition<'_>,
        index: usize,
        end: EventTime,
    ) -> Outcome {
        let is_cut = !self.retiring.is_empty() && self.is_cut(addition.window, addition.slot, end);
        let spec = &self.spec.windows[addition.window];
        let early = spec.early;
        let pane = &mut self.devices.get_mut(addition.slot).panes[index];
        self.ledger.fields_left_out += take_in(out, pane, addition.record, &spec.aggregates, self.fields.states());
        pane.partial |= is_cut;
        let late = addition.watermark.has_passed(end);
        // What was still open is published by the firing that follows.
        let settled = if late { core::mem::take(&mut pane.unsettled) } else { 0 };
        pane.fired = late;
        pane.unsettled += u64::from(!late);
        let due = due_of(pane, spec);
        let books = &mut self.windows[addition.window];
        books.open -= settled;
        books.late_update += settled;
        self.recompute_due(addition.slot, due);
        if late {
            self.update(out, addition, index);
            return Outcome::LateUpdate;
        }
        if let Some(every) = early {
            self.show_by(addition.slot, index, out.now.proc + every);
        }
        Outcome::Open
    }
}
