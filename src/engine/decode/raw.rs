//! A payload that is one value as plain text: `23.4`, `ON`, `nan`.
//!
//! | payload | told |
//! |---|---|
//! | number | a number; with a decimal comma or a unit a text, which the stream's rules may allow |
//! | `true`, `false` in any case | a bool |
//! | a word that is configured to stand for a number | that number |
//! | any other text | the text |
//! | a word for "no value" | rejected: `missing_value` |
//! | what begins like a JSON object or array | rejected: `wrong_shape`; objects are read with `json` |
//! | no UTF-8, control characters, more than 256 bytes | rejected: `not_in_format` |
//! | white space and NUL alone, or nothing | rejected: `empty` |
//!
//! White space and NUL around the value are no part of it, and neither are a byte order mark
//! or the quotes of a JSON string without escapes: some senders encode whatever they send.
//! Control characters inside are the mark of a log line (firmware logs in colour under the
//! same prefix), and so is a length that no value has.

use crate::engine::spec::{NumberRules, RawSpec};
use crate::model::record::RejectReason;

use super::json::Json;
use super::number::{is_json_number, text_number};
use super::visit::{Outcome, Scalar, Visit};
use super::{Format, Telling};

/// Longest text that is a value.
const VALUE_BYTES_MAX: usize = 256;

/// A payload of one value.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    spec: RawSpec,
    json: Json,
}

impl Raw {
    /// A decoder for payloads that `spec` describes.
    pub(super) fn new(spec: &RawSpec) -> Raw {
        Raw { spec: spec.clone(), json: Json::default() }
    }
}

impl Format for Raw {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        if self.spec.json && telling.payload.trim_ascii_start().starts_with(b"{") {
            visit.name_below(telling.field);
            return self.json.tell(telling, visit);
        }
        tell(telling.payload, telling.field, &self.spec, visit)
    }
}

/// Tells `visit` the value of `payload`: one record of one member, which is called `field`;
/// its `/` are levels.
fn tell(payload: &[u8], field: &str, spec: &RawSpec, visit: &mut dyn Visit) -> Outcome {
    let text = core::str::from_utf8(payload).map_err(|_| RejectReason::NotInFormat)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.trim_matches(|character: char| character.is_ascii_whitespace() || character == '\0');
    if text.is_empty() {
        return Err(RejectReason::Empty);
    }
    if text.starts_with(['{', '[']) {
        return Err(RejectReason::WrongShape);
    }
    if text.len() > VALUE_BYTES_MAX || text.contains(char::is_control) {
        return Err(RejectReason::NotInFormat);
    }
    let value = scalar(unquoted(text), spec).ok_or(RejectReason::MissingValue)?;
    visit.start_record();
    let mut levels = 0;
    if field.split('/').all(|level| visit.enter(level).then(|| levels += 1).is_some()) {
        visit.scalar(value);
    }
    (0..levels).for_each(|_| visit.leave());
    Ok(())
}

/// The text between the quotes of a JSON string, where that is its value.
fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.filter(|inner| !inner.contains(['"', '\\'])).map_or(text, str::trim_ascii)
}

/// What `text` says; `None` when it says that there is no value.
fn scalar<'t>(text: &'t str, spec: &RawSpec) -> Option<Scalar<'t>> {
    if let Some((_, number)) = spec.words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        return Some(Scalar::Float(*number));
    }
    if spec.missing.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        return None;
    }
    Some(if is_json_number(text) {
        Scalar::Number(text)
    } else if let Some(number) = text_number(text, NumberRules::default()) {
        Scalar::Float(number)
    } else if text.eq_ignore_ascii_case("true") {
        Scalar::Bool(true)
    } else if text.eq_ignore_ascii_case("false") {
        Scalar::Bool(false)
    } else {
        Scalar::Text(text)
    })
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    fn raw(payload: impl AsRef<[u8]>) -> String {
        told(|visit| tell(payload.as_ref(), "v", &RawSpec::default(), visit))
    }

    #[test]
    fn a_number_keeps_its_digits() {
        assert_eq!(raw("23.4"), "record v=23.4");
        assert_eq!(raw("\u{feff} 9007199254740993\r\n\0"), "record v=9007199254740993");
        assert_eq!(raw("1e400"), "record v=1e400", "too large is for whoever reads it to say");
        assert_eq!(raw("\"23.4\""), "record v=23.4", "a sender that encodes whatever it sends");
    }

    #[test]
    fn f142_a_number_that_is_not_json_is_told() {
        assert_eq!(raw("+0.4934484E+01"), "record v=4.934484");
        assert_eq!(raw("0021.5"), "record v=21.5");
    }

    #[test]
    fn units_and_commas_are_for_the_rules_of_the_stream() {
        assert_eq!(raw("29,87 °C"), "record v=\"29,87 °C\"");
    }

    #[test]
    fn a_name_of_several_levels_is_a_tree() {
        let told = told(|visit| tell(b"-12.70", "emeter/0/power", &RawSpec::default(), visit));
        assert_eq!(told, "record emeter.0.power=-12.70");
    }

    #[test]
    fn texts_stay_as_they_are_and_truth_is_a_bool() {
        for (payload, expected) in [
            ("ON", "record v=\"ON\""),
            ("open", "record v=\"open\""),
            ("true", "record v=true"),
            ("False", "record v=false"),
            ("0T00:00:13", "record v=\"0T00:00:13\""),
            ("2024-12-11 23:49:23", "record v=\"2024-12-11 23:49:23\""),
            ("???", "record v=\"???\""),
            ("inf", "record v=\"inf\""),
            ("\"a \\\"b\\\"\"", "record v=\"\\\"a \\\\\\\"b\\\\\\\"\\\"\""),
        ] {
            assert_eq!(raw(payload), expected, "{payload}");
        }
    }

    #[test]
    fn f129_a_word_for_no_value_is_a_missing_value() {
        let default = "nan NaN -nan null None unavailable UNKNOWN undefined N/A - \"\" \"null\"";
        for payload in default.split(' ') {
            assert_eq!(raw(payload), "rejected: missing_value", "{payload}");
        }
        let options = RawSpec { missing: vec!["-127".to_owned()], ..RawSpec::default() };
        let read = |payload: &str| told(|visit| tell(payload.as_bytes(), "v", &options, visit));
        assert_eq!(read("-127"), "rejected: missing_value", "a number can be such a word");
        assert_eq!(read("nan"), "record v=\"nan\"");
    }

    #[test]
    fn a_word_can_stand_for_a_number() {
        let words = vec![("on".to_owned(), 1.0), ("off".to_owned(), 0.0), ("unknown".to_owned(), -1.0)];
        let options = RawSpec { words, ..RawSpec::default() };
        let read = |payload: &str| told(|visit| tell(payload.as_bytes(), "v", &options, visit));
        assert_eq!(read("ON"), "record v=1.0");
        assert_eq!(read(" off\n"), "record v=0.0");
        assert_eq!(read("unknown"), "record v=-1.0", "before the words for no value");
        assert_eq!(read("open"), "record v=\"open\"");
    }

    #[test]
    fn f136_json_where_a_value_is_expected_has_the_wrong_shape() {
        assert_eq!(raw("{\"tC\":22}"), "rejected: wrong_shape");
        assert_eq!(raw(" [1,2]"), "rejected: wrong_shape");
        assert_eq!(raw(format!("{{\"a\":\"{}\"}}", "x".repeat(300))), "rejected: wrong_shape");
        assert_eq!(raw("22}"), "record v=\"22}\"", "and the last word of it is no number");
    }

    #[test]
    fn log_lines_and_bytes_are_no_values() {
        assert_eq!(raw("\u{1b}[0;36m[D][sensor:094]: 23.40000 °C\u{1b}[0m"), "rejected: not_in_format");
        assert_eq!(raw("x".repeat(256)), format!("record v=\"{}\"", "x".repeat(256)));
        assert_eq!(raw("x".repeat(257)), "rejected: not_in_format");
        assert_eq!(raw("1\x002"), "rejected: not_in_format");
        assert_eq!(raw(b"21 \xb0C"), "rejected: not_in_format");
        assert_eq!(raw(""), "rejected: empty");
        assert_eq!(raw(" \0\r\n"), "rejected: empty");
    }
}
