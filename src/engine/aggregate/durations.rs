//! `durations`: for how many milliseconds a text or bool value had each of its states.
//!
//! A state holds until the next reading; the last one as in `time_weighted_mean.rs`. Of
//! several states at one time the one counts whose text is larger. A state that was seen
//! and held for no time has 0. In the order of the texts. Depends on the order of the
//! readings; see `points.rs`.

use super::points::{Course, Points, through_points};
use super::{Aggregate, Finish, Finished, State};
use crate::engine::states::StateTable;
use crate::engine::wire::{Damaged, Reader, put_i64, put_u64};
use crate::model::ids::StateIx;
use crate::model::limits::STATES_MAX;
use crate::model::time::{EventTime, Span};

/// What a state of the summary takes.
const STATE_BYTES: usize = 16;

/// The readings of a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Durations {
    points: Points<Held>,
}

/// For how long each state was held.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    ends: Option<Ends>,
    /// Milliseconds by place, each once, in the order of places.
    millis: Vec<(i64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    first: (EventTime, i64),
    last: (EventTime, i64),
}

impl Held {
    fn hold(&mut self, state: i64, millis: u64) {
        match self.millis.binary_search_by_key(&state, |(state, _)| *state) {
            Ok(at) => self.millis[at].1 = self.millis[at].1.saturating_add(millis),
            Err(at) => self.millis.insert(at, (state, millis)),
        }
    }
}

impl Course for Held {
    fn step(&mut self, at: EventTime, value: i64) {
        match &mut self.ends {
            None => self.ends = Some(Ends { first: (at, value), last: (at, value) }),
            Some(ends) => {
                let from = core::mem::replace(&mut ends.last, (at, value));
                self.hold(from.1, from.0.lag_behind(at).as_millis());
            }
        }
    }

    fn append(&mut self, later: &Held) {
        match (&mut self.ends, later.ends) {
            (_, None) => {}
            (None, Some(_)) => self.clone_from(later),
            (Some(mine), Some(later_ends)) => {
                let from = core::mem::replace(&mut mine.last, later_ends.last);
                self.hold(from.1, from.0.lag_behind(later_ends.first.0).as_millis());
                later.millis.iter().for_each(|(state, millis)| self.hold(*state, *millis));
            }
        }
    }

    fn span(&self) -> Option<(EventTime, EventTime)> {
        self.ends.map(|ends| (ends.first.0, ends.last.0))
    }

    fn held(&self) -> usize {
        self.millis.len() * STATE_BYTES
    }

    fn write(&self, out: &mut Vec<u8>) {
        let Some(ends) = self.ends else { return };
        put_i64(out, ends.first.0.as_millis());
        put_i64(out, ends.first.1);
        put_u64(out, ends.first.0.lag_behind(ends.last.0).as_millis());
        put_i64(out, ends.last.1);
        put_u64(out, self.millis.len() as u64);
        for (state, millis) in &self.millis {
            put_i64(out, *state);
            put_u64(out, *millis);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Held, Damaged> {
        let first = (EventTime::from_millis(reader.i64()?), Held::read_value(reader)?);
        let last = (first.0 + Span::from_millis(reader.u64()?), Held::read_value(reader)?);
        let mut millis: Vec<(i64, u64)> = Vec::new();
        for _ in 0..reader.u64()? {
            let state = Held::read_value(reader)?;
            if millis.last().is_some_and(|(last, _)| *last >= state) {
                return Err(Damaged);
            }
            millis.push((state, reader.u64()?));
        }
        Ok(Held { ends: Some(Ends { first, last }), millis })
    }

    fn write_value(out: &mut Vec<u8>, value: i64) {
        put_i64(out, value);
    }

    fn read_value(reader: &mut Reader<'_>) -> Result<i64, Damaged> {
        let value = reader.i64()?;
        let bound = i64::try_from(STATES_MAX).expect("small");
        if (0..bound).contains(&value) { Ok(value) } else { Err(Damaged) }
    }
}

fn place(value: i64) -> StateIx {
    StateIx(u16::try_from(value).expect("places are below STATES_MAX"))
}

/// The place of which the text is larger.
fn larger(states: &StateTable) -> impl Fn(i64, i64) -> i64 {
    |left, right| if states.text(place(left)) < states.text(place(right)) { right } else { left }
}

impl Aggregate for Durations {
    /// Numbers are no states.
    #[inline]
    fn add(&mut self, _value: f64, _at: EventTime) {}

    fn add_state(&mut self, state: State<'_>, at: EventTime, room: usize) {
        self.points.add(at, i64::from(state.place.0), room, larger(state.states));
    }

    fn finish<'a>(&'a self, finish: &Finish<'a>) -> Finished<'a> {
        let Some(mut held) = self.points.course(larger(finish.states)) else { return Finished::Absent };
        if let Some(Ends { last: (at, state), .. }) = held.ends {
            let until = finish.until.unwrap_or(at);
            held.hold(state, at.lag_behind(until).as_millis());
        }
        let text = |(state, millis): &(i64, u64)| (finish.states.text(place(*state)), *millis as f64);
        let mut labelled: Vec<_> = held.millis.iter().map(text).collect();
        labelled.sort_unstable_by_key(|(text, _)| *text);
        Finished::Labelled(labelled)
    }

    through_points!();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations(readings: &[(i64, &str)], until: Option<i64>) -> Vec<(String, f64)> {
        let mut states = StateTable::default();
        let mut state = Durations::default();
        for (at, text) in readings {
            let place = states.intern(text).expect("few");
            state.add_state(State { place, states: &states }, EventTime::from_millis(*at), usize::MAX);
        }
        let finish = Finish { until: until.map(EventTime::from_millis), quantiles: &[], states: &states };
        match state.finish(&finish) {
            Finished::Labelled(numbers) => numbers.iter().map(|(text, millis)| ((*text).to_owned(), *millis)).collect(),
            Finished::Absent | Finished::None | Finished::Number(_) => Vec::new(),
        }
    }

    #[test]
    fn a_state_holds_until_the_next_reading_and_the_last_until_the_end() {
        let readings = [(3_000, "off"), (1_000, "on"), (8_000, "on"), (8_000, "fault")];
        let named =
            |pairs: &[(&str, f64)]| pairs.iter().map(|(text, ms)| ((*text).to_owned(), *ms)).collect::<Vec<_>>();
        assert_eq!(durations(&readings, Some(10_000)), named(&[("off", 5_000.0), ("on", 4_000.0)]));
        assert_eq!(durations(&readings, None), named(&[("off", 5_000.0), ("on", 2_000.0)]));
        assert_eq!(durations(&[(5, "on")], None), named(&[("on", 0.0)]));
    }
}
