//! How fast the uplink may be used: messages and bytes per second, bytes per day.

use crate::model::time::{Now, ProcTime, Span, WallTime};

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;
/// Part of the daily budget that only results of the present may use, one in that many.
const KEPT_FOR_LIVE: u64 = 5;

/// Tokens that come at a steady rate. One that is taken too much is waited for
/// afterwards, so that a batch may be larger than a second's worth. (A token bucket that
/// goes into debt.)
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_second: u64,
    /// Thousandths of tokens; at most a second's worth.
    level: i64,
    at: ProcTime,
}

impl Bucket {
    /// Full.
    pub(super) fn new(per_second: u64) -> Bucket {
        Bucket { per_second, level: thousand_times(per_second), at: ProcTime::default() }
    }

    fn refill(&mut self, now: ProcTime) {
        let came = i64::try_from(self.per_second.saturating_mul(now.since(self.at).as_millis())).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(came).min(thousand_times(self.per_second));
        self.at = self.at.max(now);
    }

    /// When it next gives one; `None`: now.
    pub(super) fn waits_until(&mut self, now: ProcTime) -> Option<ProcTime> {
        self.refill(now);
        if self.level > 0 {
            return None;
        }
        let missing = self.level.unsigned_abs() + 1;
        Some(now + Span::from_millis(missing.div_ceil(self.per_second.max(1))))
    }

    /// Takes some, also more than there are.
    pub(super) fn take(&mut self, count: usize) {
        self.level = self.level.saturating_sub(thousand_times(count as u64));
    }
}

fn thousand_times(count: u64) -> i64 {
    i64::try_from(count.saturating_mul(1_000)).unwrap_or(i64::MAX)
}

/// Bytes of one day, by the wall clock and in UTC. A clock that is set to another day
/// begins that day's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Daily {
    day: i64,
    spent: u64,
}

impl Daily {
    /// As stored.
    pub(super) fn from_parts(day: i64, spent: u64) -> Daily {
        Daily { day, spent }
    }

    /// The day, and the bytes of it.
    pub(super) fn parts(self) -> (i64, u64) {
        (self.day, self.spent)
    }

    /// Bytes of the day of `wall`.
    pub(super) fn spent(self, wall: WallTime) -> u64 {
        if day_of(wall) == self.day { self.spent } else { 0 }
    }

    /// Counts what is published.
    pub(super) fn take(&mut self, wall: WallTime, bytes: usize) {
        self.spent = self.spent(wall).saturating_add(bytes as u64);
        self.day = day_of(wall);
    }

    /// Whether anything more may be published today, and whether anything that can wait may.
    pub(super) fn allows(self, wall: WallTime, budget: u64) -> (bool, bool) {
        let spent = self.spent(wall);
        (spent < budget, spent < budget - budget / KEPT_FOR_LIVE)
    }

    /// When the next day begins.
    pub(super) fn next_day(now: Now) -> ProcTime {
        let into = now.wall.as_millis().rem_euclid(DAY_MS);
        now.proc + Span::from_millis(u64::try_from(DAY_MS - into).expect("a remainder is smaller"))
    }
}

fn day_of(wall: WallTime) -> i64 {
    wall.as_millis().div_euclid(DAY_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::time::ClockQuality;

    #[test]
    fn a_bucket_gives_its_rate_however_it_is_asked() {
        let mut bucket = Bucket::new(10);
        let (mut now, mut taken) = (ProcTime::from_millis(0), 0);
        while now < ProcTime::from_millis(60_000) {
            match bucket.waits_until(now) {
                None => {
                    bucket.take(3);
                    taken += 3;
                }
                Some(at) => {
                    assert!(at > now, "no spinning");
                    now = at;
                }
            }
        }
        assert!((600..=615).contains(&taken), "a burst of 10, and 10 a second: {taken}");
    }

    #[test]
    fn a_day_ends_at_midnight_and_what_can_wait_stops_before_the_rest() {
        let now = |wall: i64| Now {
            proc: ProcTime::from_millis(5),
            wall: WallTime::from_millis(wall),
            quality: ClockQuality::Synced,
        };
        let mut daily = Daily::default();
        let noon = 3 * DAY_MS + DAY_MS / 2;
        daily.take(now(noon).wall, 79);
        assert_eq!(daily.allows(now(noon).wall, 100), (true, true));
        daily.take(now(noon).wall, 1);
        assert_eq!(daily.allows(now(noon).wall, 100), (true, false));
        daily.take(now(noon).wall, 20);
        assert_eq!(daily.allows(now(noon).wall, 100), (false, false));
        assert_eq!(Daily::next_day(now(noon)), ProcTime::from_millis(5 + 43_200_000));
        assert_eq!(daily.allows(now(4 * DAY_MS).wall, 100), (true, true));
        assert_eq!(daily.allows(now(2 * DAY_MS).wall, 100), (true, true), "a clock that is set back");
    }
}
