//! What is at the other end of a connection when it is no MQTT broker. Pure.
//!
//! A wrong port is the most frequent slip in an address, and the first bytes tell which one it
//! is: a broker speaks first with CONNACK, `0x20`, and nothing else here begins with it.

/// A record of TLS: an alert, or its handshake.
const TLS: [u8; 2] = [0x15, 0x16];
/// The first byte of the versions of TLS and SSL 3.
const TLS_MAJOR: u8 = 3;

/// In words, what speaks so; `None`: nothing that is known here. The bytes are the first of
/// what stands in a buffer: no packet of a broker begins as these do.
pub fn speech(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [first, TLS_MAJOR, ..] if TLS.contains(first) => {
            Some("this looks like a port for TLS (mqtts, mostly 8883), and plain MQTT was spoken to it")
        }
        [b'H', b'T', b'T', b'P', ..] => Some("this looks like a web server, or a port for MQTT over WebSocket"),
        [b'S', b'S', b'H', b'-', ..] => Some("this looks like an SSH server"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_broker_is_named_and_a_broker_s_packets_are_not() {
        assert!(speech(b"\x15\x03\x03\x00\x02\x02\x32").is_some_and(|what| what.contains("TLS")));
        assert!(speech(b"HTTP/1.1 400 Bad Request\r\n").is_some_and(|what| what.contains("WebSocket")));
        assert!(speech(b"SSH-2.0-OpenSSH_9.6\r\n").is_some());
        for packet in [&b""[..], b"\x20\x02\x00\x00", b"\x30\x03\x00\x01t", b"\x90\x03\x00\x01\x01", b"\xe0\x00"] {
            assert_eq!(speech(packet), None, "{packet:?}");
        }
    }
}
