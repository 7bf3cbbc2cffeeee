//! Window definitions of before, while what they have begun finishes.
//!
//! A window that is defined anew, or is defined no more, is not cut off. Each device has a
//! **border**: behind everything that it has sent, where a window of the old definition ends
//! and one of the new one begins. What is before it is the old definition's, which fires its
//! windows as ever; what is behind it is the new one's. So windows are whole, no id is used
//! under two definitions, and each record counts once.
//!
//! ```text
//!            newest record    border
//!  old  ├────────┼───▲────┼────────┤          10 s, and nothing opens behind the border
//!  new               ╵             ├──────────────────┤  20 s
//! ```
//!
//! Where the two never meet, the border is at the next start of the new one, and a window that
//! reaches over it is `partial`. Sliding windows overlap anyhow: those that start before the
//! border take all that falls into them. Sessions end at the border.
//!
//! A device that is not known yet begins with the new definition. One that was silent since
//! then keeps the old one waiting; of more than [`RETIRING_MAX`] the oldest is ended as it is,
//! and its open windows are emitted `partial`.
//!
//! An old definition lies behind those of the configuration in a stream's list of windows, with
//! books of its own, which are those of its name for whoever looks. It goes with a snapshot,
//! when its last border is past: pages refer to windows by number.

use std::collections::BTreeMap;

use crate::model::ids::Name;
use crate::model::limits::WINDOWS_MAX;
use crate::model::time::{EventTime, Span};

use super::Engine;
use super::devices::SlotKind;
use super::ledger::WindowLedger;
use super::spec::{KeySpec, WindowKind, WindowSpec};
use super::stream::Stream;
use super::window::{sliding, tumbling};
use super::wire::{Damaged, Reader, put_i64, put_time, put_u64};

/// Old definitions of one stream.
pub(super) const RETIRING_MAX: usize = WINDOWS_MAX;

/// Bytes of a tenure in memory; a snapshot has less.
const TENURE_COST: usize = 48;

/// Starts that are tried for one at which windows of both definitions begin.
const COMMON_STARTS_MAX: usize = 64;

/// Whose windows an old definition still has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Retiring {
    /// By slot.
    tenures: BTreeMap<u32, Tenure>,
}

/// What a definition has for one device, group or stream: times of records, and of sliding
/// windows their starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    /// Before this.
    pub until: EventTime,
    /// Windows that start there or earlier were another definition's before it, and stay shut.
    pub after: Option<EventTime>,
}

/// Starts of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Starts {
    from: EventTime,
    until: EventTime,
}

impl Starts {
    const ALL: Starts = Starts { from: EventTime::MIN, until: EventTime::MAX };

    /// Whether a window that starts there is one of them.
    #[inline]
    pub(super) fn hold(self, start: EventTime) -> bool {
        self.from <= start && (start < self.until || self.until == EventTime::MAX)
    }
}

impl Retiring {
    /// Takes what starts before `until`, and behind `after`. Nothing, when that is empty.
    pub(super) fn set(&mut self, slot: u32, tenure: Tenure) {
        if tenure.after.is_none_or(|after| after + Span::MILLI < tenure.until) {
            self.tenures.insert(slot, tenure);
        }
    }

    /// The slot is another device's from now on.
    pub(super) fn forget(&mut self, slot: u32) {
        self.tenures.remove(&slot);
    }

    /// Moves the end of each tenure, which `until` is told.
    pub(super) fn extend(&mut self, until: impl Fn(u32, EventTime) -> EventTime) {
        for (slot, tenure) in &mut self.tenures {
            tenure.until = until(*slot, tenure.until);
        }
    }

    /// Moves the end of one.
    pub(super) fn end_at(&mut self, slot: u32, until: EventTime) {
        if let Some(tenure) = self.tenures.get_mut(&slot) {
            tenure.until = until;
        }
    }

    pub(super) fn until(&self, slot: u32) -> Option<EventTime> {
        self.tenures.get(&slot).map(|tenure| tenure.until)
    }

    pub(super) fn is_over(&self) -> bool {
        self.tenures.is_empty()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.tenures.len() as u64);
        for (slot, tenure) in &self.tenures {
            put_u64(out, u64::from(*slot));
            put_time(out, tenure.after);
            put_i64(out, tenure.until.as_millis());
        }
    }

    /// Reads what [`Retiring::write`] wrote.
    ///
    /// # Errors
    /// [`Damaged`] when the bytes are none.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Retiring, Damaged> {
        let mut retiring = Retiring::default();
        for _ in 0..reader.u64()? {
            let slot = reader.uint()?;
            let tenure = Tenure { after: reader.time()?, until: EventTime::from_millis(reader.i64()?) };
            retiring.tenures.insert(slot, tenure);
        }
        Ok(retiring)
    }
}

impl Stream {
    /// How many windows are those of the configuration: the first ones.
    pub(super) fn defined(&self) -> usize {
        self.spec.windows.len() - self.retiring.len()
    }

    /// Whether the id of a window was used under another definition.
    pub(super) fn is_shut(&self, window: usize, slot: u32, start: EventTime) -> bool {
        if let Some(old) = window.checked_sub(self.defined()) {
            let tenure = self.retiring[old].tenures.get(&slot);
            return tenure.is_some_and(|tenure| tenure.after.is_some_and(|after| start <= after));
        }
        if self.fences.is_empty() {
            return false;
        }
        let name = &self.spec.windows[window].name;
        self.fences.last_shut(name, slot, &self.devices).is_some_and(|until| start <= until)
    }

    /// What a definition has of the windows of a record; `None`: nothing. What an older one had
    /// that is over already is the next one's: it is too late there, and that is told once.
    #[inline]
    pub(super) fn starts_for(&self, window: usize, slot: u32, at: EventTime) -> Option<Starts> {
        if self.retiring.is_empty() { Some(Starts::ALL) } else { self.starts_beside_others(window, slot, at) }
    }

    fn starts_beside_others(&self, window: usize, slot: u32, at: EventTime) -> Option<Starts> {
        let name = &self.spec.windows[window].name;
        let old = window.checked_sub(self.defined());
        let until = match old {
            Some(old) => self.until(old, slot)?,
            None => EventTime::MAX,
        };
        let earlier = old.unwrap_or(self.retiring.len());
        let starts = Starts { from: self.border_of(earlier, name, slot).unwrap_or(EventTime::MIN), until };
        let concerns = starts == Starts::ALL
            || match self.spec.windows[window].kind {
                WindowKind::Tumbling { .. } | WindowKind::Calendar { .. } | WindowKind::Session { .. } => {
                    starts.hold(at)
                }
                WindowKind::Sliding { size, slide, offset_ms } => {
                    sliding::covering(at, size, slide, offset_ms).any(|interval| starts.hold(interval.start))
                }
            };
        concerns.then_some(starts)
    }

    /// Where windows of this name begin to be those of the configuration.
    pub(super) fn border(&self, name: &Name, slot: u32) -> Option<EventTime> {
        self.border_of(self.retiring.len(), name, slot)
    }

    /// The same for the definition behind the first `earlier` that finish.
    fn border_of(&self, earlier: usize, name: &Name, slot: u32) -> Option<EventTime> {
        let of_name = |old: &usize| self.spec.windows[self.defined() + old].name == *name;
        (0..earlier).filter(of_name).filter_map(|old| self.until(old, slot)).max()
    }

    /// Until where an old definition has the windows of a slot; `None`: it has none, or the
    /// watermark is past all that it could add to.
    fn until(&self, old: usize, slot: u32) -> Option<EventTime> {
        let until = self.retiring[old].until(slot)?;
        let spec = &self.spec.windows[self.defined() + old];
        let last = end_after(until - Span::MILLI, spec.kind);
        (!self.watermark_of(slot).has_expired(last, spec.lateness)).then_some(until)
    }

    /// Whether a window of a definition that finishes ends behind the border, so that it lacks
    /// what comes after that. Sliding windows do not.
    pub(super) fn is_cut(&self, window: usize, slot: u32, end: EventTime) -> bool {
        let Some(old) = window.checked_sub(self.defined()) else { return false };
        !matches!(self.spec.windows[window].kind, WindowKind::Sliding { .. })
            && self.retiring[old].until(slot).is_some_and(|until| until < end)
    }

    /// Marks the open windows that will lack something.
    pub(super) fn mark_cut(&mut self) {
        let defined = self.defined();
        for slot in self.all_slots() {
            let mut panes = core::mem::take(&mut self.devices.get_mut(slot).panes);
            for pane in panes.iter_mut().filter(|pane| usize::from(pane.window) >= defined) {
                pane.partial |= self.is_cut(pane.window.into(), slot, pane.end);
            }
            self.devices.get_mut(slot).panes = panes;
        }
    }

    /// Lets go of borders that are past, and of definitions without any. True when some went,
    /// so that windows have other numbers than in the last snapshot. Nothing may be uncommitted.
    pub(super) fn drop_retired(&mut self) -> bool {
        if self.retiring.is_empty() {
            return false;
        }
        let defined = self.defined();
        for old in 0..self.retiring.len() {
            let slots: Vec<u32> = self.retiring[old].tenures.keys().copied().collect();
            for slot in slots {
                if self.until(old, slot).is_none() && !self.holds_any(defined + old, slot) {
                    self.retiring[old].forget(slot);
                }
            }
        }
        if !self.retiring.iter().any(Retiring::is_over) {
            return false;
        }
        self.remove_retired();
        true
    }

    /// Bytes of borders.
    pub(super) fn tenures_cost(&self) -> usize {
        self.retiring.iter().map(|retiring| retiring.tenures.len()).sum::<usize>() * TENURE_COST
    }

    /// Ends the oldest definition that finishes, whose windows are gone.
    pub(super) fn drop_oldest_retired(&mut self) {
        if let Some(oldest) = self.retiring.first_mut() {
            *oldest = Retiring::default();
            self.remove_retired();
        }
    }

    fn holds_any(&self, window: usize, slot: u32) -> bool {
        let panes = &self.devices.get(slot).panes;
        let deltas = self.backfill.bursts.keys();
        panes.iter().any(|pane| usize::from(pane.window) == window)
            || deltas.into_iter().any(|key| *key == (slot, u8::try_from(window).unwrap_or(u8::MAX)))
    }

    /// Those that are over. They hold nothing.
    fn remove_retired(&mut self) {
        let defined = self.defined();
        let mut places: Vec<Option<usize>> = (0..defined).map(Some).collect();
        let mut next = defined;
        for retiring in &self.retiring {
            let goes_on = !retiring.is_over();
            places.push(goes_on.then_some(next));
            next += usize::from(goes_on);
        }
        let specs = core::mem::take(&mut self.spec.windows);
        let books = core::mem::take(&mut self.windows);
        for ((spec, books), place) in specs.into_iter().zip(books).zip(&places) {
            if place.is_some() {
                self.spec.windows.push(spec);
                self.windows.push(books);
            } else if let Some(heir) = self.spec.windows.iter().position(|heir| heir.name == spec.name) {
                self.windows[heir].add(&books);
            }
        }
        self.retiring.retain(|retiring| !retiring.is_over());
        self.renumber_windows(&places);
        self.calendars = super::stream::calendars_of(&self.spec);
    }

    /// Moves what is in windows to their new places. What has none is gone already.
    pub(super) fn renumber_windows(&mut self, places: &[Option<usize>]) {
        let place = |window: u8| places[usize::from(window)].and_then(|place| u8::try_from(place).ok());
        for slot in self.all_slots() {
            let panes = &mut self.devices.get_mut(slot).panes;
            panes.retain_mut(|pane| match place(pane.window) {
                Some(window) => {
                    pane.window = window;
                    true
                }
                None => false,
            });
            panes.sort_by_key(|pane| (pane.window, pane.start));
        }
        for ((slot, window), mut burst) in core::mem::take(&mut self.backfill.bursts) {
            let Some(window) = place(window) else { continue };
            burst.deltas.iter_mut().for_each(|delta| delta.window = window);
            self.backfill.bursts.insert((slot, window), burst);
        }
        self.backfill.rearm();
    }
}

impl Engine {
    /// See [`Stream::drop_retired`].
    pub(super) fn drop_retired(&mut self) -> bool {
        let mut any = false;
        for stream in &mut self.streams {
            any |= stream.drop_retired();
        }
        any
    }
}

impl WindowLedger {
    /// Adds the books of an older definition of the same name.
    pub(super) fn add(&mut self, other: &WindowLedger) {
        let WindowLedger { accepted, open, on_time, late_update, side_output, backfilled, dropped, no_window } = *other;
        self.accepted += accepted;
        self.open += open;
        self.on_time += on_time;
        self.late_update += late_update;
        self.side_output += side_output;
        self.backfilled += backfilled;
        self.dropped += dropped;
        self.no_window += no_window;
    }
}

/// The first start at or behind `from` that a window may have; for sessions `from` itself.
pub(super) fn first_start(from: EventTime, kind: WindowKind) -> EventTime {
    let behind = |start: EventTime, next: EventTime| if start < from { next } else { start };
    match kind {
        WindowKind::Tumbling { size, offset_ms } => {
            let interval = tumbling::assign(from, size, offset_ms);
            behind(interval.start, interval.end)
        }
        WindowKind::Sliding { slide, offset_ms, .. } => {
            let start = from.floor_to(slide, offset_ms);
            behind(start, start + slide)
        }
        WindowKind::Calendar { .. } => match kind.calendar() {
            Some(calendar) => {
                let interval = calendar.assign(from);
                behind(interval.start, interval.end)
            }
            None => from,
        },
        WindowKind::Session { .. } => from,
    }
}

/// The first time at or behind `from` at which windows of both definitions start, if there is
/// one that is not far; else where one of the later does. (Sessions start anywhere.)
pub(super) fn common_start(from: EventTime, earlier: WindowKind, later: WindowKind) -> EventTime {
    let (coarse, fine) = if step(earlier) > step(later) { (earlier, later) } else { (later, earlier) };
    let mut start = first_start(from, coarse);
    for _ in 0..COMMON_STARTS_MAX {
        if first_start(start, fine) == start {
            return start;
        }
        start = first_start(start + Span::MILLI, coarse);
    }
    first_start(from, later)
}

/// From one start to the next.
fn step(kind: WindowKind) -> Span {
    match kind {
        WindowKind::Tumbling { size, .. } => size,
        WindowKind::Sliding { slide, .. } => slide,
        WindowKind::Calendar { unit, .. } => unit.length(),
        WindowKind::Session { .. } => Span::ZERO,
    }
}

/// Where a window ends that starts at `start` at the latest.
pub(super) fn end_after(start: EventTime, kind: WindowKind) -> EventTime {
    kind.calendar().map_or(start + kind.length(), |calendar| calendar.assign(start).end)
}

/// Whether two definitions give windows that are the same ones, so that what is open under the
/// one goes on under the other.
pub(super) fn is_same(before: &WindowSpec, today: &WindowSpec) -> bool {
    before.name == today.name
        && before.kind == today.kind
        && before.key == today.key
        && before.aggregates == today.aggregates
}

impl KeySpec {
    /// Whether windows of this key are in slots of this kind.
    pub(super) fn is_of(self, kind: SlotKind) -> bool {
        matches!(
            (self, kind),
            (KeySpec::Device, SlotKind::Device)
                | (KeySpec::Group, SlotKind::Group)
                | (KeySpec::Stream, SlotKind::Stream)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tumbling(size: u64, offset_ms: i64) -> WindowKind {
        WindowKind::Tumbling { size: Span::from_millis(size), offset_ms }
    }

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    #[test]
    fn a_new_definition_begins_where_one_of_its_windows_does_and_an_old_one_ends() {
        let session = WindowKind::Session { gap: Span::from_millis(5), max_length: None };
        let sliding = WindowKind::Sliding { size: Span::from_millis(20), slide: Span::from_millis(5), offset_ms: 0 };
        for (from, earlier, later, expected) in [
            (33, tumbling(10, 0), tumbling(20, 0), 40),
            (40, tumbling(10, 0), tumbling(20, 0), 40),
            (33, tumbling(20, 0), tumbling(10, 0), 40),
            (33, tumbling(7, 0), tumbling(10, 0), 70),
            (33, tumbling(100_000, 0), tumbling(10, 0), 100_000),
            (33, tumbling(10, 3), tumbling(10, 0), 40),
            (33, sliding, tumbling(10, 0), 40),
            (33, tumbling(10, 0), sliding, 40),
            (33, sliding, session, 35),
            (33, session, session, 33),
            (33, tumbling(10, 0), session, 40),
            (-7, session, tumbling(10, 0), 0),
        ] {
            assert_eq!(common_start(at(from), earlier, later), at(expected), "{from} {earlier:?} {later:?}");
        }
    }

    #[test]
    fn a_tenure_without_a_window_in_it_is_none() {
        let mut retiring = Retiring::default();
        retiring.set(1, Tenure { after: Some(at(9)), until: at(10) });
        assert!(retiring.is_over());
        retiring.set(1, Tenure { after: Some(at(9)), until: at(11) });
        retiring.set(2, Tenure { after: None, until: at(10) });
        let mut out = Vec::new();
        retiring.write(&mut out);
        assert_eq!(Retiring::read(&mut Reader::new(&out)), Ok(retiring.clone()));
        assert_eq!((retiring.until(1), retiring.until(3)), (Some(at(11)), None));
        retiring.forget(1);
        retiring.forget(2);
        assert!(retiring.is_over());
    }
}
