//! The handshake of a WebSocket (RFC 6455, 4.2), from the head of a request to the answer. Pure.
//!
//! **Decision**: tungstenite's own is not used: with the HTTP crates behind it, it takes 0.2 MiB
//! of the 6 MiB that a board has for the program.
//!
//! The path is `/mqtt` or `/`; the subprotocol, where the client names one, is `mqtt`.

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::model::base64::push_base64;

/// Bytes of a request's head; browsers send cookies along.
pub(super) const HEAD_BYTES_MAX: usize = 8 * 1024;
/// An empty line.
pub(super) const HEAD_END: &[u8] = b"\r\n\r\n";
/// What the RFC has appended to the client's key.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// No other request is answered with a WebSocket; whoever does not even begin like it need not be
/// waited for.
pub(super) fn begins_as_request(arrived: &[u8]) -> bool {
    const METHOD: &[u8] = b"GET ";
    let known = arrived.len().min(METHOD.len());
    arrived[..known] == METHOD[..known]
}

/// Bytes of the head in front of `arrived`, once it is there. It does not end in the first
/// `seen` bytes.
pub(super) fn head_bytes(arrived: &[u8], seen: usize) -> Option<usize> {
    let at = arrived[seen..].windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END)?;
    Some(seen + at + HEAD_END.len())
}

/// What is answered to the head of a request.
///
/// # Errors
/// The status of the refusal.
pub(super) fn answer(head: &[u8]) -> Result<String, &'static str> {
    const BAD: &str = "400 Bad Request";
    let head = std::str::from_utf8(head).map_err(|_| BAD)?;
    let mut lines = head.strip_suffix("\r\n\r\n").ok_or(BAD)?.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some("GET"), Some(target), Some("HTTP/1.1"), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD);
    };
    let fields: Vec<(&str, &str)> = lines.map(field).collect::<Option<_>>().ok_or(BAD)?;
    if !has_token(&fields, "Upgrade", "websocket") {
        return Err("426 Upgrade Required");
    }
    if values(&fields, "Host").count() != 1 || !has_token(&fields, "Connection", "upgrade") {
        return Err(BAD);
    }
    let mut keys = values(&fields, "Sec-WebSocket-Key");
    let (Some(key), None) = (keys.next(), keys.next()) else { return Err(BAD) };
    if !is_key(key) {
        return Err(BAD);
    }
    if !values(&fields, "Sec-WebSocket-Version").eq(["13"]) {
        return Err("426 Upgrade Required");
    }
    if !matches!(target.split('?').next(), Some("/mqtt" | "/")) {
        return Err("404 Not Found");
    }
    let names_protocol = values(&fields, "Sec-WebSocket-Protocol").next().is_some();
    if names_protocol && !has_exactly(&fields, "Sec-WebSocket-Protocol", "mqtt") {
        return Err(BAD);
    }
    let mut answer = String::from(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ",
    );
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
    push_base64(&mut answer, hash.as_ref());
    if names_protocol {
        answer.push_str("\r\nSec-WebSocket-Protocol: mqtt");
    }
    answer.push_str("\r\n\r\n");
    Ok(answer)
}

/// The answer to a request that is refused.
pub(super) fn refusal(status: &str) -> String {
    // Of use to whoever asked without, or with another version.
    let upgrade = if status.starts_with("426") { "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" } else { "" };
    format!("HTTP/1.1 {status}\r\n{upgrade}Connection: close\r\nContent-Length: 0\r\n\r\n")
}

/// A line of the head. Its name is a token: with a space before the colon, or continued from the
/// line above, it is none.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    let value = value.trim_matches([' ', '\t']);
    let is_clean = !value.contains(|character: char| character.is_ascii_control() && character != '\t');
    (is_token && is_clean).then_some((name, value))
}

fn values<'a>(fields: &'a [(&str, &'a str)], name: &'a str) -> impl Iterator<Item = &'a str> {
    fields.iter().filter(move |(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// The parts of a field that is a list, in one line or in many.
fn parts<'a>(fields: &'a [(&str, &'a str)], name: &'a str) -> impl Iterator<Item = &'a str> {
    values(fields, name).flat_map(|value| value.split(',')).map(|part| part.trim_matches([' ', '\t']))
}

fn has_token(fields: &[(&str, &str)], name: &str, token: &str) -> bool {
    parts(fields, name).any(|part| part.eq_ignore_ascii_case(token))
}

fn has_exactly(fields: &[(&str, &str)], name: &str, text: &str) -> bool {
    parts(fields, name).any(|part| part == text)
}

/// 16 bytes in base64.
fn is_key(key: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.len() == 24 && key.strip_suffix("==").is_some_and(|digits| digits.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request of the RFC's example, for MQTT.
    const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Origin: http://example.com\r\nSec-WebSocket-Protocol: mqttv3.1, mqtt\r\n\
        Sec-WebSocket-Version: 13\r\n\r\n";

    fn with(from: &str, to: &str) -> Result<String, &'static str> {
        assert!(REQUEST.contains(from), "{from}");
        answer(REQUEST.replace(from, to).as_bytes())
    }

    #[test]
    fn the_answer_is_that_of_the_rfc() {
        let expected = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";
        assert_eq!(answer(REQUEST.as_bytes()).as_deref(), Ok(expected));
    }

    #[test]
    fn a_client_that_names_no_protocol_is_told_none() {
        let answer = with("Sec-WebSocket-Protocol: mqttv3.1, mqtt\r\n", "").unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 ") && !answer.contains("Protocol: "), "{answer}");
    }

    #[test]
    fn what_http_leaves_open_is_understood() {
        for (from, to) in [
            ("/mqtt", "/"),
            ("/mqtt", "/mqtt?client=1"),
            ("Upgrade: websocket", "upgrade:WebSocket"),
            ("Connection: Upgrade", "CONNECTION: \t keep-alive , upgrade "),
            ("mqttv3.1, mqtt", "chat\r\nSec-Websocket-Protocol: mqtt"),
            ("Origin: http://example.com", "Cookie: a=\u{e4}"),
            ("Origin: http://example.com", "Empty:"),
        ] {
            assert!(with(from, to).is_ok(), "{to}");
        }
    }

    #[test]
    fn what_is_no_client_of_mqtt_over_websocket_is_refused() {
        for (from, to, status) in [
            ("/mqtt", "/other", "404"),
            ("/mqtt", "/mqtt/", "404"),
            ("/mqtt", "", "404"),
            ("GET", "POST", "400"),
            ("GET ", "GET  ", "400"),
            ("HTTP/1.1", "HTTP/1.0", "400"),
            ("HTTP/1.1", "HTTP/1.1 ", "400"),
            ("Host: server.example.com\r\n", "", "400"),
            ("Host: ", "Host: a\r\nHost: ", "400"),
            ("Upgrade: websocket\r\n", "", "426"),
            ("Upgrade: websocket", "Upgrade: h2c", "426"),
            ("Connection: Upgrade", "Connection: close", "400"),
            ("Version: 13", "Version: 8", "426"),
            ("Version: 13", "Version: 13\r\nSec-WebSocket-Version: 8", "426"),
            ("b25jZQ==", "b25jZQ=", "400"),
            ("dGhl", "dGh-", "400"),
            ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", "400"),
            ("mqttv3.1, mqtt", "chat", "400"),
            ("mqttv3.1, mqtt", "MQTT", "400"),
            ("mqttv3.1, mqtt", "", "400"),
            ("Origin: ", "Origin : ", "400"),
            ("Origin: ", " continued: ", "400"),
            ("Origin: ", "no field\r\nOrigin: ", "400"),
            ("Origin: ", "Origin: a\nb", "400"),
            ("Origin: ", ": ", "400"),
        ] {
            let refused = with(from, to).expect_err(to);
            assert!(refused.starts_with(status), "{to}: {refused}");
        }
        assert!(answer(b"GET /\xff HTTP/1.1\r\n\r\n").is_err() && answer(b"").is_err() && answer(b"\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_ends_with_an_empty_line() {
        assert_eq!(head_bytes(b"GET / HTTP/1.1\r\n\r", 0), None);
        for seen in 0..=14 {
            assert_eq!(head_bytes(b"GET / HTTP/1.1\r\n\r\nmore", seen), Some(18));
        }
    }

    #[test]
    fn a_stranger_is_told_by_the_first_byte() {
        for (arrived, expected) in [("", true), ("GE", true), ("GET /", true), ("POST", false), ("\u{16}\u{3}", false)]
        {
            assert_eq!(begins_as_request(arrived.as_bytes()), expected, "{arrived}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_spoken() {
        assert_eq!(
            refusal("404 Not Found"),
            "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        assert!(refusal("426 Upgrade Required").contains("\r\nSec-WebSocket-Version: 13\r\n"));
    }
}
