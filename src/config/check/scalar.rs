//! Texts that mean a quantity, a moment or an address. Strict: one way to write
//! each, and a hint for the other ways that people try.

use core::ops::RangeInclusive;

use crate::config::problem::{Wrong, nearest};
use crate::engine::window::calendar::Zone;
use crate::model::limits::MQTT_NAME_BYTES;
use crate::model::time::{EventTime, Span};

/// How a duration is named in messages.
pub(super) const DURATION: &str = "a duration such as \"500ms\", \"5s\", \"1m\", \"2h\" or \"1d\"";
/// How a size is named in messages.
pub(super) const SIZE: &str = "a size such as \"512KiB\" or \"8MiB\"";

pub(in crate::config) const DURATION_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
pub(in crate::config) const SIZE_UNITS: [(&str, u64); 4] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// Where a broker listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
}

/// A duration within `range`.
pub(super) fn span(text: &str, range: RangeInclusive<Span>) -> Result<Span, Wrong> {
    let span = Span::from_millis(with_unit(text, DURATION, &DURATION_UNITS)?);
    if range.contains(&span) {
        return Ok(span);
    }
    Err(Wrong::new(format!("must be from {} to {}", show(*range.start()), show(*range.end()))))
}

/// A duration that may be negative.
pub(super) fn signed_millis(text: &str) -> Result<i64, Wrong> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let signed = |wrong: Wrong| match (sign, wrong.hint.as_deref().and_then(|hint| hint.strip_prefix('"'))) {
        (-1, Some(rest)) => Wrong { hint: Some(format!("\"-{rest}")), ..wrong },
        _ => wrong,
    };
    let millis = with_unit(digits, DURATION, &DURATION_UNITS).map_err(signed)?;
    i64::try_from(millis).map(|millis| sign * millis).map_err(|_| Wrong::new("is too large"))
}

/// `off`, or what `parse` makes of it.
pub(super) fn or_off<T>(text: &str, parse: impl Fn(&str) -> Result<T, Wrong>) -> Result<Option<T>, Wrong> {
    if text == "off" { Ok(None) } else { parse(text).map(Some) }
}

/// Bytes within `range`.
pub(super) fn size(text: &str, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    let bytes = with_unit(text, SIZE, &SIZE_UNITS)?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    Err(Wrong::new(format!("must be from {} to {}", show_size(*range.start()), show_size(*range.end()))))
}

/// In the largest unit that fits.
pub(in crate::config) fn show_size(bytes: u64) -> String {
    let fits = SIZE_UNITS.iter().rev().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit));
    let (unit, factor) = fits.copied().unwrap_or(("B", 1));
    format!("{}{unit}", bytes / factor)
}

/// Bytes within `range`, which may be beyond what fits in memory.
pub(super) fn bytes(text: &str, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    let bytes = with_unit(text, SIZE, &SIZE_UNITS)?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    Err(Wrong::new(format!("must be from {}MiB to {}GiB", range.start() >> 20, range.end() >> 30)))
}

/// A moment in RFC 3339.
pub(super) fn moment(text: &str) -> Result<EventTime, Wrong> {
    let parsed: Result<jiff::Timestamp, _> = text.parse();
    parsed.map(|moment| EventTime::from_millis(moment.as_millisecond())).map_err(|_| {
        Wrong::new("must be a moment in RFC 3339, or \"off\"").hint("with an offset: \"2000-01-01T00:00:00Z\"")
    })
}

/// A zone of the IANA database.
pub(super) fn zone(text: &str) -> Result<Zone, Wrong> {
    Zone::find(text).ok_or_else(|| {
        let wrong = Wrong::new("is no zone of the IANA database");
        match nearest(text, Zone::names()) {
            Some(name) => wrong.hint(format!("did you mean \"{name}\"?")),
            None => wrong.hint("such as \"Europe/Berlin\" or \"UTC\""),
        }
    })
}

/// `mqtt://host[:port]` or `mqtts://host[:port]`.
pub(super) fn endpoint(text: &str) -> Result<Endpoint, Wrong> {
    let form = "must be mqtt://host[:port] or mqtts://host[:port]";
    if text.contains('@') {
        return Err(Wrong::new("must not hold credentials").hint("use `username` and `password_file`"));
    }
    let (tls, rest) = match text.split_once("://") {
        Some(("mqtt", rest)) => (false, rest),
        Some(("mqtts", rest)) => (true, rest),
        Some(("tcp", rest)) => return Err(Wrong::new(form).hint(format!("\"mqtt://{rest}\""))),
        Some(("ssl" | "tls", rest)) => return Err(Wrong::new(form).hint(format!("\"mqtts://{rest}\""))),
        Some((scheme, _)) => return Err(Wrong::new(format!("{form}; `{scheme}` is not supported"))),
        None => return Err(Wrong::new(form).hint(format!("\"mqtt://{text}\""))),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = host_and_port(authority, form)?;
    Ok(Endpoint { tls, host, port: port.unwrap_or(if tls { 8883 } else { 1883 }) })
}

/// `host[:port]`, with brackets around an IPv6 address. `form` says how it should look.
pub(super) fn host_and_port(authority: &str, form: &str) -> Result<(String, Option<u16>), Wrong> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let Some((host, after)) = bracketed.split_once(']') else {
                return Err(Wrong::new("has `[` without `]`"));
            };
            if host.parse::<core::net::Ipv6Addr>().is_err() {
                return Err(Wrong::new(format!("`{host}` is no IPv6 address")));
            }
            (host, after.strip_prefix(':').or((!after.is_empty()).then_some("?")))
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(Wrong::new("an IPv6 address stands in brackets").hint("mqtt://[::1]:1883"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte) || byte >= 0x80;
    if host.is_empty() || host.len() > MQTT_NAME_BYTES || !host.bytes().all(plain) {
        return Err(Wrong::new(form));
    }
    let port = port.map(|port| match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(Wrong::new("the port must be a number from 1 to 65535")),
    });
    Ok((host.to_owned(), port.transpose()?))
}

/// The shortest way to write `span`.
pub(in crate::config) fn show(span: Span) -> String {
    let millis = span.as_millis();
    let fits = DURATION_UNITS.iter().rev().find(|(_, unit)| millis > 0 && millis.is_multiple_of(*unit));
    let (unit, factor) = fits.copied().unwrap_or(("s", 1_000));
    format!("{}{unit}", millis / factor)
}

fn with_unit(text: &str, what: &str, units: &[(&str, u64)]) -> Result<u64, Wrong> {
    let wrong = || Wrong::new(format!("must be {what}"));
    let digits = text.len() - text.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if digits == 0 {
        return Err(wrong());
    }
    let Some((_, factor)) = units.iter().find(|(known, _)| *known == unit) else {
        let near = units.iter().find(|(known, _)| {
            let unit = unit.trim();
            known.eq_ignore_ascii_case(unit)
                || (known.ends_with("iB")
                    && [&known[..1], &known[..2], &format!("{}B", &known[..1])]
                        .iter()
                        .any(|short| short.eq_ignore_ascii_case(unit)))
        });
        return Err(match near {
            Some((near, _)) => wrong().hint(format!("\"{number}{near}\"")),
            None if unit.is_empty() => wrong().hint(format!("it has no unit: \"{number}{}\"", units[1].0)),
            None if unit.starts_with('.') => wrong().hint("a fraction is written in the next smaller unit"),
            None => match sum_of_parts(text).filter(|_| what == DURATION) {
                Some(sum) => wrong().hint(format!("\"{}\"", show(sum))),
                None => wrong(),
            },
        });
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor)).ok_or_else(|| Wrong::new("is too large"))
}

/// Ways to write a duration that are none of ours: `1h30m`, `1w`.
fn sum_of_parts(text: &str) -> Option<Span> {
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|character: char| !character.is_ascii_digit())?);
        let end = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let weeks = [("w", 7 * 86_400_000)];
        let (_, factor) = DURATION_UNITS.iter().chain(&weeks).find(|(known, _)| *known == unit)?;
        sum = number.parse::<u64>().ok()?.checked_mul(*factor)?.checked_add(sum)?;
        rest = next;
    }
    Some(Span::from_millis(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        let any = Span::ZERO..=Span::from_millis(u64::MAX);
        for (text, millis) in
            [("500ms", 500), ("5s", 5_000), ("1m", 60_000), ("2h", 7_200_000), ("1d", 86_400_000), ("0s", 0)]
        {
            assert_eq!(span(text, any.clone()), Ok(Span::from_millis(millis)), "{text}");
            let shown = show(Span::from_millis(millis));
            assert_eq!(span(&shown, any.clone()), Ok(Span::from_millis(millis)), "{text} shown as {shown}");
        }
        for text in [
            "",
            "s",
            "5",
            "5 s",
            "1.5s",
            "-5s",
            "5S",
            "1h30m",
            "5sec",
            "99999999999999999999s",
            "999999999999999999d",
            "5s ",
            "٥s",
        ] {
            assert!(span(text, any.clone()).is_err(), "{text}");
        }
        assert_eq!(signed_millis("-15m"), Ok(-900_000));
        assert!(signed_millis("--15m").is_err());
        let hint = |text| span(text, any.clone()).expect_err(text).hint;
        assert_eq!(hint("5S"), Some("\"5s\"".into()));
        assert_eq!(hint("5"), Some("it has no unit: \"5s\"".into()));
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(size("8MiB", 0..=u64::MAX), Ok(8 << 20));
        assert_eq!(size("64KiB", 0..=u64::MAX), Ok(64 << 10));
        for text in ["8MB", "8M", "8mib", "8Mi"] {
            assert_eq!(size(text, 0..=u64::MAX).expect_err(text).hint, Some("\"8MiB\"".into()), "{text}");
        }
    }

    #[test]
    fn brokers_are_a_scheme_a_host_and_a_port() {
        let good = |text| endpoint(text).map(|at| (at.tls, at.host, at.port)).expect(text);
        assert_eq!(good("mqtt://127.0.0.1"), (false, "127.0.0.1".into(), 1883));
        assert_eq!(good("mqtts://cloud.example"), (true, "cloud.example".into(), 8883));
        assert_eq!(good("mqtt://[::1]:1884/"), (false, "::1".into(), 1884));
        for text in [
            "localhost:1883",
            "tcp://a",
            "http://a",
            "mqtt://",
            "mqtt://a:0",
            "mqtt://a:65536",
            "mqtt://a:x",
            "mqtt://u:p@a",
            "mqtt://::1",
            "mqtt://[::1",
            "mqtt://[::1]x",
            "mqtt://[a]",
            "mqtt://a/b",
            "mqtt://a b",
        ] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }
}
