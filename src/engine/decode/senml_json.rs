//! The JSON form of `SenML` (RFC 8428, section 5); [`senml`](super::senml) says what it means.
//!
//! A pack is an array of objects. Members that are objects or arrays themselves are data of
//! extensions and passed over; a value that is one is told as `Opaque`.

use crate::model::record::RejectReason;

use super::scan::{Fault, Head, Scanner};
use super::senml::{Entry, Label, Number, Pack, Value};
use super::visit::{Outcome, Visit};

/// Tells `visit` the records of `payload`.
pub(super) fn tell(payload: &[u8], visit: &mut dyn Visit) -> Outcome {
    if payload.is_empty() {
        return Err(RejectReason::Empty);
    }
    let text = core::str::from_utf8(payload).map_err(|_| RejectReason::NotJson)?;
    let mut scanner = Scanner::new(text.strip_prefix('\u{feff}').unwrap_or(text));
    let head = scanner.head()?;
    if head != Head::Array {
        scanner.skip_rest(head)?;
        scanner.end()?;
        return Err(RejectReason::WrongShape);
    }
    let mut pack = Pack::new(visit);
    let mut scratch = String::new();
    let mut first = true;
    while scanner.next_item(&mut first)? {
        let head = scanner.head()?;
        if head == Head::Object {
            pack.take(entry(&mut scanner, &mut scratch)?)?;
        } else {
            scanner.skip_rest(head)?;
            pack.reject(RejectReason::WrongShape);
        }
    }
    scanner.end()?;
    pack.finish()
}

fn entry<'p>(scanner: &mut Scanner<'p>, scratch: &mut String) -> Result<Entry<'p>, Fault> {
    let mut entry = Entry::default();
    let mut first = true;
    while let Some(label) = scanner.next_key(&mut first)? {
        let label = Label::of_text(label.read(scratch));
        let head = scanner.head()?;
        scanner.skip_rest(head)?;
        entry.set(
            label,
            match head {
                Head::Number(digits) => Value::Number(Number::Digits(digits.into())),
                Head::Text(text) => Value::Text(text.keep()),
                Head::Bool(truth) => Value::Bool(truth),
                Head::Null => Value::Null,
                Head::Object | Head::Array => Value::Opaque,
            },
        );
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    fn senml(pack: &str) -> String {
        told(|visit| tell(pack.as_bytes(), visit))
    }

    #[test]
    fn base_fields_hold_until_they_are_given_again() {
        assert_eq!(
            senml(
                r#"[{"bn":"a:","bt":1e9,"bv":20,"bu":"Cel","n":"x","v":1.5},{"n":"x","t":1,"v":-0.5},
                {"bn":"b:","bv":0,"n":"x","v":7},{"bn":"","n":"y","v":7}]"#
            ),
            "record @1000000000000ms bn=\"a:\" x=21.5\n\
             record @1000000001000ms bn=\"a:\" x=19.5\n\
             record @1000000000000ms bn=\"b:\" x=7.0\n\
             record @1000000000000ms bn=\"y\" y=7.0"
        );
        assert_eq!(
            senml(r#"[{"bn":"a:","bs":100},{"n":"x","v":1},{"n":"y","s":5},{"n":"w"},{"n":"b","vb":true}]"#),
            "record bn=\"a:\" x=1 x(sum)=100.0 y(sum)=105.0 w(sum)=100.0 b=true",
            "a record of base fields alone is none"
        );
        assert_eq!(
            senml(r#"[{"bn":"a:","bv":20},{"n":"x"},{"n":"y","s":5},{"n":"z","v":null}]"#),
            "record bn=\"a:\" x=20.0 y(sum)=5 z=null"
        );
    }

    #[test]
    fn the_name_is_the_base_name_where_either_is_missing() {
        assert_eq!(senml(r#"[{"n":"urn:1","v":1}]"#), "record bn=\"urn:1\" urn:1=1");
        assert_eq!(senml(r#"[{"bn":"urn:1","v":1},{"n":":x","v":2}]"#), "record bn=\"urn:1\" urn:1=1 :x=2");
        assert_eq!(senml(r#"[{"n":"a","v":1},{"n":"b","v":2}]"#), "record bn=\"a\" a=1\nrecord bn=\"b\" b=2");
    }

    #[test]
    fn records_of_one_place_and_time_are_one_until_a_member_repeats() {
        assert_eq!(
            senml(
                r#"[{"bn":"a:","bt":1e9,"n":"x","v":1},{"n":"y","vs":"\u006fk"},{"t":0,"n":"x","s":2},{"n":"x","v":3}]"#
            ),
            "record @1000000000000ms bn=\"a:\" x=1 y=\"ok\" x(sum)=2\nrecord @1000000000000ms bn=\"a:\" x=3"
        );
        assert_eq!(
            senml(r#"[{"bn":"a:","n":"x","t":-5,"v":1},{"n":"y","t":-5.0,"v":2},{"n":"y","v":2}]"#),
            "record @now-5000ms bn=\"a:\" x=1 y=2\nrecord bn=\"a:\" y=2"
        );
    }

    #[test]
    fn every_kind_of_value_is_told_as_what_it_is() {
        assert_eq!(
            senml(
                r#"[{"bn":"d/","n":"a","vb":false},{"n":"b","vs":"x"},{"n":"c","vd":"AQID"},{"n":"d","v":null},
                {"n":"e","v":"23.1"},{"n":"f","v":[1]},{"n":"g","v":9007199254740993},{"n":"h","v":1e400}]"#
            ),
            "record bn=\"d/\" a=false b=\"x\" c=opaque d=null e=\"23.1\" f=opaque g=9007199254740993 h=1e400"
        );
    }

    #[test]
    fn a_bad_record_costs_itself_alone() {
        for bad in [
            r#"{"n":"a b","v":1}"#,
            r#"{"n":"","v":1,"bn":""}"#,
            r#"{"n":"_x","bn":"","v":1}"#,
            r#"{"n":7,"v":1}"#,
            r#"{"n":"x","v":1,"vs":"one"}"#,
            "7",
            "[]",
        ] {
            let pack = format!(r#"[{{"bn":"a:","n":"x","v":1}},{bad},{{"bn":"a:","n":"y","v":2}}]"#);
            let expected = "record bn=\"a:\" x=1\nrejected: wrong_shape\nrecord bn=\"a:\" y=2";
            assert_eq!(senml(&pack), expected, "{bad}");
            assert_eq!(senml(&format!("[{bad}]")), "rejected: wrong_shape", "{bad}");
        }
        assert_eq!(senml(r#"[{"n":"x","v":1},{"n":"x","t":"noon","v":1}]"#), "record bn=\"x\" x=1\nrejected: bad_time");
        assert_eq!(senml(r#"[{"n":"x","v":1},{"n":"x"}]"#), "record bn=\"x\" x=1\nrejected: no_values");
    }

    #[test]
    fn a_pack_that_is_not_understood_is_refused_whole() {
        for bad in [
            r#""bver":11"#,
            r#""bver":"10""#,
            r#""new_":1"#,
            r#""bn":5"#,
            r#""bv":"1""#,
            r#""bs":null"#,
            r#""bt":"now""#,
        ] {
            let pack = format!(r#"[{{"n":"x","v":1}},{{"n":"y",{bad},"v":1}}]"#);
            assert_eq!(senml(&pack), "rejected: wrong_shape", "{bad}");
        }
        assert_eq!(senml(r#"[{"n":"x","v":1,"bt":1e99}]"#), "rejected: bad_time");
        assert_eq!(senml(r#"[{"bver":10,"n":"x","v":1,"new":{"a":[1]},"l":"x"}]"#), "record bn=\"x\" x=1");
    }

    #[test]
    fn what_is_no_pack_is_refused() {
        for (pack, reason) in [
            ("", "empty"),
            ("[]", "no_values"),
            ("[{}]", "no_values"),
            ("[{\"bn\":\"a\"}]", "no_values"),
            ("{\"n\":\"x\",\"v\":1}", "wrong_shape"),
            ("7", "wrong_shape"),
            ("[{\"n\":\"x\",\"v\":1}", "not_json"),
            ("[{\"n\":\"x\",\"v\":1}] 7", "not_json"),
            ("[{\"n\":\"x\",\"v\":nan}]", "not_json"),
        ] {
            assert_eq!(senml(pack), format!("rejected: {reason}"), "{pack}");
        }
        assert_eq!(senml(&"[".repeat(1_000_000)), "rejected: too_deep");
        assert_eq!(senml(&"[{\"a\":".repeat(1_000_000)), "rejected: too_deep");
        assert_eq!(told(|visit| tell(b"[{\"n\":\"\xff\"}]", visit)), "rejected: not_json");
    }
}
