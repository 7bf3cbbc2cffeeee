//! Commands to the devices: edge nodes are asked for their births.
//!
//! A request waits for the commit of the message that made it necessary, like every effect.
//! Best effort beyond that: one that is lost is made again with the next message that needs it,
//! so that it is not persisted. An edge node is asked at most once in `REBIRTH_PAUSE`,
//! whichever streams want it: the answer is all that it and its devices have. One that needs
//! it again soon after each pause does not understand, or counts in another way: its pauses
//! grow, or its births would come for ever.

use std::collections::BTreeMap;

use crate::model::limits::{REBIRTH_PAUSE, REBIRTH_PAUSE_MAX, REBIRTHS_LEN};
use crate::model::time::{Now, ProcTime, Span};

use super::decode::sparkplug::command::rebirth_payload;
use super::step::Command;

/// What waits, and what was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    /// Of the coming commit.
    waiting: Vec<Command>,
    /// By the topic on which an edge node is asked.
    asked: BTreeMap<String, Asked>,
}

/// An edge node that was asked.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Last.
    at: ProcTime,
    /// It is not asked again for so long.
    pause: Span,
}

impl Asked {
    /// So soon after it was asked that it is not asked again.
    fn holds(self, now: ProcTime) -> bool {
        now.since(self.at) < self.pause
    }

    /// The next pause: doubled, unless there was no need for as long as the last one.
    fn next_pause(self, now: ProcTime) -> Span {
        let doubled = Span::from_millis(self.pause.as_millis() * 2);
        if now.since(self.at) < doubled { doubled.min(REBIRTH_PAUSE_MAX) } else { REBIRTH_PAUSE }
    }
}

impl Commands {
    /// Asks for a rebirth on `topic`. False when that was done a short time ago, or when the
    /// table is full of others for which it was.
    pub(super) fn ask_for_rebirth(&mut self, now: Now, topic: String) -> bool {
        let before = self.asked.get(&topic);
        if self.waiting.len() >= REBIRTHS_LEN || before.is_some_and(|asked| asked.holds(now.proc)) {
            return false;
        }
        let pause = before.map_or(REBIRTH_PAUSE, |asked| asked.next_pause(now.proc));
        if self.asked.len() >= REBIRTHS_LEN {
            self.asked.retain(|_, asked| asked.holds(now.proc));
            if self.asked.len() >= REBIRTHS_LEN {
                return false;
            }
        }
        self.asked.insert(topic.clone(), Asked { at: now.proc, pause });
        let payload = rebirth_payload(u64::try_from(now.wall.as_millis()).unwrap_or(0));
        self.waiting.push(Command { topic, payload });
        true
    }

    /// Those of the coming commit.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Command> {
        self.waiting.iter()
    }

    /// True when none waits.
    pub(super) fn is_committed(&self) -> bool {
        self.waiting.is_empty()
    }

    /// They may be sent.
    pub(super) fn mark_committed(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use crate::model::time::{ClockQuality, WallTime};

    use super::*;

    fn at(millis: u64) -> Now {
        Now {
            proc: ProcTime::from_millis(millis),
            wall: WallTime::from_millis(1_700_000_000_000),
            quality: ClockQuality::Synced,
        }
    }

    #[test]
    fn one_edge_node_is_asked_once_in_a_pause() {
        let mut commands = Commands::default();
        assert!(commands.ask_for_rebirth(at(0), "a".to_owned()));
        assert!(!commands.ask_for_rebirth(at(29_999), "a".to_owned()));
        assert!(commands.ask_for_rebirth(at(29_999), "b".to_owned()));
        assert!(commands.ask_for_rebirth(at(30_000), "a".to_owned()));
        let topics: Vec<_> = commands.waiting().map(|command| command.topic.as_str()).collect();
        assert_eq!(topics, ["a", "b", "a"]);
        commands.mark_committed();
        assert!(commands.is_committed());
        assert!(!commands.ask_for_rebirth(at(40_000), "a".to_owned()), "a commit is no reason to ask again");
    }

    #[test]
    fn pauses_grow_while_asking_does_not_help() {
        let mut commands = Commands::default();
        let asked: Vec<u64> =
            (0..4_000).filter(|second| commands.ask_for_rebirth(at(second * 1_000), "a".to_owned())).collect();
        assert_eq!(asked, [0, 30, 90, 210, 450, 930, 1_410, 1_890, 2_370, 2_850, 3_330, 3_810]);
        let later = 4_000 + 2 * REBIRTH_PAUSE_MAX.as_millis() / 1_000;
        let again: Vec<u64> =
            (later..later + 60).filter(|second| commands.ask_for_rebirth(at(second * 1_000), "a".to_owned())).collect();
        assert_eq!(again, [later, later + 30], "a need that has come anew");
    }

    #[test]
    fn a_full_table_asks_nobody_else_until_one_may_be_asked_again() {
        let mut commands = Commands::default();
        for number in 0..REBIRTHS_LEN {
            assert!(commands.ask_for_rebirth(at(number as u64), number.to_string()));
        }
        commands.mark_committed();
        assert!(!commands.ask_for_rebirth(at(20_000), "other".to_owned()));
        assert!(commands.ask_for_rebirth(at(30_000), "other".to_owned()));
        assert_eq!(commands.asked.len(), REBIRTHS_LEN);
    }

    #[test]
    fn what_a_store_that_takes_nothing_holds_up_is_bounded() {
        let mut commands = Commands::default();
        for round in 0..3 * REBIRTHS_LEN as u64 {
            commands.ask_for_rebirth(at(round * 60_000), "a".to_owned());
        }
        assert_eq!(commands.waiting.len(), REBIRTHS_LEN);
    }
}
