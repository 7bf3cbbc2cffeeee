//! Texts that are put together from a message: device ids, labels, field names.
//!
//! ```text
//! {device}            what the topic captured under that name
//! {/deviceInfo/devEui}  the record's value at this JSON Pointer
//! {^/PublisherId}     the same, from the top of the payload
//! {*1}                the key that the first `*` of `records` met
//! {zone}              a label of the stream
//! {/devEUI:hex}       the same as hexadecimal digits, for ids that some senders write in base64
//! {*1|device}         the first of these that is there
//! north-{unit}        text and braces, as many as wanted
//! ```

use super::ids::DeviceId;
use super::limits::{DEVICE_ID_BYTES, TEXTS_MAX};
use super::topic::{Captures, TopicError, TopicPattern};

/// A checked template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Capture(usize),
    Payload(usize),
    Label(usize),
    Hex(Box<Part>),
    First(Vec<Part>),
}

/// A text that templates take from the payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PayloadText {
    /// At this JSON Pointer of the record.
    Record(String),
    /// At this JSON Pointer of the whole payload.
    Document(String),
    /// The key or index that the n-th `*` of `records` met, from 0.
    Key(usize),
}

/// What braces may name. Texts of the payload are collected: each has its place.
#[derive(Debug, Default)]
pub struct Words<'w> {
    /// The stream's labels, by place.
    pub labels: &'w [String],
    /// The texts that templates have asked for so far.
    pub texts: Vec<PayloadText>,
}

/// Where the texts of one record are found.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// What the topic captured.
    pub captures: &'a Captures<'a>,
    /// What the payload holds, by the places of [`Words::texts`].
    pub texts: &'a [Option<&'a str>],
    /// The labels, by place; `None` for one that could not be made.
    pub labels: &'a [Option<DeviceId>],
}

impl Template {
    /// Parses a template that takes nothing but captures of `pattern`.
    ///
    /// # Errors
    /// An unknown capture, an unclosed brace, or nothing at all.
    pub fn parse(template: &str, pattern: &TopicPattern) -> Result<Template, TopicError> {
        let mut words = Words::default();
        let parsed = Template::parse_with(template, pattern, &mut words)?;
        if words.texts.is_empty() {
            Ok(parsed)
        } else {
            Err(TopicError::new(format!("\"{template}\": nothing of the payload can be used here")))
        }
    }

    /// Parses a template; what it takes from the payload is added to `words`.
    ///
    /// # Errors
    /// An unknown name, an unclosed brace, a bad pointer, too many texts, or nothing at all.
    pub fn parse_with(template: &str, pattern: &TopicPattern, words: &mut Words<'_>) -> Result<Template, TopicError> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                parts.push(Part::Literal(rest[..open].to_owned()));
            }
            let Some(close) = rest[open..].find('}') else {
                return Err(TopicError::new(format!("\"{template}\": `{{` without `}}`")));
            };
            parts.push(alternatives(template, &rest[open + 1..open + close], pattern, words)?);
            rest = &rest[open + close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        if parts.is_empty() {
            return Err(TopicError::new("is empty".into()));
        }
        if let [Part::Literal(fixed)] = parts.as_slice()
            && DeviceId::new(fixed).is_none()
        {
            return Err(TopicError::new(format!(
                "\"{template}\" is no device id: 1 to {DEVICE_ID_BYTES} printable bytes"
            )));
        }
        Ok(Template { parts })
    }

    /// Whether it is the same for all records of a message.
    pub fn is_of_message(&self) -> bool {
        self.parts.iter().all(Part::is_of_message)
    }

    /// Whether it takes labels.
    pub fn has_labels(&self) -> bool {
        self.parts.iter().any(Part::has_labels)
    }

    /// The text; borrowed where one part is all of it, else written into `buffer`. `None`
    /// when a part of it is not there, or when it is empty, too long or not printable.
    pub fn resolve<'a>(
        &'a self,
        source: Source<'a>,
        buffer: &'a mut heapless::String<DEVICE_ID_BYTES>,
    ) -> Option<&'a str> {
        let text = match self.parts.as_slice() {
            [part] if !part.is_made() => part.text(source)?,
            parts => {
                buffer.clear();
                for part in parts {
                    part.write(source, buffer)?;
                }
                buffer
            }
        };
        let printable = !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
        (printable && !text.is_empty() && text.len() <= DEVICE_ID_BYTES).then_some(text)
    }

    /// As [`Template::resolve`], to keep: at most 128 bytes are copied.
    pub fn id(&self, source: Source<'_>) -> Option<DeviceId> {
        let mut buffer = heapless::String::new();
        self.resolve(source, &mut buffer).and_then(DeviceId::new)
    }
}

impl<'a> Source<'a> {
    /// A message of which nothing but the topic is known.
    pub fn topic(captures: &'a Captures<'a>) -> Source<'a> {
        Source { captures, texts: &[], labels: &[] }
    }
}

impl Part {
    fn text<'a>(&'a self, source: Source<'a>) -> Option<&'a str> {
        match self {
            Part::Literal(literal) => Some(literal),
            Part::Capture(place) => source.captures.get(*place).copied(),
            Part::Payload(place) => source.texts.get(*place).copied().flatten(),
            Part::Label(place) => source.labels.get(*place)?.as_ref().map(DeviceId::as_str),
            Part::First(parts) => parts.iter().filter_map(|part| part.text(source)).find(|text| !text.is_empty()),
            Part::Hex(_) => None,
        }
    }
}

impl Part {
    fn is_of_message(&self) -> bool {
        match self {
            Part::Literal(_) | Part::Capture(_) => true,
            Part::Payload(_) | Part::Label(_) => false,
            Part::Hex(part) => part.is_of_message(),
            Part::First(parts) => parts.iter().all(Part::is_of_message),
        }
    }

    fn has_labels(&self) -> bool {
        match self {
            Part::Label(_) => true,
            Part::Literal(_) | Part::Capture(_) | Part::Payload(_) => false,
            Part::Hex(part) => part.has_labels(),
            Part::First(parts) => parts.iter().any(Part::has_labels),
        }
    }

    /// Whether its text stands nowhere as it is.
    fn is_made(&self) -> bool {
        match self {
            Part::Hex(_) => true,
            Part::First(parts) => parts.iter().any(Part::is_made),
            Part::Literal(_) | Part::Capture(_) | Part::Payload(_) | Part::Label(_) => false,
        }
    }

    fn write(&self, source: Source<'_>, out: &mut heapless::String<DEVICE_ID_BYTES>) -> Option<()> {
        match self {
            Part::Hex(part) => push_hex(part.text(source)?, out),
            Part::First(parts) if self.is_made() => {
                let before = out.len();
                parts.iter().find_map(|part| {
                    out.truncate(before);
                    part.write(source, out).filter(|()| out.len() > before)
                })
            }
            Part::Literal(_) | Part::Capture(_) | Part::Payload(_) | Part::Label(_) | Part::First(_) => {
                out.push_str(self.text(source)?).ok()
            }
        }
    }
}

/// Appends `text` as hexadecimal digits: what is such already in small letters, what is base64
/// (RFC 4648, padded) by its bytes. `None` for anything else.
fn push_hex(text: &str, out: &mut heapless::String<DEVICE_ID_BYTES>) -> Option<()> {
    if text.len().is_multiple_of(2) && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return text.chars().try_for_each(|digit| out.push(digit.to_ascii_lowercase()).ok());
    }
    let data = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - data.len() > 2 {
        return None;
    }
    let (mut bits, mut count, mut digits) = (0_u32, 0, 0_usize);
    for byte in data.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        // Bytes are whole: the second digit of one comes as soon as it can.
        while count >= if digits.is_multiple_of(2) { 8 } else { 4 } {
            (count, digits) = (count - 4, digits + 1);
            out.push(char::from_digit(bits >> count & 15, 16)?).ok()?;
        }
    }
    Some(())
}

/// What stands between two braces.
fn alternatives(
    template: &str,
    names: &str,
    pattern: &TopicPattern,
    words: &mut Words<'_>,
) -> Result<Part, TopicError> {
    let mut parts: Vec<Part> =
        names.split('|').map(|name| part(template, name, pattern, words)).collect::<Result<_, _>>()?;
    Ok(if parts.len() == 1 { parts.remove(0) } else { Part::First(parts) })
}

/// One name between two braces.
fn part(template: &str, name: &str, pattern: &TopicPattern, words: &mut Words<'_>) -> Result<Part, TopicError> {
    if let Some(name) = name.strip_suffix(":hex") {
        return Ok(Part::Hex(Box::new(part(template, name, pattern, words)?)));
    }
    if let Some(place) = pattern.capture_names().iter().position(|known| known == name) {
        return Ok(Part::Capture(place));
    }
    if let Some(place) = words.labels.iter().position(|known| known == name) {
        return Ok(Part::Label(place));
    }
    let text = match (name.strip_prefix('^'), name.strip_prefix('*')) {
        (Some(pointer), _) if pointer.starts_with('/') => PayloadText::Document(pointer.to_owned()),
        (_, Some(number)) => {
            let number: Option<usize> = number.parse().ok().filter(|number| (1..=8).contains(number));
            let wrong = || TopicError::new(format!("\"{template}\": `{{*1}}` to `{{*8}}` name keys of `records`"));
            PayloadText::Key(number.ok_or_else(wrong)? - 1)
        }
        _ if name.starts_with('/') => PayloadText::Record(name.to_owned()),
        _ => {
            let names = pattern.capture_names();
            return Err(TopicError::new(format!(
                "\"{template}\": the topic captures no `{name}` (it has: {})",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            )));
        }
    };
    if let Some(place) = words.texts.iter().position(|known| *known == text) {
        return Ok(Part::Payload(place));
    }
    if words.texts.len() == TEXTS_MAX {
        return Err(TopicError::new(format!("\"{template}\": more than {TEXTS_MAX} texts of the payload are used")));
    }
    words.texts.push(text);
    Ok(Part::Payload(words.texts.len() - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(template: &str, texts: &[Option<&str>], labels: &[Option<DeviceId>]) -> Option<String> {
        let pattern = TopicPattern::parse("site/{site}/{unit}").expect("valid");
        let names = ["zone".to_owned()];
        let mut words = Words { labels: &names, texts: Vec::new() };
        let template = Template::parse_with(template, &pattern, &mut words).expect("valid");
        let captures = pattern.match_topic("site/north/7").expect("fits");
        let mut buffer = heapless::String::new();
        template.resolve(Source { captures: &captures, texts, labels }, &mut buffer).map(str::to_owned)
    }

    #[test]
    fn texts_come_from_topic_payload_keys_and_labels() {
        assert_eq!(made("{site}-{unit}", &[], &[]).as_deref(), Some("north-7"));
        assert_eq!(made("{/model}/{/id}", &[Some("Prologue"), Some("5")], &[]).as_deref(), Some("Prologue/5"));
        assert_eq!(made("{^/pub}.{*1}", &[Some("press"), Some("7")], &[]).as_deref(), Some("press.7"));
        assert_eq!(made("{zone}", &[], &[DeviceId::new("cellar")]).as_deref(), Some("cellar"));
    }

    #[test]
    fn of_several_the_first_that_is_there_counts() {
        assert_eq!(made("{/id|unit}", &[Some("x")], &[]).as_deref(), Some("x"));
        assert_eq!(made("{/id|unit}", &[None], &[]).as_deref(), Some("7"));
        assert_eq!(made("{/id|unit}", &[Some("")], &[]).as_deref(), Some("7"));
    }

    #[test]
    fn ids_in_base64_and_in_capitals_are_hexadecimal() {
        let hex = |text: &str| made("{/eui:hex}", &[Some(text)], &[]);
        assert_eq!(hex("1QAAAAAAAAM=").as_deref(), Some("d500000000000003"));
        assert_eq!(hex("A84041FFFF123456").as_deref(), Some("a84041ffff123456"));
        assert_eq!(hex("//8=").as_deref(), Some("ffff"));
        assert_eq!(made("x{/eui:hex}", &[Some("//8B")], &[]).as_deref(), Some("xffff01"));
        assert_eq!(hex("not base64!"), None);
        assert_eq!(made("x-{/eui:hex|unit}", &[None], &[]).as_deref(), Some("x-7"));
    }

    #[test]
    fn without_one_of_its_parts_there_is_no_text() {
        assert_eq!(made("{/model}/{/id}", &[Some("Prologue"), None], &[]), None);
        assert_eq!(made("{/model}", &[Some("")], &[]), None);
        assert_eq!(made("{/model}", &[Some("a\nb")], &[]), None);
        assert_eq!(made("{/model}", &[Some(&"x".repeat(129))], &[]), None);
        assert_eq!(made("{zone}", &[], &[None]), None);
    }

    #[test]
    fn a_text_that_is_asked_for_twice_has_one_place() {
        let pattern = TopicPattern::parse("a/{x}").expect("valid");
        let mut words = Words::default();
        Template::parse_with("{/id}-{x}", &pattern, &mut words).expect("valid");
        Template::parse_with("{/id}", &pattern, &mut words).expect("valid");
        assert_eq!(words.texts, [PayloadText::Record("/id".into())]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let pattern = TopicPattern::parse("a/{x}").expect("valid");
        let error = |text: &str| Template::parse(text, &pattern).expect_err(text).to_string();
        assert!(error("{y}").contains("it has: x"));
        assert!(error("{x").contains("without"));
        assert!(error("").contains("empty"));
        assert!(error("{*9}").contains("`{*1}`"));
        assert!(error("{/id}").contains("nothing of the payload"));
    }
}
