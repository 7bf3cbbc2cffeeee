//! Which gateways a command is for: a glob over their ids, and where their topics are.

use core::str::FromStr;

use crate::model::ids::{Name, push_escaped};

/// A glob over gateway ids: `*` is any text, also none, and `?` any character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(String);

/// What comes from a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `status`
    Status,
    /// `config/reported`
    Reported,
    /// `cmd/<name>/reply`
    Reply(String),
}

/// The topics under one prefix.
#[derive(Clone, Debug)]
pub(super) struct Topics(pub(super) String);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Pattern, String> {
        let pattern = Pattern(text.to_owned());
        if pattern.single().is_some() && Name::new(text).is_none() {
            return Err("no gateway has such an id: 1 to 64 bytes without control characters".into());
        }
        Ok(pattern)
    }
}

impl Pattern {
    /// Every gateway.
    pub(super) fn all() -> Pattern {
        Pattern("*".to_owned())
    }

    /// The gateway that is meant, where it is one by its id.
    pub(super) fn single(&self) -> Option<&str> {
        (!self.0.contains(['*', '?'])).then_some(&self.0)
    }

    /// Whether this gateway is meant.
    pub(super) fn matches(&self, id: &str) -> bool {
        let (pattern, id): (Vec<char>, Vec<char>) = (self.0.chars().collect(), id.chars().collect());
        let (mut at, mut in_id) = (0, 0);
        // The last star, and where what it stands for ends: only the last one can need more.
        let mut star = None;
        while in_id < id.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, in_id));
                    at += 1;
                }
                Some(&c) if c == '?' || c == id[in_id] => {
                    at += 1;
                    in_id += 1;
                }
                Some(_) | None => {
                    let Some((star_at, end)) = star else { return false };
                    star = Some((star_at, end + 1));
                    (at, in_id) = (star_at + 1, end + 1);
                }
            }
        }
        pattern[at..].iter().all(|c| *c == '*')
    }
}

impl Topics {
    /// A topic of a gateway.
    pub(super) fn of(&self, gateway: &str, rest: &str) -> String {
        let mut topic = format!("{}/", self.0);
        push_escaped(&mut topic, gateway).expect("memory does not fail");
        topic.push('/');
        topic.push_str(rest);
        topic
    }

    /// A filter for this of every gateway that may be meant.
    pub(super) fn filter(&self, pattern: &Pattern, rest: &str) -> String {
        match pattern.single() {
            Some(gateway) => self.of(gateway, rest),
            None => format!("{}/+/{rest}", self.0),
        }
    }

    /// The gateway and what it is; `None` for topics that no gateway has.
    pub(super) fn parse(&self, topic: &str) -> Option<(String, Kind)> {
        let (gateway, rest) = topic.strip_prefix(&self.0)?.strip_prefix('/')?.split_once('/')?;
        let kind = match rest {
            "status" => Kind::Status,
            "config/reported" => Kind::Reported,
            other => Kind::Reply(other.strip_prefix("cmd/")?.strip_suffix("/reply")?.to_owned()),
        };
        Some((unescaped(gateway)?, kind))
    }
}

/// Reads what [`push_escaped`] writes, and nothing else: each gateway has one topic.
fn unescaped(level: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(level.len());
    let mut rest = level.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        rest = more;
        if first == b'%' {
            let (digits, more) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = more;
        } else {
            bytes.push(first);
        }
    }
    let id = String::from_utf8(bytes).ok()?;
    let mut again = String::new();
    push_escaped(&mut again, &id).expect("memory does not fail");
    (again == level && Name::new(&id).is_some()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_text_and_a_question_mark_one_character() {
        for (pattern, id, expected) in [
            ("*", "", true),
            ("*", "gw-1", true),
            ("gw-1", "gw-1", true),
            ("gw-1", "gw-11", false),
            ("gw-?", "gw-1", true),
            ("gw-?", "gw-ü", true),
            ("gw-?", "gw-", false),
            ("site-*-gw-*", "site-7-gw-12", true),
            ("site-*-gw-*", "site-7-12", false),
            ("*a*b", "aabab", true),
            ("*a*b", "aaba", false),
            ("**", "x", true),
            ("*?", "", false),
        ] {
            assert_eq!(Pattern(pattern.to_owned()).matches(id), expected, "{pattern} {id}");
        }
        let long = format!("{}b", "a".repeat(64));
        assert!(!Pattern("*a".repeat(32)).matches(&long), "and it does not take for ever");
    }

    #[test]
    fn one_id_is_asked_for_alone_and_is_one() {
        let topics = Topics("tidegate".to_owned());
        let filter = |pattern: &str| topics.filter(&pattern.parse().unwrap(), "status");
        assert_eq!(filter("gw 1"), "tidegate/gw%201/status");
        assert_eq!(filter("gw-*"), "tidegate/+/status");
        assert!("".parse::<Pattern>().is_err());
        assert!("x".repeat(65).parse::<Pattern>().is_err());
    }

    #[test]
    fn a_topic_names_its_gateway_in_one_way_only() {
        let topics = Topics("site/tidegate".to_owned());
        let parse = |topic: &str| topics.parse(topic);
        assert_eq!(parse("site/tidegate/gw-1/status"), Some(("gw-1".into(), Kind::Status)));
        assert_eq!(parse(&topics.of("a/ü", "config/reported")), Some(("a/ü".into(), Kind::Reported)));
        assert_eq!(parse("site/tidegate/g/cmd/flush/reply"), Some(("g".into(), Kind::Reply("flush".into()))));
        for wrong in [
            "site/tidegate/status",
            "site/tidegatex/g/status",
            "site/tidegate/g/config/desired",
            "site/tidegate/%67/status",
            "site/tidegate/%2f/status",
            "site/tidegate/%2/status",
            "site/tidegate/%ff/status",
            "site/tidegate//status",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
