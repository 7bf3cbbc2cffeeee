//! Topics are parsed next to their filter, so that subscribing and matching
//! cannot drift apart.
//!
//! A pattern is an MQTT topic filter whose wildcards may have names:
//!
//! ```text
//! devices/{device}/climate      one level, captured
//! site/{site}/+/{device}        several levels; `+` matches without a name
//! home/{device...}              one or more levels to the end
//! home/{device...}/state        the same, with fixed levels after them
//! boiler/state                  none: the device is then a fixed name
//! ```

use core::fmt;

use super::limits::MQTT_NAME_BYTES;

/// Captures of one pattern.
const CAPTURES_MAX: usize = 8;
/// Bytes of one pattern.
pub const PATTERN_BYTES_MAX: usize = 1_024;

/// A checked topic pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPattern {
    levels: Vec<Level>,
    names: Vec<String>,
    filter: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Level {
    Literal(String),
    Any,
    Capture,
    Rest,
}

/// What the named wildcards matched, in the order of the pattern.
pub type Captures<'t> = heapless::Vec<&'t str, CAPTURES_MAX>;

/// What is wrong with a pattern or template; one sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TopicError(String);

/// Whether topics may begin with these levels: 1 to [`MQTT_NAME_BYTES`] bytes, no wildcards, no
/// empty level, no `$` at the start.
pub fn is_prefix(text: &str) -> bool {
    let level =
        |level: &str| !level.is_empty() && !level.contains(['+', '#']) && level.chars().all(|c| !c.is_control());
    text.len() <= MQTT_NAME_BYTES && !text.starts_with('$') && text.split('/').all(level)
}

/// Whether something can be published to this topic: 1 to 65,535 bytes, no wildcards, no NUL.
pub fn is_topic(text: &str) -> bool {
    !text.is_empty() && u16::try_from(text.len()).is_ok() && !text.contains(['+', '#', '\0'])
}

impl TopicPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Says which level is wrong and why.
    pub fn parse(pattern: &str) -> Result<TopicPattern, TopicError> {
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX || pattern.contains('\0') {
            return Err(TopicError(format!("a topic has 1 to {PATTERN_BYTES_MAX} bytes and no NUL")));
        }
        if pattern.starts_with("$share/") {
            // The broker would deliver under the topic without the prefix, to one of the group.
            return Err(TopicError("a shared subscription gives this agent a part of the messages only".into()));
        }
        let mut parsed = TopicPattern { levels: Vec::new(), names: Vec::new(), filter: String::new() };
        for (index, text) in pattern.split('/').enumerate() {
            let level = parsed.level(text)?;
            // MQTT has nothing after `#`: the filter of levels behind several is wider.
            if !parsed.levels.contains(&Level::Rest) {
                if index > 0 {
                    parsed.filter.push('/');
                }
                match &level {
                    Level::Literal(literal) => parsed.filter.push_str(literal),
                    Level::Any | Level::Capture => parsed.filter.push('+'),
                    // `+/#`: at least one level, unlike `#` alone, which matches its parent too.
                    Level::Rest => parsed.filter.push_str("+/#"),
                }
            }
            parsed.levels.push(level);
        }
        Ok(parsed)
    }

    fn level(&mut self, text: &str) -> Result<Level, TopicError> {
        if text == "+" {
            return Ok(Level::Any);
        }
        let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            if text.contains(['{', '}', '+', '#']) {
                return Err(TopicError(format!(
                    "level \"{text}\": a wildcard fills a whole level; write `+`, `{{name}}`, or `{{name...}}` at the end"
                )));
            }
            return Ok(Level::Literal(text.to_owned()));
        };
        let (name, rest) = match inner.strip_suffix("...") {
            Some(name) => (name, true),
            None => (inner, false),
        };
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(TopicError(format!("level \"{text}\": a capture's name has letters, digits and `_` only")));
        }
        if self.names.iter().any(|known| known == name) {
            return Err(TopicError(format!("the capture `{name}` appears twice")));
        }
        if self.names.len() == CAPTURES_MAX {
            return Err(TopicError(format!("more than {CAPTURES_MAX} captures")));
        }
        if rest && self.levels.contains(&Level::Rest) {
            return Err(TopicError(format!("level \"{text}\": `...` is allowed once")));
        }
        self.names.push(name.to_owned());
        Ok(if rest { Level::Rest } else { Level::Capture })
    }

    /// The MQTT filter to subscribe to: exactly the topics that [`TopicPattern::match_topic`]
    /// accepts, but for `$`-topics, and for levels behind `{name...}`, which MQTT cannot ask for.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// Whether a topic below these levels may match.
    pub fn reaches_below(&self, levels: &str) -> bool {
        let mut pattern = self.levels.iter();
        for wanted in levels.split('/') {
            match pattern.next() {
                Some(Level::Rest) => return true,
                Some(Level::Any | Level::Capture) => {}
                Some(Level::Literal(literal)) if literal == wanted => {}
                Some(Level::Literal(_)) | None => return false,
            }
        }
        pattern.next().is_some()
    }

    /// The captures' names, in the order of the pattern.
    pub fn capture_names(&self) -> &[String] {
        &self.names
    }

    /// The captures, when the topic matches.
    pub fn match_topic<'t>(&self, topic: &'t str) -> Option<Captures<'t>> {
        let mut captures = Captures::new();
        let mut rest = Some(topic);
        for (index, level) in self.levels.iter().enumerate() {
            let remaining = rest?;
            if matches!(level, Level::Rest) {
                let (several, tail) = without_last(remaining, self.levels.len() - index - 1)?;
                captures.push(several).ok()?;
                rest = tail;
                continue;
            }
            let (head, tail) = match remaining.split_once('/') {
                Some((head, tail)) => (head, Some(tail)),
                None => (remaining, None),
            };
            match level {
                Level::Literal(literal) if literal == head => {}
                Level::Literal(_) => return None,
                Level::Any | Level::Rest => {}
                Level::Capture => captures.push(head).ok()?,
            }
            rest = tail;
        }
        rest.is_none().then_some(captures)
    }
}

/// Splits the last `levels` off; something has to remain.
fn without_last(topic: &str, levels: usize) -> Option<(&str, Option<&str>)> {
    let mut split = topic.len();
    for _ in 0..levels {
        split = topic[..split].rfind('/')?;
    }
    Some((&topic[..split], topic.get(split + 1..)))
}

impl TopicError {
    /// One sentence for a person.
    pub(super) fn new(sentence: String) -> TopicError {
        TopicError(sentence)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::template::{Source, Template};

    fn device(pattern: &str, template: &str, topic: &str) -> Option<String> {
        let pattern = TopicPattern::parse(pattern).expect("a valid pattern");
        let template = Template::parse(template, &pattern).expect("a valid template");
        let captures = pattern.match_topic(topic)?;
        template.id(Source::topic(&captures)).map(|id| id.as_str().to_owned())
    }

    #[test]
    fn a_pattern_reaches_below_levels_that_it_can_match_and_goes_beyond() {
        let reaches = |pattern: &str| TopicPattern::parse(pattern).expect("valid").reaches_below("tide/gw/local");
        for pattern in ["{all...}", "tide/{rest...}", "tide/+/{rest...}", "+/{gw}/local/{device}", "tide/gw/local/a/b"]
        {
            assert!(reaches(pattern), "{pattern}");
        }
        for pattern in
            ["devices/{device}", "tide/gw/local", "tide/{device}/data/live", "tide/gw/locale/a", "tide/+/{x}"]
        {
            assert!(!reaches(pattern), "{pattern}");
        }
    }

    #[test]
    fn the_device_comes_from_one_level_several_levels_or_a_fixed_name() {
        let cases = [
            ("devices/{device}/t", "{device}", "devices/a b/t", Some("a b")),
            ("devices/{device}/t", "{device}", "devices/a/b/t", None),
            ("devices/{device}/t", "{device}", "devices/a", None),
            ("devices/{device}/t", "{device}", "devices/a/t/x", None),
            ("{site}/+/{unit}", "{site}-{unit}", "north/floor/7", Some("north-7")),
            ("home/{device...}", "{device}", "home/attic/lamp", Some("attic/lamp")),
            ("home/{device...}", "{device}", "home/lamp", Some("lamp")),
            ("home/{device...}", "{device}", "home", None),
            ("home/{device...}/state", "{device}", "home/attic/lamp/state", Some("attic/lamp")),
            ("home/{device...}/state", "{device}", "home/lamp/state", Some("lamp")),
            ("home/{device...}/state", "{device}", "home/state", None),
            ("home/{device...}/state", "{device}", "home/lamp/set", None),
            ("home/{device...}/{part}/+", "{device}.{part}", "home/a/b/c/d", Some("a/b.c")),
            ("boiler/state", "boiler", "boiler/state", Some("boiler")),
            ("devices/{device}/t", "{device}", "devices//t", None),
        ];
        for (pattern, template, topic, expected) in cases {
            assert_eq!(device(pattern, template, topic).as_deref(), expected, "{pattern} against {topic}");
        }
    }

    #[test]
    fn the_filter_is_what_mqtt_understands() {
        let filter = |pattern: &str| TopicPattern::parse(pattern).expect("valid").filter().to_owned();
        assert_eq!(filter("devices/{device}/t"), "devices/+/t");
        assert_eq!(filter("home/{device...}"), "home/+/#");
        assert_eq!(filter("a/+/b"), "a/+/b");
        assert_eq!(filter("home/{device...}/state"), "home/+/#");
    }

    #[test]
    fn a_wrong_pattern_says_what_is_wrong() {
        for (pattern, part) in [
            ("a/#", "whole level"),
            ("a/{x}/{x}", "twice"),
            ("a/{x...}/b/{y...}", "once"),
            ("a/{}/b", "letters"),
            ("a/b{x}", "whole level"),
            ("$share/g/a/{x}", "shared subscription"),
            ("", "1 to 1024"),
        ] {
            let error = TopicPattern::parse(pattern).expect_err(pattern).to_string();
            assert!(error.contains(part), "{pattern}: {error}");
        }
    }
}
