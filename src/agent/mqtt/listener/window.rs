//! Messages of a client that have no answer yet, by packet id: what the answer is called, and
//! how many there are.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::fault::Fault;

/// Messages at `QoS` 1 and 2 of one client.
#[derive(Debug)]
pub(super) struct Window {
    /// MQTT 5: a message at `QoS` 2 counts until PUBCOMP. Else until PUBREC: its PUBREL has to
    /// be read, so what waits for one must not stop the reading.
    until_complete: bool,
    ids: HashMap<u16, Waiting, FixedState>,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    exactly_once: bool,
    /// Answers that are missing: a client may send a message again before the first one.
    answers: u32,
}

/// What answers a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// At `QoS` 1.
    PubAck,
    /// At `QoS` 2.
    PubRec,
}

impl Window {
    pub(super) fn new(is_v5: bool) -> Window {
        Window { until_complete: is_v5, ids: HashMap::with_hasher(FixedState::default()), count: 0 }
    }

    /// Messages that count.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A message came. One at `QoS` 2 counts once, however often it comes.
    pub(super) fn open(&mut self, id: u16, exactly_once: bool) -> Result<(), Fault> {
        match self.ids.entry(id) {
            Entry::Vacant(free) => {
                free.insert(Waiting { exactly_once, answers: 1 });
                self.count += 1;
            }
            Entry::Occupied(taken) if taken.get().exactly_once != exactly_once => {
                return Err(Fault::Protocol("a packet id that is in use at another QoS"));
            }
            Entry::Occupied(mut taken) => {
                taken.get_mut().answers += 1;
                self.count += usize::from(!exactly_once);
            }
        }
        Ok(())
    }

    /// A message is answered; `None`: none with this id waits for it. `refused` ends one at
    /// `QoS` 2 at once: there will be no PUBREL.
    pub(super) fn answer(&mut self, id: u16, refused: bool) -> Option<Answer> {
        let waiting = self.ids.get_mut(&id).filter(|waiting| waiting.answers > 0)?;
        waiting.answers -= 1;
        let (exactly_once, is_last) = (waiting.exactly_once, waiting.answers == 0);
        if is_last && (!exactly_once || refused || !self.until_complete) {
            self.ids.remove(&id);
            self.count -= 1;
        } else if !exactly_once {
            self.count -= 1;
        }
        Some(if exactly_once { Answer::PubRec } else { Answer::PubAck })
    }

    /// PUBCOMP is sent.
    pub(super) fn complete(&mut self, id: u16) {
        if self.ids.get(&id).is_some_and(|waiting| waiting.exactly_once && waiting.answers == 0) {
            self.ids.remove(&id);
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_any_order_and_once() {
        let mut window = Window::new(false);
        window.open(1, false).unwrap();
        window.open(2, true).unwrap();
        assert_eq!(window.count(), 2);
        assert_eq!(window.answer(2, false), Some(Answer::PubRec));
        assert_eq!(window.answer(1, false), Some(Answer::PubAck));
        assert_eq!((window.answer(1, false), window.answer(2, false), window.count()), (None, None, 0));
    }

    #[test]
    fn in_mqtt_5_a_message_at_qos_2_counts_until_it_is_complete_or_refused() {
        let mut window = Window::new(true);
        window.open(1, true).unwrap();
        window.open(2, true).unwrap();
        assert_eq!(window.answer(1, false), Some(Answer::PubRec));
        assert_eq!(window.answer(1, false), None);
        assert_eq!(window.answer(2, true), Some(Answer::PubRec));
        assert_eq!(window.count(), 1);
        window.complete(1);
        window.complete(1);
        assert_eq!(window.count(), 0);
    }

    #[test]
    fn a_message_at_qos_2_that_comes_again_counts_once_and_is_answered_each_time() {
        for is_v5 in [false, true] {
            let mut window = Window::new(is_v5);
            window.open(1, true).unwrap();
            window.open(1, true).unwrap();
            assert_eq!(window.count(), 1);
            assert!(window.answer(1, false).is_some() && window.answer(1, false).is_some());
            window.complete(1);
            assert_eq!(window.count(), 0);
            assert!(window.open(1, false).is_ok() && window.open(1, false).is_ok());
            assert_eq!(window.count(), 2);
            assert!(window.open(1, true).is_err(), "at another QoS");
        }
    }
}
