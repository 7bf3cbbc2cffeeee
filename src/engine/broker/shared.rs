//! Shared subscriptions: each message to one of a group.
//!
//! In turn among those that are connected and have room; else among those that are connected;
//! else to one whose session waits for it.

use super::subscriptions::{Choose, Subscriber};

/// The members of `$share/<name>/<filter>`.
#[derive(Default, Debug)]
pub(super) struct Group {
    pub(super) members: Vec<Subscriber>,
    /// Whose turn it is; forgotten at a restart.
    turn: usize,
}

/// How well a member can take a message now; the best one gets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fitness {
    /// Connected, and its window is open.
    Room,
    /// Connected.
    Online,
    /// Not connected; its session keeps the message.
    Offline,
}

impl Group {
    /// The one that gets the next message.
    pub(super) fn next(&mut self, choose: Choose<'_>) -> Option<Subscriber> {
        let at = choose(&self.members, self.turn % self.members.len().max(1))?;
        self.turn = at + 1;
        self.members.get(at).copied()
    }
}

/// The fittest of `members`, and of equals the first from `start` on.
pub(super) fn fittest(
    members: &[Subscriber],
    start: usize,
    fitness: &dyn Fn(&Subscriber) -> Option<Fitness>,
) -> Option<usize> {
    let mut best: Option<(Fitness, usize)> = None;
    for step in 0..members.len() {
        let at = (start + step) % members.len();
        if let Some(fitness) = fitness(&members[at])
            && best.is_none_or(|(known, _)| fitness < known)
        {
            best = Some((fitness, at));
            if fitness == Fitness::Room {
                break;
            }
        }
    }
    best.map(|(_, at)| at)
}
