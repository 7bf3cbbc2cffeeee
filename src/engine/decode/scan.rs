//! A pull scanner for JSON: one pass, borrowed, no allocation, no tree.
//!
//! Why not `serde_json`'s deserializer, which the rest of the crate uses: it
//! fails the whole document for one number beyond a float (`1e400`, even in a
//! field nobody asked for) where we must keep the rest; it hands numbers over as
//! `f64`, where a time needs its digits; it checks neither depth nor escapes in
//! parts that it skips; and it allocates for every escaped key. This scanner
//! accepts exactly what `serde_json` accepts otherwise, which `tests/decode.rs`
//! holds it to with random documents.
//!
//! Limits: nesting up to `limits::PAYLOAD_DEPTH_MAX`; the caller bounds the
//! bytes and has checked them to be UTF-8.

use std::borrow::Cow;

use crate::model::limits::PAYLOAD_DEPTH_MAX;

/// Why a text is no JSON that we read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It breaks the grammar of RFC 8259.
    Syntax,
    /// Nested deeper than the limit.
    TooDeep,
}

/// What a value is. A scalar has been consumed; of a container only the opening
/// bracket has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Head<'p> {
    /// `{` was read; go on with [`Scanner::next_key`] until it says `None`.
    Object,
    /// `[` was read; go on with [`Scanner::next_item`] until it says `false`.
    Array,
    /// A string.
    Text(RawText<'p>),
    /// The digits of a number, as they stand.
    Number(&'p str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

/// A string between its quotes; its escapes are known to be valid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct RawText<'p> {
    raw: &'p str,
    escaped: bool,
}

/// A position in a JSON text.
#[derive(Clone, Debug)]
pub(super) struct Scanner<'p> {
    text: &'p str,
    at: usize,
    depth: usize,
}

impl<'p> Scanner<'p> {
    /// Starts before the first value.
    pub(super) fn new(text: &'p str) -> Scanner<'p> {
        Scanner { text, at: 0, depth: 0 }
    }

    /// Reads the head of the value that has to come next.
    pub(super) fn head(&mut self) -> Result<Head<'p>, Fault> {
        match self.peek_after_space() {
            Some(b'{') => self.open().map(|()| Head::Object),
            Some(b'[') => self.open().map(|()| Head::Array),
            Some(b'"') => self.string().map(Head::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Head::Number),
            Some(b't') => self.word("true").map(|()| Head::Bool(true)),
            Some(b'f') => self.word("false").map(|()| Head::Bool(false)),
            Some(b'n') => self.word("null").map(|()| Head::Null),
            Some(_) | None => Err(Fault::Syntax),
        }
    }

    /// The next key of the object that was opened last; its value comes next.
    /// `None` once, at the end. `first` starts as true and belongs to the caller.
    pub(super) fn next_key(&mut self, first: &mut bool) -> Result<Option<RawText<'p>>, Fault> {
        if !self.next(first, b'}')? {
            return Ok(None);
        }
        if self.peek_after_space() != Some(b'"') {
            return Err(Fault::Syntax);
        }
        let key = self.string()?;
        if self.peek_after_space() != Some(b':') {
            return Err(Fault::Syntax);
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// Whether the array that was opened last has another item; false once.
    pub(super) fn next_item(&mut self, first: &mut bool) -> Result<bool, Fault> {
        self.next(first, b']')
    }

    /// Walks over the value that comes next.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        let head = self.head()?;
        self.skip_rest(head)
    }

    /// Walks over what is left of a value whose head was read.
    pub(super) fn skip_rest(&mut self, head: Head<'p>) -> Result<(), Fault> {
        let mut first = true;
        match head {
            Head::Object => {
                while self.next_key(&mut first)?.is_some() {
                    self.skip()?;
                }
            }
            Head::Array => {
                while self.next_item(&mut first)? {
                    self.skip()?;
                }
            }
            Head::Text(_) | Head::Number(_) | Head::Bool(_) | Head::Null => {}
        }
        Ok(())
    }

    /// Checks that nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        if self.peek_after_space().is_none() { Ok(()) } else { Err(Fault::Syntax) }
    }

    /// Whether another text follows on a line of its own.
    pub(super) fn next_line(&mut self) -> bool {
        let end = self.at;
        self.peek_after_space().is_some() && self.text[end..self.at].contains('\n')
    }

    fn next(&mut self, first: &mut bool, close: u8) -> Result<bool, Fault> {
        let byte = self.peek_after_space();
        if byte == Some(close) {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        if !core::mem::replace(first, false) {
            if byte != Some(b',') {
                return Err(Fault::Syntax);
            }
            self.at += 1;
            // A comma before the bracket: `head` or `next_key` refuses the bracket.
        }
        Ok(true)
    }

    fn open(&mut self) -> Result<(), Fault> {
        self.at += 1;
        self.depth += 1;
        if self.depth > PAYLOAD_DEPTH_MAX { Err(Fault::TooDeep) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<RawText<'p>, Fault> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    self.at = at + 1;
                    return Ok(RawText { raw: &self.text[start..at], escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    at += read_escape(&bytes[at..]).ok_or(Fault::Syntax)?.1;
                }
                Some(0x20..) => at += 1,
                Some(_) | None => return Err(Fault::Syntax),
            }
        }
    }

    fn number(&mut self) -> Result<&'p str, Fault> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (leading_zero && whole > 1) {
            return Err(Fault::Syntax);
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(Fault::Syntax);
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if self.digits() == 0 {
                return Err(Fault::Syntax);
            }
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(Fault::Syntax);
        }
        self.at += word.len();
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn peek_after_space(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other,
            }
        }
    }
}

impl<'p> RawText<'p> {
    /// The text itself, for whoever has to keep it: a copy only when it has escapes.
    pub(super) fn keep(self) -> Cow<'p, str> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut text = String::new();
        self.read(&mut text);
        Cow::Owned(text)
    }

    /// The text itself: borrowed as it stands, or written into `scratch` when
    /// it has escapes.
    pub(super) fn read<'a>(self, scratch: &'a mut String) -> &'a str
    where
        'p: 'a,
    {
        if !self.escaped {
            return self.raw;
        }
        scratch.clear();
        let mut rest = self.raw;
        while let Some(at) = rest.find('\\') {
            scratch.push_str(&rest[..at]);
            let (character, length) = read_escape(&rest.as_bytes()[at..]).expect("checked when it was scanned");
            scratch.push(character);
            rest = &rest[at + length..];
        }
        scratch.push_str(rest);
        scratch
    }
}

/// The character of the escape that `bytes` starts with, and the escape's
/// length. `None` when it is none, or half of a surrogate pair.
fn read_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let character = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = read_hex(bytes.get(2..6)?)?;
            if !(0xD800..0xDC00).contains(&unit) {
                return Some((char::from_u32(unit)?, 6));
            }
            let low = bytes.get(6..8).filter(|mark| *mark == b"\\u").and_then(|_| read_hex(bytes.get(8..12)?))?;
            let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
            return Some((char::from_u32(0x1_0000 + ((unit - 0xD800) << 10) + low)?, 12));
        }
        _ => return None,
    };
    Some((character, 2))
}

fn read_hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<(), Fault> {
        let mut scanner = Scanner::new(text);
        scanner.skip()?;
        scanner.end()
    }

    #[test]
    fn the_grammar_is_that_of_rfc_8259() {
        let good = r#"0|-0|1.5e+3|1e999| [ ] |[1,2]|{}|{"a":{"b":[null,true,false]}}|"\u00e9\ud83d\ude00\/\""|  1"#;
        for good in good.split('|') {
            assert_eq!(whole(good), Ok(()), "{good}");
        }
        let bad = r#"| |01|-|+1|1.|.5|1e|NaN|Infinity|[1,]|[,1]|{"a":1,}|{,}|{1:2}|{"a"}|[1 2]|[1|"a|"\x"|"\ud83d"|"\ude00"|"\u12"|1 2|nul|truex|[1}|{"a":1]"#;
        for bad in bad.split('|').chain(["\"\n\""]) {
            assert_eq!(whole(bad), Err(Fault::Syntax), "{bad}");
        }
    }

    #[test]
    fn the_depth_limit_holds_where_nobody_looks_too() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(whole(&nested(PAYLOAD_DEPTH_MAX)), Ok(()));
        assert_eq!(whole(&nested(PAYLOAD_DEPTH_MAX + 1)), Err(Fault::TooDeep));
    }

    #[test]
    fn an_escaped_text_reads_as_what_it_means() {
        let mut scanner = Scanner::new(r#""te\u006dp \ud83d\ude00\n""#);
        let Ok(Head::Text(text)) = scanner.head() else { panic!("a string") };
        assert_eq!(text.read(&mut String::new()), "temp 😀\n");
    }
}
