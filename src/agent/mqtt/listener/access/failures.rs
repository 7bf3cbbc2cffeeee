//! Wrong passwords by address: after some, nothing from there is looked at for a while that
//! doubles with each further one.
//!
//! IPv6 addresses count by their first 64 bits, which is what one customer is given at least. A
//! right password from an address clears it: behind it may be many, and one with an old password
//! shall not keep the others out for long. The price: whoever has an account may guess
//! others' passwords from its own address, as slowly as they are hashed.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::model::time::{ProcTime, Span};

/// Wrong passwords that have no consequence.
const FREE: u32 = 4;
/// The wait after the first one that has; it doubles.
const WAIT: Span = Span::from_secs(1);
/// The longest wait.
const WAIT_MAX: Span = Span::from_secs(5 * 60);
/// Without a further failure for so long, an address starts anew.
const FORGET_AFTER: Span = Span::from_secs(30 * 60);
/// Addresses that are remembered. Full: the one whose last failure is the oldest goes.
const ADDRESSES_MAX: usize = 1_024;

/// What is counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    by_address: BTreeMap<u128, Record>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    count: u32,
    last: ProcTime,
}

impl Failures {
    /// How long nothing from `address` is to be looked at; `None`: it may try.
    pub(super) fn wait(&self, address: Option<IpAddr>, now: ProcTime) -> Option<Span> {
        let record = self.by_address.get(&prefix(address?))?;
        let until = record.last + wait_after(record.count)?;
        (until > now).then(|| until.since(now))
    }

    /// A wrong password.
    pub(super) fn count(&mut self, address: Option<IpAddr>, now: ProcTime) {
        let Some(address) = address.map(prefix) else { return };
        self.by_address.retain(|_, record| now.since(record.last) < FORGET_AFTER);
        if let Some(record) = self.by_address.get_mut(&address) {
            *record = Record { count: record.count.saturating_add(1), last: now };
            return;
        }
        if self.by_address.len() >= ADDRESSES_MAX {
            let oldest = self.by_address.iter().min_by_key(|(_, record)| record.last).map(|(address, _)| *address);
            oldest.map(|oldest| self.by_address.remove(&oldest));
        }
        self.by_address.insert(address, Record { count: 1, last: now });
    }

    /// A right one.
    pub(super) fn forget(&mut self, address: Option<IpAddr>) {
        if let Some(address) = address {
            self.by_address.remove(&prefix(address));
        }
    }
}

fn wait_after(count: u32) -> Option<Span> {
    let doublings = count.checked_sub(FREE + 1)?;
    let millis = WAIT.as_millis().checked_shl(doublings.min(32))?;
    Some(Span::from_millis(millis).min(WAIT_MAX))
}

/// IPv4 within IPv6 is IPv4: one prefix for all of it would lock out everybody at once.
fn prefix(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits() >> 64 << 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> ProcTime {
        ProcTime::from_millis(secs * 1_000)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as a socket says it")]
    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect(text))
    }

    #[test]
    fn the_fifth_wrong_password_costs_a_second_and_each_further_one_twice_as_much() {
        let (mut failures, address) = (Failures::default(), ip("10.0.0.7"));
        let mut now = at(100);
        let mut waits = Vec::new();
        for _ in 0..20 {
            failures.count(address, now);
            let wait = failures.wait(address, now);
            waits.push(wait.map_or(0, |wait| wait.as_millis() / 1_000));
            if let Some(wait) = wait {
                now = now + wait;
                assert_eq!(failures.wait(address, now), None, "exactly so long");
                let before = ProcTime::from_millis(now.as_millis() - 1);
                assert_eq!(failures.wait(address, before), Some(Span::from_millis(1)));
            }
        }
        assert_eq!(waits[..14], [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(waits[19], 300);
        failures.forget(address);
        failures.count(address, now);
        assert_eq!(failures.wait(address, now), None);
    }

    #[test]
    fn an_address_is_not_held_responsible_for_others_and_not_for_ever() {
        let mut failures = Failures::default();
        let many = |failures: &mut Failures, address| (0..6).for_each(|_| failures.count(ip(address), at(0)));
        many(&mut failures, "2001:db8:0:1::7");
        assert!(failures.wait(ip("2001:db8:0:1:ffff::1"), at(0)).is_some(), "the same /64");
        assert_eq!(failures.wait(ip("2001:db8:0:2::7"), at(0)), None);
        many(&mut failures, "::ffff:10.0.0.7");
        assert!(failures.wait(ip("10.0.0.7"), at(0)).is_some(), "the same address");
        assert_eq!(failures.wait(ip("::ffff:10.0.0.8"), at(0)), None);
        assert_eq!(failures.wait(ip("::1"), at(0)), None);
        assert_eq!(failures.wait(None, at(0)), None);
        failures.count(ip("10.0.0.7"), at(1_800));
        assert_eq!(failures.wait(ip("10.0.0.7"), at(1_800)), None, "half an hour later it is the first one");
    }

    #[test]
    fn a_full_table_forgets_who_failed_longest_ago() {
        let mut failures = Failures::default();
        (0..6).for_each(|_| failures.count(ip("10.9.9.9"), at(0)));
        for index in 0..ADDRESSES_MAX - 1 {
            failures.count(ip(&format!("10.0.{}.{}", index / 256, index % 256)), at(1));
        }
        assert!(failures.wait(ip("10.9.9.9"), at(1)).is_some());
        failures.count(ip("10.1.0.0"), at(1));
        assert_eq!(failures.wait(ip("10.9.9.9"), at(1)), None);
        assert_eq!(failures.by_address.len(), ADDRESSES_MAX);
    }
}
