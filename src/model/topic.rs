//! Topics are parsed next to their filter, so that subscribing and matching
//! cannot drift apart.
//!
//! A pattern is an MQTT topic filter whose wildcards may have names:
//!
//! ```text
//! devices/{device}/climate      one level, captured
//! site/{site}/+/{device}        several levels; `+` matches without a name
//! home/{device...}              one or more levels to the end
//! boiler/state                  none: the device is then a fixed name
//! ```

use core::fmt;

use super::ids::DeviceId;
use super::limits::DEVICE_ID_BYTES;

/// Captures of one pattern.
const CAPTURES_MAX: usize = 8;

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

/// How a device id is made from the captures: `{device}`, `{site}-{unit}`, or
/// a fixed text without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Capture(usize),
}

/// What is wrong with a pattern or template; one sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TopicError(String);

impl TopicPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// Says which level is wrong and why.
    pub fn parse(pattern: &str) -> Result<TopicPattern, TopicError> {
        if pattern.is_empty() || pattern.len() > 1_024 || pattern.contains('\0') {
            return Err(TopicError("a topic has 1 to 1024 bytes and no NUL".into()));
        }
        if pattern.starts_with("$share/") {
            // The broker would deliver under the topic without the prefix, to one of the group.
            return Err(TopicError("a shared subscription gives this agent a part of the messages only".into()));
        }
        let mut parsed = TopicPattern { levels: Vec::new(), names: Vec::new(), filter: String::new() };
        let count = pattern.split('/').count();
        for (index, text) in pattern.split('/').enumerate() {
            let level = parsed.level(text, index + 1 == count)?;
            if index > 0 {
                parsed.filter.push('/');
            }
            match &level {
                Level::Literal(literal) => parsed.filter.push_str(literal),
                Level::Any | Level::Capture => parsed.filter.push('+'),
                // `+/#`: at least one level, unlike `#` alone, which matches its parent too.
                Level::Rest => parsed.filter.push_str("+/#"),
            }
            parsed.levels.push(level);
        }
        Ok(parsed)
    }

    fn level(&mut self, text: &str, last: bool) -> Result<Level, TopicError> {
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
        if rest && !last {
            return Err(TopicError(format!("level \"{text}\": `...` is allowed in the last level only")));
        }
        self.names.push(name.to_owned());
        Ok(if rest { Level::Rest } else { Level::Capture })
    }

    /// The MQTT filter to subscribe to: exactly the topics that
    /// [`TopicPattern::match_topic`] accepts, but for `$`-topics.
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
        for level in &self.levels {
            let remaining = rest?;
            if matches!(level, Level::Rest) {
                captures.push(remaining).ok()?;
                return Some(captures);
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

impl DeviceTemplate {
    /// Parses a template against the captures of `pattern`.
    ///
    /// # Errors
    /// An unknown capture, an unclosed brace, or nothing at all.
    pub fn parse(template: &str, pattern: &TopicPattern) -> Result<DeviceTemplate, TopicError> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            let Some(close) = rest[open..].find('}') else {
                return Err(TopicError(format!("\"{template}\": `{{` without `}}`")));
            };
            let name = &rest[open + 1..open + close];
            let Some(index) = pattern.names.iter().position(|known| known == name) else {
                return Err(TopicError(format!(
                    "\"{template}\": the topic captures no `{name}` (it has: {})",
                    if pattern.names.is_empty() { "none".to_owned() } else { pattern.names.join(", ") }
                )));
            };
            parts.push(Part::Capture(index));
            rest = &rest[open + close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        if parts.is_empty() {
            return Err(TopicError("a device id is not empty".into()));
        }
        if let [Part::Literal(fixed)] = parts.as_slice()
            && DeviceId::new(fixed).is_none()
        {
            return Err(TopicError(format!("\"{template}\" is no device id: 1 to {DEVICE_ID_BYTES} printable bytes")));
        }
        Ok(DeviceTemplate { parts })
    }

    /// The device id; borrowed where one part is all of it, else written into
    /// `buffer`. `None` when it is empty, too long or not printable.
    pub fn resolve<'a>(
        &'a self,
        captures: &Captures<'a>,
        buffer: &'a mut heapless::String<DEVICE_ID_BYTES>,
    ) -> Option<&'a str> {
        let text = match self.parts.as_slice() {
            [Part::Literal(fixed)] => fixed.as_str(),
            [Part::Capture(index)] => captures.get(*index)?,
            parts => {
                buffer.clear();
                for part in parts {
                    buffer
                        .push_str(match part {
                            Part::Literal(literal) => literal,
                            Part::Capture(index) => captures.get(*index)?,
                        })
                        .ok()?;
                }
                buffer
            }
        };
        let printable = !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
        (printable && !text.is_empty() && text.len() <= DEVICE_ID_BYTES).then_some(text)
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

    fn device(pattern: &str, template: &str, topic: &str) -> Option<String> {
        let pattern = TopicPattern::parse(pattern).expect("a valid pattern");
        let template = DeviceTemplate::parse(template, &pattern).expect("a valid template");
        let mut buffer = heapless::String::new();
        let captures = pattern.match_topic(topic)?;
        template.resolve(&captures, &mut buffer).map(str::to_owned)
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
    }

    #[test]
    fn a_wrong_pattern_says_what_is_wrong() {
        for (pattern, part) in [
            ("a/#", "whole level"),
            ("a/{x}/{x}", "twice"),
            ("a/{x...}/b", "last level"),
            ("a/{}/b", "letters"),
            ("a/b{x}", "whole level"),
            ("$share/g/a/{x}", "shared subscription"),
            ("", "1 to 1024"),
        ] {
            let error = TopicPattern::parse(pattern).expect_err(pattern).to_string();
            assert!(error.contains(part), "{pattern}: {error}");
        }
        let pattern = TopicPattern::parse("a/{x}").expect("valid");
        assert!(DeviceTemplate::parse("{y}", &pattern).expect_err("unknown").to_string().contains("it has: x"));
    }
}
