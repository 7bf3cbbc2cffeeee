//! Copies by sequence number: an anti-replay window, as `IPsec` has one (RFC 4303,
//! section 3.4.3 and appendix A), that also knows counters which start over.
//!
//! ```text
//! bits     1 1 0 1 1 1 0 1 1 1│            bit 0: the highest number that came
//!          └──── horizon ─────┘ highest    a 0 is a number that has not come (yet)
//! ```
//!
//! | a number | of the device's own time | is |
//! |---|---|---|
//! | above the highest | | new; a jump of more than [`JUMP_MAX`] is a new start |
//! | in the window, 0 | | new: it was missing |
//! | in the window, 1 | not newer | a duplicate |
//! | in the window, 1 | newer than all before | a new start: a copy would have its time |
//! | the highest | newer, by no more than the disorder | a duplicate: its copy, with the time of another clock |
//! | behind the window | not newer, and not small | a duplicate |
//! | behind the window | newer, or none, or number < horizon | a new start |
//!
//! A *new start* is a device that was restarted, or whose 8, 16 or 32 bits have gone
//! round. What the run before has seen stays known for as long as the new run goes on,
//! so that stragglers and copies from before are still told apart.
//!
//! The trade-off: a device must never be shut out, so what cannot be told counts as
//! new. A copy from behind the window counts again if its number is small, or if it has
//! no time of its own. And a device without a time of its own that restarts within the
//! first `horizon` numbers is taken for its own copy until it has passed its highest.

use crate::engine::wire::{Damaged, Reader, put_fixed, put_u64};

/// Larger steps are new starts, not losses: no device loses so many readings in one go
/// and counts on, and a counter may begin anywhere.
pub(super) const JUMP_MAX: u64 = 65_536;

/// What a number says about its reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Not seen before.
    New {
        /// Numbers that are now given up as missing.
        missing: u64,
        /// The counter has started over.
        restarted: bool,
    },
    /// Seen before.
    Duplicate,
}

/// Whether a reading can be a copy, by its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// Newer than all readings before: no copy of one of them.
    Newer,
    /// Newer than all readings before, and by so little that it may be a copy of the newest:
    /// where it is the gateway that writes the time, each has its own clock.
    HardlyNewer,
    /// Of a time at or before one that has been seen.
    NotNewer,
    /// It has no time of its own.
    Unknown,
}

/// The numbers of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sequence {
    now: Run,
    before: Option<Run>,
}

/// Numbers that count up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    highest: u64,
    /// Numbers at or below it are not missed.
    base: u64,
    bits: Box<[u64]>,
}

impl Sequence {
    /// The first number of a device.
    pub(super) fn begin(number: u64, horizon: usize) -> Sequence {
        Sequence { now: Run::begin(number, horizon), before: None }
    }

    /// Takes a number in.
    pub(super) fn judge(&mut self, number: u64, age: Age, horizon: usize) -> Verdict {
        let span = horizon as u64;
        let new = |missing| Verdict::New { missing, restarted: false };
        let newer = matches!(age, Age::Newer | Age::HardlyNewer);
        if number > self.now.highest {
            let step = number - self.now.highest;
            if step > span
                && !newer
                && let Some(before) = self.before.as_mut().filter(|before| before.covers(number, span))
            {
                return if before.insert(number) { new(0) } else { Verdict::Duplicate };
            }
            if step > JUMP_MAX {
                return self.start_over(number, horizon);
            }
            return new(self.now.advance(step, span));
        }
        if self.now.covers(number, span) {
            let copies_newest = number == self.now.highest && age == Age::HardlyNewer;
            return match self.now.insert(number) {
                true => new(0),
                false if newer && !copies_newest => self.start_over(number, horizon),
                false => Verdict::Duplicate,
            };
        }
        if age == Age::NotNewer && number >= span { Verdict::Duplicate } else { self.start_over(number, horizon) }
    }

    fn start_over(&mut self, number: u64, horizon: usize) -> Verdict {
        let missing = self.now.missing(0, horizon as u64);
        self.before = Some(core::mem::replace(&mut self.now, Run::begin(number, horizon)));
        Verdict::New { missing, restarted: true }
    }

    /// Another horizon; what is beyond it is forgotten.
    pub(super) fn resize(&mut self, horizon: usize) {
        for run in core::iter::once(&mut self.now).chain(&mut self.before) {
            let mut bits = run.bits.to_vec();
            bits.resize(horizon.div_ceil(64), 0);
            run.bits = bits.into();
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.now.write(out);
        out.push(u8::from(self.before.is_some()));
        if let Some(before) = &self.before {
            before.write(out);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>, horizon: usize) -> Result<Sequence, Damaged> {
        let now = Run::read(reader, horizon)?;
        let before = match reader.u8()? {
            0 => None,
            1 => Some(Run::read(reader, horizon)?),
            _ => return Err(Damaged),
        };
        Ok(Sequence { now, before })
    }
}

impl Run {
    fn begin(number: u64, horizon: usize) -> Run {
        let mut bits = vec![0; horizon.div_ceil(64)].into_boxed_slice();
        bits[0] = 1;
        Run { highest: number, base: number, bits }
    }

    /// True for a number of the window.
    fn covers(&self, number: u64, span: u64) -> bool {
        self.highest.checked_sub(number).is_some_and(|age| age < span)
    }

    /// Marks a number of the window as seen. False when it was.
    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = place(self.highest - number);
        let unseen = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        unseen
    }

    /// The highest number rises by `step`. Returns how many leave the window unseen.
    fn advance(&mut self, step: u64, span: u64) -> u64 {
        let kept = span.saturating_sub(step);
        // Those in the window, and those that never were in it.
        let missing = self.missing(kept, span) + step.saturating_sub(span);
        shift(&mut self.bits, step);
        self.bits[0] |= 1;
        self.highest += step;
        missing
    }

    /// Numbers of an age in `from..to` that are missed.
    fn missing(&self, from: u64, to: u64) -> u64 {
        let expected = to.min(self.highest.saturating_sub(self.base));
        (from..expected).filter(|age| self.bits[place(*age).0] & place(*age).1 == 0).count() as u64
    }

    fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.highest);
        put_u64(out, self.highest.abs_diff(self.base));
        self.bits.iter().for_each(|word| put_fixed(out, *word));
    }

    fn read(reader: &mut Reader<'_>, horizon: usize) -> Result<Run, Damaged> {
        let highest = reader.u64()?;
        let base = highest.checked_sub(reader.u64()?).ok_or(Damaged)?;
        let mut bits = vec![0; horizon.div_ceil(64)].into_boxed_slice();
        for word in &mut bits {
            *word = reader.fixed()?;
        }
        Ok(Run { highest, base, bits })
    }
}

fn place(age: u64) -> (usize, u64) {
    (usize::try_from(age / 64).unwrap_or(usize::MAX), 1 << (age % 64))
}

/// Every bit becomes `step` older.
fn shift(bits: &mut [u64], step: u64) {
    let words = usize::try_from(step / 64).unwrap_or(usize::MAX);
    let rest = step % 64;
    for index in (0..bits.len()).rev() {
        let at =
            |back: usize| index.checked_sub(words).and_then(|index| index.checked_sub(back)).map(|index| bits[index]);
        let low = at(0).unwrap_or(0);
        let carried = if rest == 0 { 0 } else { at(1).unwrap_or(0) >> (64 - rest) };
        bits[index] = (low << rest) | carried;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(missing: u64) -> Verdict {
        Verdict::New { missing, restarted: false }
    }

    fn restarted(missing: u64) -> Verdict {
        Verdict::New { missing, restarted: true }
    }

    #[test]
    fn a_copy_of_the_newest_may_have_the_time_of_a_clock_that_is_ahead() {
        let mut seen = Sequence::begin(10, 8);
        assert_eq!(seen.judge(10, Age::HardlyNewer, 8), Verdict::Duplicate);
        assert_eq!(seen.judge(11, Age::HardlyNewer, 8), new(0));
        assert_eq!(seen.judge(11, Age::Newer, 8), restarted(0), "no clock is so far ahead");
        assert_eq!(seen.judge(12, Age::Newer, 8), new(0));
        assert_eq!(seen.judge(11, Age::HardlyNewer, 8), restarted(0), "a copy of an older one is not newer");
    }

    #[test]
    fn known_numbers_are_known_one_by_one_and_missing_ones_counted_as_they_leave() {
        let mut seen = Sequence::begin(10, 4);
        assert_eq!(seen.judge(10, Age::NotNewer, 4), Verdict::Duplicate);
        assert_eq!(seen.judge(8, Age::NotNewer, 4), new(0), "older than the first, never seen");
        assert_eq!(seen.judge(13, Age::Newer, 4), new(0), "11 and 12 may still come");
        assert_eq!(seen.judge(12, Age::NotNewer, 4), new(0));
        assert_eq!(seen.judge(12, Age::NotNewer, 4), Verdict::Duplicate);
        assert_eq!(seen.judge(14, Age::Newer, 4), new(0), "11 is the oldest of four");
        assert_eq!(seen.judge(15, Age::Newer, 4), new(1));
        assert_eq!(seen.judge(11, Age::NotNewer, 4), Verdict::Duplicate, "behind the window: too late to tell");
        assert_eq!(seen.judge(3, Age::NotNewer, 4), restarted(0), "small enough to be a start");
    }

    #[test]
    fn a_jump_over_the_window_misses_what_never_was_in_it_too() {
        let mut seen = Sequence::begin(100, 64);
        assert_eq!(seen.judge(102, Age::Newer, 64), new(0));
        // 101 of the old window, and 103 to 202 - 64 + ... have left it.
        assert_eq!(seen.judge(302, Age::Newer, 64), new(1 + 200 - 64));
        for number in 239..302 {
            assert_eq!(seen.judge(number, Age::NotNewer, 64), new(0), "{number}");
        }
        assert_eq!(seen.judge(366, Age::Newer, 64), new(0));
        assert_eq!(seen.judge(366 + JUMP_MAX, Age::Newer, 64), new(63 + JUMP_MAX - 64));
        assert_eq!(seen.judge(367 + 2 * JUMP_MAX, Age::Newer, 64), restarted(63));
    }

    #[test]
    fn counters_that_go_round_are_followed_and_their_copies_known_on_both_sides() {
        for last in [u64::from(u8::MAX), u64::from(u16::MAX), u64::from(u32::MAX)] {
            let mut seen = Sequence::begin(last - 2, 32);
            assert_eq!(seen.judge(last, Age::Newer, 32), new(0));
            assert_eq!(seen.judge(0, Age::Newer, 32), restarted(1));
            assert_eq!(seen.judge(last - 1, Age::NotNewer, 32), new(0), "a straggler");
            for copy in [last - 2, last - 1, last, 0] {
                assert_eq!(seen.judge(copy, Age::NotNewer, 32), Verdict::Duplicate, "{copy}");
            }
            assert_eq!(seen.judge(1, Age::Newer, 32), new(0));
        }
    }

    #[test]
    fn a_device_that_starts_over_is_never_shut_out() {
        // Far from its start: by the small number alone, whatever its clock says.
        let mut seen = Sequence::begin(5_000, 128);
        assert_eq!(seen.judge(3, Age::NotNewer, 128), restarted(0));
        // Within its first numbers: by its time.
        let mut seen = Sequence::begin(0, 128);
        for number in 1..50 {
            assert_eq!(seen.judge(number, Age::Newer, 128), new(0));
        }
        assert_eq!(seen.judge(0, Age::Newer, 128), restarted(0));
        assert_eq!(seen.judge(1, Age::Newer, 128), new(0));
        assert_eq!(seen.judge(0, Age::NotNewer, 128), Verdict::Duplicate);
        // At any number: by its time, or because nothing says that it is old.
        for age in [Age::Newer, Age::Unknown] {
            let mut seen = Sequence::begin(9_000, 128);
            assert_eq!(seen.judge(700, age, 128), restarted(0));
        }
        let mut seen = Sequence::begin(9_000, 128);
        assert_eq!(seen.judge(700, Age::NotNewer, 128), Verdict::Duplicate);
    }

    #[test]
    fn it_agrees_with_a_plain_list_of_numbers() {
        let mut random = crate::model::rng::Rng::new(7);
        for horizon in [1, 63, 64, 65, 200] {
            let mut seen = Sequence::begin(1_000_000, horizon);
            let mut list = vec![1_000_000_u64];
            let mut missing = 0;
            for _ in 0..3_000 {
                let highest = *list.iter().max().expect("not empty");
                let number = highest + 5 - random.below(10).min(horizon as u64 + 4);
                let known = list.contains(&number);
                match seen.judge(number, Age::NotNewer, horizon) {
                    Verdict::Duplicate => assert!(known, "{number} is new"),
                    Verdict::New { missing: more, restarted } => {
                        assert!(!known && !restarted, "{number} is known, or far");
                        missing += more;
                        list.push(number);
                    }
                }
            }
            let highest = *list.iter().max().expect("not empty");
            let gone = (1_000_000..=highest - horizon as u64).filter(|number| !list.contains(number));
            assert_eq!(missing, gone.count() as u64, "horizon {horizon}");
            let mut bytes = Vec::new();
            seen.write(&mut bytes);
            assert_eq!(Sequence::read(&mut Reader::new(&bytes), horizon), Ok(seen));
        }
    }
}
