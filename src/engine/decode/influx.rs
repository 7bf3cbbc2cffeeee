//! `InfluxDB` line protocol: a line is a record.
//!
//! ```text
//! weather,location=a\ b temp=82.5,n=71i,ok=t,note="a \"b\"" 1713970366123456789
//!
//! measurement="weather" location="a b" temp=82.5 n=71 ok=true note="a \"b\""
//! ```
//!
//! After the public reference: `#` begins a comment; in names and tags `\` escapes a comma, a
//! blank and (not in the measurement) `=`, in strings `"` and itself, and is a character
//! elsewhere; no text holds a line break. Beyond it, as the servers do: several blanks are one,
//! `\r\n` ends a line, and a number may begin with `+`. A number that is not finite is none.
//!
//! A line that is not line protocol is rejected alone. When no line is, the payload counts once:
//! a log that goes to the wrong topic is one mistake and not hundreds. `measurement` is told
//! first; of equal names the last is the one that counts, tags and fields alike. The time is
//! told as it is written, in nanoseconds; a sender with another unit is the stream's to know.
//!
//! Why no library: the published parser brings `nom`, `snafu`, `bytes` and their kin for what is a
//! hundred lines here, and fails the rest of the payload with a line.

use crate::engine::spec::TimeUnit;
use crate::model::record::RejectReason;

use super::number::is_json_number;
use super::visit::{Outcome, OwnTime, Scalar, Visit};
use super::{Format, Telling};

/// What a `\` takes its meaning from, before it.
const IN_MEASUREMENT: &[u8] = b", ";
const IN_NAME: &[u8] = b",= ";
const IN_STRING: &[u8] = b"\"\\";

/// The decoder of one stream. It keeps its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Influx {
    key: String,
    text: String,
}

/// A line is not line protocol.
struct Fault;

impl Format for Influx {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        self.lines(telling.payload, visit)
    }
}

impl Influx {
    pub(super) fn lines(&mut self, payload: &[u8], visit: &mut dyn Visit) -> Outcome {
        if payload.is_empty() {
            return Err(RejectReason::Empty);
        }
        let (mut lines, mut usable) = (0_usize, 0_usize);
        for line in payload.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            lines += 1;
            visit.start_record();
            match core::str::from_utf8(line).map_err(|_| Fault).and_then(|line| self.line(line, visit)) {
                Ok(()) => usable += 1,
                Err(Fault) => visit.reject_record(RejectReason::NotInFormat),
            }
        }
        match (lines, usable) {
            (0, _) => Err(RejectReason::NoValues),
            (_, 0) => Err(RejectReason::NotInFormat),
            (_, _) => Ok(()),
        }
    }

    fn line(&mut self, line: &str, visit: &mut dyn Visit) -> Result<(), Fault> {
        let (measurement, mut rest) = name(line, IN_MEASUREMENT)?;
        visit.member("measurement", Scalar::Text(unescaped(measurement, IN_MEASUREMENT, &mut self.text)));
        while let Some(tag) = rest.strip_prefix(',') {
            let value = self.key(tag)?;
            let (value, after) = name(value, IN_NAME)?;
            if after.starts_with('=') {
                return Err(Fault);
            }
            visit.member(&self.key, Scalar::Text(unescaped(value, IN_NAME, &mut self.text)));
            rest = after;
        }
        rest = rest.trim_start_matches(' ');
        loop {
            rest = self.field(rest, visit)?;
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => break,
            }
        }
        match rest.trim_matches(' ') {
            "" => {}
            time if is_integer(time) => visit.own_time(OwnTime::Epoch(time, TimeUnit::Nanos)),
            _ => return Err(Fault),
        }
        Ok(())
    }

    /// Tells the field at the start of `text`; what is after it.
    fn field<'l>(&mut self, text: &'l str, visit: &mut dyn Visit) -> Result<&'l str, Fault> {
        let value = self.key(text)?;
        let (scalar, rest) = if let Some(string) = value.strip_prefix('"') {
            let (string, rest) = until(string, b"\"", IN_STRING);
            let rest = rest.strip_prefix('"').ok_or(Fault)?;
            (Scalar::Text(unescaped(string, IN_STRING, &mut self.text)), rest)
        } else {
            let (token, rest) = value.split_at(value.find([',', ' ']).unwrap_or(value.len()));
            (field_scalar(token).ok_or(Fault)?, rest)
        };
        if !(rest.is_empty() || rest.starts_with([',', ' '])) {
            return Err(Fault);
        }
        visit.member(&self.key, scalar);
        Ok(rest)
    }

    /// Keeps the key at the start of `text`; what is after its `=`.
    fn key<'l>(&mut self, text: &'l str) -> Result<&'l str, Fault> {
        let (key, rest) = name(text, IN_NAME)?;
        let value = rest.strip_prefix('=').ok_or(Fault)?;
        self.key.clear();
        unescape_into(key, IN_NAME, &mut self.key);
        Ok(value)
    }
}

/// The name at the start of `text`, up to a character that would need an escape in it.
fn name<'l>(text: &'l str, escapable: &[u8]) -> Result<(&'l str, &'l str), Fault> {
    let (name, rest) = until(text, escapable, escapable);
    if name.is_empty() { Err(Fault) } else { Ok((name, rest)) }
}

/// `text` before and from the first of `stops` that is not escaped.
fn until<'l>(text: &'l str, stops: &[u8], escapable: &[u8]) -> (&'l str, &'l str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'\\' && bytes.get(at + 1).is_some_and(|next| escapable.contains(next)) {
            at += 1;
        } else if stops.contains(byte) {
            break;
        }
        at += 1;
    }
    text.split_at(at)
}

/// `raw` without its escapes: as it stands, or written to `buffer`.
fn unescaped<'a>(raw: &'a str, escapable: &[u8], buffer: &'a mut String) -> &'a str {
    if !raw.contains('\\') {
        return raw;
    }
    buffer.clear();
    unescape_into(raw, escapable, buffer);
    buffer
}

fn unescape_into(raw: &str, escapable: &[u8], buffer: &mut String) {
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        buffer.push_str(before);
        let escapes = from.as_bytes().get(1).is_some_and(|next| escapable.contains(next));
        // The escaped character is ASCII, and with it the border after it.
        let (taken, after) = from.split_at(if escapes { 2 } else { 1 });
        buffer.push_str(if escapes { &taken[1..] } else { taken });
        rest = after;
    }
    buffer.push_str(rest);
}

fn field_scalar(token: &str) -> Option<Scalar<'_>> {
    match token {
        "t" | "T" | "true" | "True" | "TRUE" => return Some(Scalar::Bool(true)),
        "f" | "F" | "false" | "False" | "FALSE" => return Some(Scalar::Bool(false)),
        _ => {}
    }
    if let Some(digits) = token.strip_suffix('i') {
        return digits.parse().ok().map(Scalar::Int);
    }
    if let Some(digits) = token.strip_suffix('u') {
        return digits.parse().ok().map(Scalar::Uint);
    }
    if is_json_number(token) {
        return Some(Scalar::Number(token));
    }
    // `1.`, `.5`, `+1`, `007`: floats to the servers, no numbers of JSON.
    let digits = token.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value: f64 = token.parse().ok().filter(|_| digits)?;
    value.is_finite().then_some(Scalar::Float(value))
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    fn influx(payload: impl AsRef<[u8]>) -> String {
        told(|visit| Influx::default().lines(payload.as_ref(), visit))
    }

    /// What one field is told as, or the reason.
    fn field(value: &str) -> String {
        influx(format!("m v={value}")).replace("record measurement=\"m\" v=", "")
    }

    #[test]
    fn a_line_is_a_record() {
        assert_eq!(
            influx(
                "weather,location=us temperature=82.5,humidity=71i 1713970366123456789\r\n\n# note\n  m v=1\nm v=2 "
            ),
            "record measurement=\"weather\" location=\"us\" temperature=82.5 humidity=71 @1713970366123456789ns\n\
             record measurement=\"m\" v=1\n\
             record measurement=\"m\" v=2"
        );
    }

    #[test]
    fn every_kind_of_field_is_told() {
        for (value, expected) in [
            ("-1.234e+78", "-1.234e+78"),
            ("1.", "1.0"),
            (".5", "0.5"),
            ("+2", "2.0"),
            ("007", "7.0"),
            ("1e400", "1e400"),
            ("-9223372036854775808i", "-9223372036854775808"),
            ("+2i", "2"),
            ("18446744073709551615u", "18446744073709551615"),
            ("\"\"", "\"\""),
            ("\"t,x=1 2\"", "\"t,x=1 2\""),
        ] {
            assert_eq!(field(value), expected, "{value}");
        }
        for (values, expected) in [("t T true True TRUE", "true"), ("f F false False FALSE", "false")] {
            for value in values.split(' ') {
                assert_eq!(field(value), expected, "{value}");
            }
        }
        for value in
            "NaN nan inf -inf Infinity 1x 0x10 1i2 i u 9223372036854775808i -1u 1.5i tRUE yes \" \"a\"b - . e5 1e"
                .split(' ')
        {
            assert_eq!(field(value), "rejected: not_in_format", "{value}");
        }
    }

    #[test]
    fn escapes_mean_what_the_reference_says() {
        for (line, expected) in [
            (r"my\ m\,\=x v=1", r#"measurement="my m,\\=x" v=1"#),
            (r"m,t\=\ \,=a\ b\,\=\\c v=1", r#"measurement="m" t= ,="a b,=\\\\c" v=1"#),
            (r"m k\ \,\=z=1", r#"measurement="m" k ,=z=1"#),
            (r#"m s="q\"\\\n, =",v=1"#, r#"measurement="m" s="q\"\\\\n, =" v=1"#),
            (r"m,p=C:\dir\ v\=1 v=1", r#"measurement="m" p="C:\\dir v=1" v=1"#),
            (r"ü,ö=ä\,ß é=1", r#"measurement="ü" ö="ä,ß" é=1"#),
        ] {
            assert_eq!(influx(line), format!("record {expected}"), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_not_line_protocol_is_rejected_alone() {
        for bad in [
            "m",
            "m ",
            "m,v=1",
            ",t=a v=1",
            " =1",
            "m,t v=1",
            "m,t= v=1",
            "m,=a v=1",
            "m,t=a=b v=1",
            "m,t=a, v=1",
            "m v",
            "m v=",
            "m =1",
            "m v=1,",
            "m v=1,,w=2",
            "m v=1 w=2",
            "m v=1 12.5",
            "m v=1 1 2",
            "m v=1 -",
            "m v=\"a",
            "m v=\"a\\\"",
            "m v=\"a\"b",
            "m v w=1",
            "m\tv=1",
            "[12:00:01] sensor ready",
            "{\"v\":1}",
        ] {
            let expected = "record measurement=\"a\" v=1\nrejected: not_in_format\nrecord measurement=\"b\" v=2";
            assert_eq!(influx(format!("a v=1\n{bad}\nb v=2")), expected, "{bad}");
            assert_eq!(influx(bad), "rejected: not_in_format", "{bad}");
        }
        assert_eq!(
            influx(b"a,u=\xb0C v=1\nb v=2".as_slice()),
            "rejected: not_in_format\nrecord measurement=\"b\" v=2",
            "not UTF-8"
        );
    }

    #[test]
    fn f139_text_of_another_kind_counts_once() {
        assert_eq!(influx("one line\nand another\nand a third\n"), "rejected: not_in_format");
        assert_eq!(influx(""), "rejected: empty");
        assert_eq!(influx("\n \r\n# nothing here\n"), "rejected: no_values");
    }

    #[test]
    fn a_time_keeps_its_digits() {
        assert_eq!(influx("m v=1 -1000000000"), "record measurement=\"m\" v=1 @-1000000000ns");
        assert_eq!(influx("m v=1   1713970366  "), "record measurement=\"m\" v=1 @1713970366ns");
        let long = "9".repeat(40);
        assert_eq!(influx(format!("m v=1 {long}")), format!("record measurement=\"m\" v=1 @{long}ns"));
    }
}
