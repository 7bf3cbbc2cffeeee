//! Readings in the order of their times, for aggregates whose result depends on it.
//!
//! Up to `POINTS_MAX` points are kept, so that the order of arrival does not matter. With
//! one more, or with one that there is no room for, the older half is folded into a
//! summary (a [`Course`]), which goes on exactly as long as nothing comes that belongs
//! into its middle. A point that does is left out, and the result is marked approximate.
//! Of several values at one time the larger counts, as for `first` and `last`.

use crate::engine::wire::{Damaged, Reader, put_i64, put_u64};
use crate::model::limits::POINTS_MAX;
use crate::model::time::{EventTime, Span};

/// What a point takes.
const POINT_BYTES: usize = 16;

/// What is computed along the points, in the order of their times.
pub(super) trait Course: Clone + Default + PartialEq + core::fmt::Debug {
    /// Goes on to the next point, which is later than all before.
    fn step(&mut self, at: EventTime, value: i64);
    /// Goes on along another course, whose points are all later.
    fn append(&mut self, later: &Self);
    /// The times of the first and the last point.
    fn span(&self) -> Option<(EventTime, EventTime)>;
    /// Bytes that it holds beside its fixed size.
    fn held(&self) -> usize {
        0
    }
    /// Appends it for a snapshot.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads it back.
    fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged>;
    /// Appends a value of a point.
    fn write_value(out: &mut Vec<u8>, value: i64);
    /// Reads one back.
    fn read_value(reader: &mut Reader<'_>) -> Result<i64, Damaged>;
}

/// One reading: its time, and its value as a number that orders like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    at: EventTime,
    value: i64,
}

/// The points, or nothing: then nothing is allocated.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Points<C> {
    kept: Option<Box<Kept<C>>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Kept<C> {
    /// All points up to the end of its span.
    folded: C,
    /// Rising, all later than that. Of one time there may be several.
    points: Vec<Point>,
    /// A point was left out.
    left_out: bool,
}

/// A float as a number with the same order, -0.0 below 0.0, and back.
pub(super) fn ordered(value: f64) -> i64 {
    flip(value.to_bits().cast_signed())
}

/// See [`ordered`].
pub(super) fn unordered(value: i64) -> f64 {
    f64::from_bits(flip(value).cast_unsigned())
}

/// Turns the order of negative floats round; its own inverse.
fn flip(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

impl<C> Default for Points<C> {
    fn default() -> Points<C> {
        Points { kept: None }
    }
}

impl<C: Course> Points<C> {
    /// Takes a point in. `larger` says which of two values at one time counts.
    pub(super) fn add(&mut self, at: EventTime, value: i64, room: usize, larger: impl Fn(i64, i64) -> i64) {
        self.kept.get_or_insert_default().add(Point { at, value }, room, &larger);
    }

    /// Takes in all points of `other`.
    pub(super) fn merge(&mut self, other: &Points<C>) {
        if let Some(other) = &other.kept {
            self.kept.get_or_insert_default().merge(other);
        }
    }

    /// The course along all points; `None` without any.
    pub(super) fn course(&self, larger: impl Fn(i64, i64) -> i64) -> Option<C> {
        let kept = self.kept.as_ref()?;
        let mut course = kept.folded.clone();
        along(&kept.points, &mut course, &larger);
        Some(course)
    }

    /// True when a point was left out.
    pub(super) fn left_out(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.left_out)
    }

    /// What the points take.
    pub(super) fn held(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.points.len() * POINT_BYTES + kept.folded.held())
    }

    /// Appends them for a snapshot.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Some(kept) = &self.kept else { return out.push(0) };
        let folded = kept.folded.span().is_some();
        out.push(1 | u8::from(kept.left_out) << 1 | u8::from(folded) << 2);
        if folded {
            kept.folded.write(out);
        }
        put_u64(out, kept.points.len() as u64);
        let mut before: Option<EventTime> = None;
        for point in &kept.points {
            match before {
                None => put_i64(out, point.at.as_millis()),
                Some(before) => put_u64(out, before.lag_behind(point.at).as_millis()),
            }
            before = Some(point.at);
            C::write_value(out, point.value);
        }
    }

    /// Reads them back.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Points<C>, Damaged> {
        let flags = reader.u8()?;
        if flags & 1 == 0 || flags > 7 {
            return if flags == 0 { Ok(Points::default()) } else { Err(Damaged) };
        }
        let folded = if flags & 4 == 0 { C::default() } else { C::read(reader)? };
        let mut kept = Kept { folded, points: Vec::new(), left_out: flags & 2 != 0 };
        for number in 0..reader.u64()? {
            let at = match kept.points.last() {
                None => EventTime::from_millis(reader.i64()?),
                Some(last) => last.at + Span::from_millis(reader.u64()?),
            };
            let point = Point { at, value: C::read_value(reader)? };
            let rises = kept.points.last().is_none_or(|last| *last < point);
            let after = number > 0 || kept.folded.span().is_none_or(|(_, to)| to < at);
            if !rises || !after {
                return Err(Damaged);
            }
            kept.points.push(point);
        }
        Ok(Points { kept: Some(Box::new(kept)) })
    }
}

impl<C: Course> Kept<C> {
    fn add(&mut self, point: Point, room: usize, larger: &dyn Fn(i64, i64) -> i64) {
        let full = self.points.len() >= POINTS_MAX || room < POINT_BYTES;
        if self.place(point) && full {
            self.fold(self.points.len().div_ceil(2), larger);
        }
    }

    /// Puts a point where it belongs. True when that is among those that are kept.
    fn place(&mut self, point: Point) -> bool {
        match self.folded.span() {
            // Earlier than everything: the course begins with it.
            Some((from, _)) if point.at < from => {
                let mut course = C::default();
                course.step(point.at, point.value);
                course.append(&self.folded);
                self.folded = course;
                false
            }
            Some((_, to)) if point.at <= to => {
                self.left_out = true;
                false
            }
            Some(_) | None => match self.points.binary_search(&point) {
                Ok(_) => false,
                Err(place) => {
                    self.points.insert(place, point);
                    true
                }
            },
        }
    }

    /// Folds the first `count` points, and those that share the time of the last of them.
    fn fold(&mut self, count: usize, larger: &dyn Fn(i64, i64) -> i64) {
        let Some(last) = count.checked_sub(1).and_then(|last| self.points.get(last)) else { return };
        let past = self.points.partition_point(|point| point.at <= last.at);
        along(&self.points[..past], &mut self.folded, larger);
        self.points.drain(..past);
    }

    fn span(&self) -> Option<(EventTime, EventTime)> {
        let own = self.points.first().zip(self.points.last()).map(|(first, last)| (first.at, last.at));
        let folded = self.folded.span();
        Some((folded.or(own)?.0, own.or(folded)?.1))
    }

    /// Not folded any further than it is: two panes that become one may hold more than
    /// `POINTS_MAX` points until the next one comes.
    fn merge(&mut self, other: &Kept<C>) {
        self.left_out |= other.left_out;
        let (Some(mine), Some(others)) = (self.span(), other.span()) else {
            if self.span().is_none() {
                let left_out = self.left_out;
                self.clone_from(other);
                self.left_out = left_out;
            }
            return;
        };
        match (self.folded.span(), other.folded.span()) {
            (_, None) => self.place_all(&other.points),
            (None, Some(_)) => {
                let points = core::mem::take(&mut self.points);
                self.folded = other.folded.clone();
                self.points.clone_from(&other.points);
                self.place_all(&points);
            }
            (Some(_), Some(_)) if mine.1 < others.0 => self.go_on_with(other),
            (Some(_), Some(_)) if others.1 < mine.0 => {
                let mut earlier = other.clone();
                earlier.left_out = self.left_out;
                earlier.go_on_with(self);
                *self = earlier;
            }
            // Both were folded, and they overlap: what is in the middle is not known.
            (Some((_, mine)), Some((_, others))) => {
                let mut earlier = if mine <= others { self.folded.clone() } else { other.folded.clone() };
                earlier.append(if mine <= others { &other.folded } else { &self.folded });
                self.folded = earlier;
                self.left_out = true;
                let points = core::mem::take(&mut self.points);
                self.place_all(&points);
                self.place_all(&other.points);
            }
        }
    }

    /// `other` was folded and is later as a whole. Which of several states at one time
    /// counts is asked no more.
    fn go_on_with(&mut self, other: &Kept<C>) {
        self.fold(self.points.len(), &i64::max);
        self.folded.append(&other.folded);
        self.points.clone_from(&other.points);
    }

    fn place_all(&mut self, points: &[Point]) {
        if self.folded.span().is_none() {
            // The usual case, without moving the rest for each of them.
            self.points.extend_from_slice(points);
            self.points.sort_unstable();
            self.points.dedup();
            return;
        }
        // Latest first: those that are earlier than all find their place one by one.
        points.iter().rev().for_each(|point| _ = self.place(*point));
    }
}

/// Steps along points that rise; of several at one time the one that counts.
fn along<C: Course>(points: &[Point], course: &mut C, larger: &dyn Fn(i64, i64) -> i64) {
    for same in points.chunk_by(|point, next| point.at == next.at) {
        let value = same.iter().map(|point| point.value).reduce(larger);
        if let Some(value) = value {
            course.step(same[0].at, value);
        }
    }
}

/// What an [`Aggregate`](super::Aggregate) that is its `points` leaves to them.
macro_rules! through_points {
    () => {
        fn merge(&mut self, other: &Self) {
            self.points.merge(&other.points);
        }

        fn is_approximate(&self) -> bool {
            self.points.left_out()
        }

        fn held(&self) -> usize {
            self.points.held()
        }

        fn write(&self, out: &mut Vec<u8>) {
            self.points.write(out);
        }

        fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
            Ok(Self { points: Points::read(reader)? })
        }
    };
}

pub(super) use through_points;

#[cfg(test)]
mod tests {
    use super::*;

    /// A course that writes down its steps.
    #[derive(Clone, Debug, Default, PartialEq)]
    struct Steps(Vec<(i64, i64)>);

    impl Course for Steps {
        fn step(&mut self, at: EventTime, value: i64) {
            self.0.push((at.as_millis(), value));
        }
        fn append(&mut self, later: &Steps) {
            self.0.extend(&later.0);
        }
        fn span(&self) -> Option<(EventTime, EventTime)> {
            let time = |step: &(i64, i64)| EventTime::from_millis(step.0);
            Some((time(self.0.first()?), time(self.0.last()?)))
        }
        fn write(&self, _out: &mut Vec<u8>) {}
        fn read(_reader: &mut Reader<'_>) -> Result<Steps, Damaged> {
            Err(Damaged)
        }
        fn write_value(out: &mut Vec<u8>, value: i64) {
            put_i64(out, value);
        }
        fn read_value(reader: &mut Reader<'_>) -> Result<i64, Damaged> {
            reader.i64()
        }
    }

    fn of(points: &[(i64, i64)], room: usize) -> Points<Steps> {
        let mut made = Points::default();
        for (at, value) in points {
            made.add(EventTime::from_millis(*at), *value, room, i64::max);
        }
        made
    }

    fn steps(points: &Points<Steps>) -> Vec<(i64, i64)> {
        points.course(i64::max).map(|steps| steps.0).unwrap_or_default()
    }

    #[test]
    fn floats_keep_their_order_and_come_back() {
        let values = [f64::MIN, -1.5, -0.0, 0.0, 1e-300, 2.0, f64::MAX];
        assert!(values.map(ordered).is_sorted());
        assert_eq!(values.map(|value| unordered(ordered(value)).to_bits()), values.map(f64::to_bits));
    }

    #[test]
    fn points_are_walked_in_the_order_of_time_and_the_larger_of_two_counts() {
        let points = of(&[(5, 1), (3, 9), (5, 7), (4, 2), (5, 7)], usize::MAX);
        assert_eq!(steps(&points), [(3, 9), (4, 2), (5, 7)]);
        assert!(!points.left_out());
    }

    #[test]
    fn without_room_the_older_half_is_folded_and_only_what_belongs_into_it_is_left_out() {
        let mut points = of(&[(10, 1), (20, 2), (30, 3), (40, 4)], usize::MAX);
        let mut add = |at| {
            points.add(EventTime::from_millis(at), at, 0, i64::max);
            (steps(&points).len(), points.held() / POINT_BYTES, points.left_out())
        };
        assert_eq!(add(50), (5, 2, false), "10, 20 and 30 are folded");
        assert_eq!(add(5), (6, 2, false), "before the beginning there is room");
        assert_eq!(add(45), (7, 1, false), "behind what is folded too");
        assert_eq!(add(42), (7, 1, true));
    }

    #[test]
    fn sessions_that_become_one_lose_no_order() {
        let early = of(&[(10, 1), (20, 2), (30, 3)], 0);
        let late = of(&[(40, 4), (50, 5), (60, 6)], 0);
        let alone = of(&[(1, 0), (35, 9)], usize::MAX);
        for (first, second) in [(&early, &late), (&late, &early)] {
            let mut both = first.clone();
            both.merge(second);
            assert_eq!(steps(&both).iter().map(|step| step.0).collect::<Vec<_>>(), [10, 20, 30, 40, 50, 60]);
            assert!(!both.left_out());
        }
        let mut with_more = alone.clone();
        with_more.merge(&late);
        let mut turned = late.clone();
        turned.merge(&alone);
        assert_eq!(steps(&with_more), [(1, 0), (35, 9), (40, 4), (50, 5), (60, 6)]);
        assert_eq!(steps(&turned), steps(&with_more));
    }
}
