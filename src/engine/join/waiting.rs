//! What waits for watermarks. Something that needs several sides to get somewhere
//! waits for one that has not yet, and for the next one after that: whatever a
//! watermark does, only what it was in the way of is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::engine::watermark::Watermark;
use crate::model::time::EventTime;

/// The one thing that something waits for: a watermark of a side, at `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub side: usize,
    /// Which of the side's watermarks: a device, or the empty text for the stream's.
    pub scope: Arc<str>,
    pub until: EventTime,
}

/// Who waits, by side, watermark and time.
#[derive(Clone, Debug)]
pub(super) struct Waiting<T> {
    sides: Vec<BTreeMap<Arc<str>, ByTime<T>>>,
}

type ByTime<T> = BTreeSet<(EventTime, T)>;

impl<T: Ord + Clone> Waiting<T> {
    pub(super) fn new(sides: usize) -> Waiting<T> {
        Waiting { sides: (0..sides).map(|_| BTreeMap::new()).collect() }
    }

    pub(super) fn add(&mut self, wait: &Wait, who: T) {
        self.sides[wait.side].entry(Arc::clone(&wait.scope)).or_default().insert((wait.until, who));
    }

    pub(super) fn remove(&mut self, wait: &Wait, who: T) {
        let side = &mut self.sides[wait.side];
        if let Some(set) = side.get_mut(&wait.scope) {
            set.remove(&(wait.until, who));
            if set.is_empty() {
                side.remove(&wait.scope);
            }
        }
    }

    /// The earliest time that someone waits for, of the watermark of a side's stream.
    pub(super) fn earliest(&self, side: usize) -> Option<EventTime> {
        Some(self.sides[side].get("")?.first()?.0)
    }

    /// One that `watermark` was in the way of, earliest first; it does not wait any more.
    pub(super) fn pop_reached(&mut self, side: usize, scope: &str, watermark: Watermark) -> Option<T> {
        let time = watermark.time()?;
        let side = &mut self.sides[side];
        let set = side.get_mut(scope)?;
        if set.first()?.0 > time {
            return None;
        }
        let (_, who) = set.pop_first()?;
        if set.is_empty() {
            side.remove(scope);
        }
        Some(who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_watermark_was_in_the_way_of_comes_out_earliest_first() {
        let at = EventTime::from_millis;
        let watermark = |millis| Watermark::restore(Some(at(millis)));
        let wait = |side, scope: &str, until| Wait { side, scope: Arc::from(scope), until: at(until) };
        let mut waiting = Waiting::new(2);
        waiting.add(&wait(0, "a", 20), 1);
        waiting.add(&wait(0, "a", 10), 2);
        waiting.add(&wait(0, "b", 10), 3);
        waiting.add(&wait(1, "a", 10), 4);
        assert_eq!(waiting.pop_reached(0, "a", Watermark::default()), None);
        assert_eq!(waiting.pop_reached(0, "a", watermark(9)), None);
        assert_eq!(waiting.pop_reached(0, "a", watermark(20)), Some(2));
        waiting.remove(&wait(0, "a", 20), 1);
        assert_eq!(waiting.pop_reached(0, "a", watermark(20)), None);
        assert_eq!(waiting.pop_reached(0, "b", watermark(10)), Some(3));
        assert_eq!(waiting.pop_reached(1, "a", watermark(10)), Some(4));
    }
}
