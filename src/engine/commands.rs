//! Commands to the devices: edge nodes are asked for their births.
//!
//! A request waits for the commit of the message that made it necessary, like every effect.
//! Best effort beyond that: one that is lost is made again with the next message that needs it,
//! so that it is not persisted. An edge node is asked at most once in `REBIRTH_PAUSE`,
//! whichever streams want it: the answer is all that it and its devices have.

use std::collections::BTreeMap;

use crate::model::limits::{REBIRTH_PAUSE, REBIRTHS_LEN};
use crate::model::time::{Now, ProcTime};

use super::decode::sparkplug::command::rebirth_payload;
use super::step::Command;

/// What waits, and what was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Commands {
    /// Of the coming commit.
    waiting: Vec<Command>,
    /// When an edge node was asked last, by the topic.
    asked: BTreeMap<String, ProcTime>,
}

impl Commands {
    /// Asks for a rebirth on `topic`. False when that was done a short time ago, or when the
    /// table is full of others for which it was.
    pub(super) fn ask_for_rebirth(&mut self, now: Now, topic: String) -> bool {
        let is_recent = |asked: &ProcTime| now.proc.since(*asked) < REBIRTH_PAUSE;
        if self.waiting.len() >= REBIRTHS_LEN || self.asked.get(&topic).is_some_and(is_recent) {
            return false;
        }
        if self.asked.len() >= REBIRTHS_LEN {
            self.asked.retain(|_, asked| is_recent(asked));
            if self.asked.len() >= REBIRTHS_LEN {
                return false;
            }
        }
        self.asked.insert(topic.clone(), now.proc);
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
            commands.ask_for_rebirth(at(round * 30_000), "a".to_owned());
        }
        assert_eq!(commands.waiting.len(), REBIRTHS_LEN);
    }
}
