//! Reason codes of MQTT in words, and what follows from them.

use core::fmt;

use crate::engine::step::Refusal;

/// Bytes of a broker's own words that are passed on.
const TEXT_BYTES_MAX: usize = 200;

/// A reason code of MQTT 5, or a return code of 3.1.1 as the code of 5 that means the same.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reason {
    /// The code; from 0x80 on it says no.
    pub code: u8,
    /// What the broker says beside it.
    text: Option<String>,
}

/// The broker would have its message taken, and nobody has subscribed to it.
pub const NO_SUBSCRIBERS: u8 = 0x10;
/// A CONNECT in a version that the broker does not speak.
pub const UNSUPPORTED_VERSION: u8 = 0x84;
/// The broker keeps no retained messages.
pub const NO_RETAIN: u8 = 0x9a;

impl Reason {
    /// With the broker's own words, which may be anything: what a log or a status
    /// document cannot hold is replaced, what is too long is cut.
    pub fn new(code: u8, text: Option<&str>) -> Reason {
        let text = text.map(|text| {
            let mut end = text.len().min(TEXT_BYTES_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text[..end].chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
        });
        Reason { code, text: text.filter(|text: &String| !text.trim().is_empty()) }
    }

    /// The code of MQTT 5 for a return code of 3.1.1.
    pub fn of_connack(return_code: u8) -> Reason {
        let code = match return_code {
            0 => 0,
            1 => UNSUPPORTED_VERSION,
            2 => 0x85,
            3 => 0x88,
            4 => 0x86,
            5 => 0x87,
            _ => 0x80,
        };
        Reason::new(code, None)
    }

    /// It says no.
    pub fn is_refusal(&self) -> bool {
        self.code >= 0x80
    }

    /// Said to a CONNECT: trying again gives the same answer until a person has changed who we
    /// are, how we log in, or the broker.
    pub fn is_permanent(&self) -> bool {
        matches!(self.code, UNSUPPORTED_VERSION..=0x87 | 0x8a | 0x8c)
    }

    /// What the answer to a publish means for it; `None`: it is taken.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.code {
            0..0x80 => None,
            0x80 | 0x83 | 0x90 | 0x95 | 0x99 => Some(Refusal::Poison),
            _ => Some(Refusal::NotNow),
        }
    }

    /// A broker that ends the connection with it does so because of what we have
    /// published: one of the messages in flight may be the cause.
    pub fn blames_a_message(&self) -> bool {
        matches!(self.code, 0x80..=0x83 | 0x90 | 0x95 | 0x99)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = words(self.code);
        if words.is_empty() {
            write!(f, "reason code {:#04x}, which MQTT 5 does not know", self.code)?;
        } else {
            f.write_str(words)?;
        }
        match &self.text {
            Some(text) => write!(f, " (it says: {text})"),
            None => Ok(()),
        }
    }
}

/// Empty for a code that the standard does not have.
fn words(code: u8) -> &'static str {
    match code {
        0x00 => "no reason given",
        NO_SUBSCRIBERS => "nobody has subscribed",
        0x80 => "it gives no reason",
        0x81 => "it cannot read a packet of ours",
        0x82 => "it says that we broke the protocol",
        0x83 => "a rule of its own forbids it",
        UNSUPPORTED_VERSION => "it does not speak this version of MQTT",
        0x85 => "it does not accept the client id",
        0x86 => "wrong user name or password",
        0x87 => "not authorised (user name, password, certificate, or its access rules)",
        0x88 => "the service is unavailable",
        0x89 => "it is busy",
        0x8a => "this client is banned",
        0x8b => "it is shutting down",
        0x8c => "it wants another way of authentication",
        0x8d => "it heard nothing of us within the keep-alive time",
        0x8e => "another client has connected under our client id",
        0x8f => "it does not accept a topic filter",
        0x90 => "it does not accept the topic",
        0x91 => "the packet id is in use",
        0x92 => "it does not know the packet id",
        0x93 => "more publishes than it takes at a time",
        0x94 => "it does not accept a topic alias",
        0x95 => "a packet is larger than it takes",
        0x96 => "messages come faster than it takes them",
        0x97 => "a quota is used up",
        0x98 => "an administrator has ended it",
        0x99 => "it does not accept the payload",
        NO_RETAIN => "it keeps no retained messages",
        0x9b => "it does not take messages at QoS 1",
        0x9c => "another server is to be used for now",
        0x9d => "the server has moved",
        0x9e => "it does not have shared subscriptions",
        0x9f => "connections come faster than it takes them",
        0xa0 => "the longest time that it allows for a connection is over",
        0xa1 => "it does not have subscription identifiers",
        0xa2 => "it does not have wildcards in subscriptions",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_words_and_a_meaning_and_none_breaks_a_line() {
        for code in 0..=u8::MAX {
            let shown = Reason::new(code, Some("line\none\u{7}")).to_string();
            assert!(shown.ends_with(" (it says: line one )"), "{shown}");
            let reason = Reason::new(code, None);
            assert_eq!(reason.is_refusal(), code >= 0x80);
            assert_eq!(reason.refusal().is_some(), reason.is_refusal());
        }
        assert!(Reason::new(0xee, None).to_string().contains("0xee"));
        assert_eq!(Reason::new(0x97, None).refusal(), Some(Refusal::NotNow));
        assert_eq!(Reason::new(0xee, None).refusal(), Some(Refusal::NotNow), "unknown");
        assert_eq!(Reason::new(0x99, None).refusal(), Some(Refusal::Poison));
    }

    #[test]
    fn a_wrong_password_is_permanent_and_a_busy_broker_is_not() {
        for return_code in [1, 2, 4, 5] {
            assert!(Reason::of_connack(return_code).is_permanent(), "{return_code}");
        }
        for code in [0, 0x80, 0x88, 0x89, 0x8b, 0x97, NO_RETAIN, 0x9f] {
            assert!(!Reason::new(code, None).is_permanent(), "{code:#x}");
        }
    }

    #[test]
    fn a_broker_s_own_words_are_cut() {
        let shown = Reason::new(0x80, Some(&"ä".repeat(1_000))).to_string();
        assert!(shown.len() < 300, "{}", shown.len());
        assert!(!Reason::new(0x80, Some("  ")).to_string().contains("says"));
    }
}
