//! What a broker has to remember, as simply as it can be said. A copy of it is what is
//! durable; after a crash, the copy counts.

use std::collections::BTreeMap;

use super::super::{Qos, matches, split_shared};

/// A message, by its number, with what matters of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    pub(super) no: u64,
    pub(super) topic: &'static str,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    /// It clears what is kept.
    pub(super) is_empty: bool,
    /// When it is of no use any more, by all clocks.
    pub(super) until: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) qos: Qos,
    pub(super) no_local: bool,
    pub(super) retain_as_published: bool,
}

/// A message that a session is owed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Due {
    /// Counts all that was ever owed to anybody.
    pub(super) instance: u64,
    pub(super) no: u64,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) released: bool,
    pub(super) until: Option<u64>,
    /// Where it stands in the broker's queue, once that is known.
    pub(super) seq: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LastWill {
    pub(super) told: Told,
    pub(super) delay: u64,
}

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Kept {
    /// Milliseconds that it outlives its connection.
    pub(super) expiry: u64,
    pub(super) online: bool,
    /// Offline: when it ends, and when its will is due.
    pub(super) until: u64,
    pub(super) will_at: Option<u64>,
    pub(super) will: Option<LastWill>,
    pub(super) asked: BTreeMap<&'static str, Asked>,
    pub(super) due: Vec<Due>,
}

/// Sessions by client, and the last retained message by topic.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Books {
    pub(super) sessions: BTreeMap<usize, Kept>,
    pub(super) retained: BTreeMap<&'static str, Told>,
    /// Messages at `QoS` 1 and 2 that were taken in.
    pub(super) taken: BTreeMap<u64, Qos>,
    pub(super) instances: u64,
}

/// One of a group, with `QoS` and retain flag of what it would get.
pub(super) type Member = (usize, Qos, bool);

/// What one message did: who may get it at `QoS` 0, and which groups have to choose.
#[derive(Default, Debug)]
pub(super) struct Routed {
    pub(super) at_qos_0: Vec<usize>,
    /// Those that may be chosen; one list for each group.
    pub(super) groups: Vec<Vec<Member>>,
}

impl Books {
    fn owe(&mut self, client: usize, told: &Told, qos: Qos, retain: bool) {
        let instance = self.instances;
        self.instances += 1;
        let due = Due { instance, no: told.no, qos, retain, released: false, until: told.until, seq: None };
        if let Some(kept) = self.sessions.get_mut(&client) {
            kept.due.push(due);
        }
    }

    pub(super) fn route(&mut self, from: usize, told: &Told) -> Routed {
        if told.retain {
            if told.is_empty {
                self.retained.remove(told.topic);
            } else {
                self.retained.insert(told.topic, *told);
            }
        }
        let mut routed = Routed::default();
        let mut groups: BTreeMap<&str, Vec<Member>> = BTreeMap::new();
        for client in self.sessions.keys().copied().collect::<Vec<_>>() {
            let mut best: Option<(Qos, bool)> = None;
            for (filter, asked) in &self.sessions[&client].asked {
                let (group, plain) = split_shared(filter);
                if !matches(plain, told.topic) || (asked.no_local && client == from) {
                    continue;
                }
                let (qos, retain) = (asked.qos.min(told.qos), told.retain && asked.retain_as_published);
                if group.is_some() {
                    groups.entry(filter).or_default().push((client, qos, retain));
                } else {
                    let (known_qos, known_retain) = best.unwrap_or((qos, retain));
                    best = Some((known_qos.max(qos), known_retain || retain));
                }
            }
            match best {
                Some((Qos::AtMostOnce, _)) => routed.at_qos_0.push(client),
                Some((qos, retain)) => self.owe(client, told, qos, retain),
                None => {}
            }
        }
        routed.groups = groups.into_values().collect();
        routed
    }

    /// Whether it gets what is retained; what of it comes at `QoS` 0.
    pub(super) fn subscribe(
        &mut self,
        now: u64,
        client: usize,
        filter: &'static str,
        asked: Asked,
        with_retained: bool,
    ) -> Vec<u64> {
        let Some(kept) = self.sessions.get_mut(&client) else { return Vec::new() };
        kept.asked.insert(filter, asked);
        let mut at_qos_0 = Vec::new();
        if !with_retained || split_shared(filter).0.is_some() {
            return at_qos_0;
        }
        for told in self.retained.values().copied().collect::<Vec<_>>() {
            let is_over = told.until.is_some_and(|until| until <= now);
            match asked.qos.min(told.qos) {
                _ if is_over || !matches(filter, told.topic) => {}
                Qos::AtMostOnce => at_qos_0.push(told.no),
                qos @ (Qos::AtLeastOnce | Qos::ExactlyOnce) => self.owe(client, &told, qos, true),
            }
        }
        at_qos_0
    }

    /// A client connects. Whether its session goes on, and the will of the one before it.
    pub(super) fn connect(&mut self, now: u64, client: usize, clean: bool, expiry: u64) -> (bool, Option<Told>) {
        let mut will = None;
        let before = self.sessions.get(&client);
        let resumes = before.is_some_and(|kept| !clean && kept.expiry > 0);
        if let Some(kept) = self.sessions.get_mut(&client) {
            if resumes && kept.will.is_some_and(|will| will.delay > 0) {
                kept.will = None;
            }
            will = if kept.online { self.close(now, client) } else { None };
            if !resumes {
                let of_end = self.end(client);
                will = will.or(of_end);
            }
        }
        let kept = self.sessions.entry(client).or_default();
        *kept = Kept { expiry, online: true, will: None, will_at: None, ..core::mem::take(kept) };
        (resumes, will)
    }

    /// A connection is over. Its will, if it is to be published at once.
    pub(super) fn close(&mut self, now: u64, client: usize) -> Option<Told> {
        let kept = self.sessions.get_mut(&client)?;
        (kept.online, kept.until) = (false, now + kept.expiry);
        if kept.expiry == 0 {
            return self.end(client);
        }
        let will = kept.will.as_ref()?;
        if will.delay == 0 {
            return kept.will.take().map(|will| will.told);
        }
        kept.will_at = Some((now + will.delay).min(kept.until));
        None
    }

    /// A session is over.
    pub(super) fn end(&mut self, client: usize) -> Option<Told> {
        self.sessions.remove(&client)?.will.map(|will| will.told)
    }

    /// What time brings: wills.
    pub(super) fn pass(&mut self, now: u64) -> Vec<Told> {
        let mut wills = Vec::new();
        for client in self.sessions.keys().copied().collect::<Vec<_>>() {
            let Some(kept) = self.sessions.get_mut(&client) else { continue };
            if !kept.online && kept.until <= now {
                wills.extend(self.end(client));
            } else if kept.will_at.is_some_and(|at| at <= now) {
                kept.will_at = None;
                wills.extend(kept.will.take().map(|will| will.told));
            }
        }
        wills
    }

    /// The agent starts again with this, which was written at `written`.
    pub(super) fn restart(&mut self, now: u64, written: u64) {
        self.sessions.retain(|_, kept| kept.expiry > 0);
        for kept in self.sessions.values_mut() {
            let left = if kept.online { kept.expiry } else { kept.until - written };
            *kept = Kept { online: false, until: now + left, will: None, will_at: None, ..core::mem::take(kept) };
        }
    }
}
