//! Topic aliases (MQTT 5): numbers in place of topics, in both directions, for one connection.

use std::collections::HashMap;

use super::fault::Fault;

/// Aliases that are used towards a client at most. The first topics have them until the
/// connection ends: what a client receives comes from few topics or from very many.
const OUTBOUND_MAX: u16 = 16;
/// Longer topics have none: it bounds what a connection keeps.
const TOPIC_BYTES_MAX: usize = 256;

/// What the client's numbers stand for.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    max: u16,
    topics: Vec<Option<Box<str>>>,
    bytes: usize,
}

impl Inbound {
    /// `max`: what the client is told.
    pub(super) fn new(max: u16) -> Inbound {
        Inbound { max, topics: Vec::new(), bytes: 0 }
    }

    /// The topic of a PUBLISH. A topic that is not empty (and valid) is noted.
    pub(super) fn resolve<'a>(&'a mut self, alias: u16, topic: &'a str) -> Result<&'a str, Fault> {
        if alias == 0 || alias > self.max {
            return Err(Fault::TopicAlias(alias));
        }
        let index = usize::from(alias) - 1;
        if topic.is_empty() {
            let known = self.topics.get(index).and_then(Option::as_deref);
            return known.ok_or(Fault::Protocol("a topic alias that stands for nothing"));
        }
        if self.topics.len() <= index {
            self.topics.resize(index + 1, None);
        }
        let before = self.topics[index].replace(topic.into());
        self.bytes = self.bytes + topic.len() - before.map_or(0, |before| before.len());
        Ok(topic)
    }

    /// Bytes of topics that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How a topic is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// As it is.
    Plain,
    /// With a number that stands for it from now on.
    Introduced(u16),
    /// As this number alone.
    Number(u16),
}

/// Our numbers towards the client.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    max: u16,
    numbers: HashMap<Box<str>, u16>,
}

impl Outbound {
    /// `max`: what the client takes.
    pub(super) fn new(max: u16) -> Outbound {
        Outbound { max: max.min(OUTBOUND_MAX), numbers: HashMap::new() }
    }

    /// How `topic` is to be written. Nothing changes until it is [noted](Outbound::note): the
    /// message may turn out too large.
    pub(super) fn look_up(&self, topic: &str) -> Written {
        if self.max == 0 {
            return Written::Plain;
        }
        if let Some(&number) = self.numbers.get(topic) {
            return Written::Number(number);
        }
        match u16::try_from(self.numbers.len() + 1) {
            Ok(next) if next <= self.max && topic.len() <= TOPIC_BYTES_MAX => Written::Introduced(next),
            Ok(_) | Err(_) => Written::Plain,
        }
    }

    /// `topic` has been written like that.
    pub(super) fn note(&mut self, topic: &str, written: Written) {
        if let Written::Introduced(number) = written {
            self.numbers.insert(topic.into(), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_the_last_topic_that_came_with_it() {
        let mut aliases = Inbound::new(2);
        assert_eq!(aliases.resolve(2, ""), Err(Fault::Protocol("a topic alias that stands for nothing")));
        assert_eq!(aliases.resolve(2, "a/b").as_deref(), Ok("a/b"));
        assert_eq!(aliases.resolve(2, "").as_deref(), Ok("a/b"));
        assert_eq!(aliases.resolve(2, "c").as_deref(), Ok("c"));
        assert_eq!(aliases.resolve(2, "").as_deref(), Ok("c"));
        assert_eq!(aliases.bytes(), 1);
        assert!(aliases.resolve(1, "").is_err());
        for beyond in [0, 3, u16::MAX] {
            assert_eq!(aliases.resolve(beyond, "x"), Err(Fault::TopicAlias(beyond)));
        }
    }

    #[test]
    fn the_first_topics_get_numbers_once_they_are_sent() {
        let mut aliases = Outbound::new(1);
        assert_eq!(aliases.look_up("a"), Written::Introduced(1));
        assert_eq!(aliases.look_up("b"), Written::Introduced(1), "nothing was sent yet");
        aliases.note("b", Written::Introduced(1));
        assert_eq!(aliases.look_up("b"), Written::Number(1));
        assert_eq!(aliases.look_up("a"), Written::Plain);
        assert_eq!(Outbound::new(0).look_up("a"), Written::Plain);
        assert_eq!(Outbound::new(9).look_up(&"x".repeat(257)), Written::Plain);
    }
}
