//! Where Sparkplug messages are published.
//!
//! ```text
//! spBv1.0/GROUP/N<type>/EDGE            of an edge node
//! spBv1.0/GROUP/D<type>/EDGE/DEVICE     of a device behind it
//!               type: BIRTH DATA DEATH CMD
//! spBv1.0/STATE/HOST    STATE/HOST      of a host application: 3.0, and before
//! ```

/// A topic, taken apart. No part is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic<'t> {
    /// Of an edge node, or of a device of it.
    Edge {
        /// The group of the edge node.
        group: &'t str,
        /// The edge node.
        edge: &'t str,
        /// The device; none, when it is about the edge node itself.
        device: Option<&'t str>,
        /// What it is.
        message: Message,
    },
    /// Whether a host application is there. Not about devices.
    State {
        /// Its id.
        host: &'t str,
    },
}

/// What a message of an edge node or a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// It is there: all its metrics, with names, aliases and types.
    Birth,
    /// What has changed.
    Data,
    /// It is gone. Of an edge node it is the will that the broker publishes.
    Death,
    /// To it, from a host.
    Command,
}

impl<'t> Topic<'t> {
    /// The parts of `topic`; nothing when it is none of Sparkplug's.
    pub fn parse(topic: &'t str) -> Option<Topic<'t>> {
        let mut levels = [""; 5];
        let mut count = 0;
        for level in topic.split('/') {
            *levels.get_mut(count)? = level;
            count += 1;
        }
        if levels[..count].iter().any(|level| level.is_empty()) {
            return None;
        }
        match levels[..count] {
            ["STATE", host] | ["spBv1.0", "STATE", host] => Some(Topic::State { host }),
            ["spBv1.0", group, kind, edge] => {
                let message = Message::of(kind.strip_prefix('N')?)?;
                Some(Topic::Edge { group, edge, device: None, message })
            }
            ["spBv1.0", group, kind, edge, device] => {
                let message = Message::of(kind.strip_prefix('D')?)?;
                Some(Topic::Edge { group, edge, device: Some(device), message })
            }
            _ => None,
        }
    }
}

impl Message {
    fn of(word: &str) -> Option<Message> {
        match word {
            "BIRTH" => Some(Message::Birth),
            "DATA" => Some(Message::Data),
            "DEATH" => Some(Message::Death),
            "CMD" => Some(Message::Command),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_topic_is_taken_apart() {
        let types =
            [("BIRTH", Message::Birth), ("DATA", Message::Data), ("DEATH", Message::Death), ("CMD", Message::Command)];
        for (word, message) in types {
            let node = Topic::Edge { group: "G 1", edge: "edge1", device: None, message };
            assert_eq!(Topic::parse(&format!("spBv1.0/G 1/N{word}/edge1")), Some(node));
            let device = Topic::Edge { group: "G 1", edge: "edge1", device: Some("pump7"), message };
            assert_eq!(Topic::parse(&format!("spBv1.0/G 1/D{word}/edge1/pump7")), Some(device));
        }
        let host = Some(Topic::State { host: "host1" });
        assert_eq!([Topic::parse("spBv1.0/STATE/host1"), Topic::parse("STATE/host1")], [host, host]);
    }

    #[test]
    fn anything_else_is_no_topic_of_sparkplug() {
        for topic in [
            "",
            "spBv1.0",
            "spBv1.0/G",
            "spBv1.0/G/NBIRTH",
            "spBv1.0/G/NBIRTH/",
            "spBv1.0//NBIRTH/edge",
            "spBv1.0/G/NBIRTH/edge/device",
            "spBv1.0/G/DBIRTH/edge",
            "spBv1.0/G/DBIRTH/edge/device/more",
            "spBv1.0/G/XDATA/edge",
            "spBv1.0/G/nbirth/edge",
            "spBv1.0/G/STATE/host",
            "spAv1.0/G/NBIRTH/edge",
            "STATE/a/b",
            "/spBv1.0/G/NBIRTH/edge",
        ] {
            assert_eq!(Topic::parse(topic), None, "{topic}");
        }
    }
}
