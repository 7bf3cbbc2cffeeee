//! Whose topics a stream reads, and what they say beside readings.

use std::collections::BTreeMap;

use crate::model::ids::Name;
use crate::model::template::Template;
use crate::model::topic::TopicPattern;

/// Topics that readings come on.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSpec {
    /// Which.
    pub pattern: TopicPattern,
    /// How the device id is made.
    pub device: Template,
    /// How the group label is made; `None`: there are no groups.
    pub group: Option<Template>,
    /// How the labels are made, in the order of [`super::StreamSpec::labels`].
    pub labels: Vec<Template>,
    /// Formats of one value: how it is called; its `/` are levels.
    pub field: Option<Template>,
    /// With what the names of all fields begin, where every number counts; likewise.
    pub prefix: Option<Template>,
}

/// What a label is made of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelSpec {
    /// Its name, for templates and expressions.
    pub name: String,
    /// What the texts stand for; empty: themselves.
    pub map: BTreeMap<String, String>,
    /// What a text stands for that the map does not have; `None`: there is no label then.
    pub default: Option<String>,
}

/// Topics that say who is there.
#[derive(Clone, Debug, PartialEq)]
pub struct AvailabilitySpec {
    /// Which.
    pub pattern: TopicPattern,
    /// Whom it is about.
    pub devices: Whom,
    /// Where the word is when the payload is JSON; a payload that is plain text is the word.
    pub pointer: Option<String>,
    /// Words that say that they are there; ASCII letters in either case.
    pub online: Vec<String>,
    /// Words that say that they are not.
    pub offline: Vec<String>,
}

/// Whom a signal is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Whom {
    /// The device of this id.
    Device(Template),
    /// All devices whose id begins with this.
    Below(Template),
    /// All devices of the stream.
    All,
}

/// Device ids by pattern: a text in which `*` stands for anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevicePatterns(pub Vec<String>);

impl TopicSpec {
    /// Readings of `device`.
    pub fn new(pattern: TopicPattern, device: Template) -> TopicSpec {
        TopicSpec { pattern, device, group: None, labels: Vec::new(), field: None, prefix: None }
    }
}

impl LabelSpec {
    /// What `text` stands for.
    pub fn read<'a>(&'a self, text: &'a str) -> Option<&'a str> {
        if self.map.is_empty() {
            return Some(text);
        }
        self.map.get(text).or(self.default.as_ref()).map(String::as_str)
    }
}

impl AvailabilitySpec {
    /// What `word` says; `None` when it is neither.
    pub fn read(&self, word: &str) -> Option<bool> {
        let is = |words: &[String]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        match (is(&self.online), is(&self.offline)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        }
    }
}

impl DevicePatterns {
    /// Whether one of them fits.
    pub fn fit(&self, device: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, device))
    }
}

/// Whether `text` is `pattern` with something for each `*`. Linear in both but for the
/// literals between stars, which are searched for once each.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut literals = rest.split('*').peekable();
    while let Some(literal) = literals.next() {
        if literals.peek().is_none() {
            return text.ends_with(literal);
        }
        let Some(at) = text.find(literal) else { return false };
        text = &text[at + literal.len()..];
    }
    true
}

/// How records are kept out, and what is calculated from them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulesSpec {
    /// Only these devices; `None`: all.
    pub allow: Option<DevicePatterns>,
    /// Not these.
    pub deny: DevicePatterns,
    /// Records for which it is false are passed over, and counted. Checked.
    pub filter: Option<String>,
    /// Fields that are calculated: name and expression. Checked.
    pub compute: Vec<(Name, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("pump-*", "pump-7", true),
            ("pump-*", "pump-", true),
            ("pump-*", "pum", false),
            ("*", "anything", true),
            ("*-7", "pump-7", true),
            ("*-7", "pump-71", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("exact", "exact", true),
            ("exact", "exactly", false),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
