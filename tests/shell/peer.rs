//! The other side of a broker: a blocking MQTT 3.1.1 client and a scripted
//! server, both byte by byte, so that the tests do not check a library against
//! itself. Every read has a generous deadline and fails the test when it passes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Two cores are shared with compilers.
const PATIENCE: Duration = Duration::from_secs(30);

/// One packet: the first byte of its header, and its body.
pub(crate) type Packet = (u8, Vec<u8>);

/// A PUBLISH as received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) retain: bool,
}

/// Either end of a connection.
pub(crate) struct Peer {
    stream: TcpStream,
    next_packet: u16,
}

impl Peer {
    /// A client with a clean session.
    pub(crate) fn connect(port: u16, client_id: &str) -> Peer {
        Peer::connect_as(port, client_id, 0x02)
    }

    /// Has the broker keep a session that is subscribed at `QoS` 1.
    pub(crate) fn leave_session(port: u16, client_id: &str, filter: &str) {
        let mut peer = Peer::connect_as(port, client_id, 0x00);
        let mut body = vec![0, 9];
        push_text(&mut body, filter);
        body.push(1);
        peer.write(0x82, &body);
        assert_eq!(peer.read(), (0x90, vec![0, 9, 1]), "SUBACK");
        peer.write(0xe0, &[]);
    }

    fn connect_as(port: u16, client_id: &str, flags: u8) -> Peer {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the broker listens");
        let mut peer = Peer::over(stream);
        let mut body = b"\x00\x04MQTT\x04".to_vec();
        body.extend_from_slice(&[flags, 0, 0]);
        push_text(&mut body, client_id);
        peer.write(0x10, &body);
        assert_eq!(peer.read(), (0x20, vec![0, 0]), "CONNACK");
        peer
    }

    /// The server's end of the next connection; reads CONNECT, answers CONNACK.
    pub(crate) fn accept(listener: &TcpListener, session_present: bool) -> Peer {
        let (stream, _) = listener.accept().expect("a connection comes");
        let mut peer = Peer::over(stream);
        assert_eq!(peer.read().0, 0x10, "CONNECT");
        peer.write(0x20, &[u8::from(session_present), 0]);
        peer
    }

    /// The server's end of the next connection in MQTT 5: reads CONNECT, answers CONNACK with
    /// this reason code and these properties. The second value is CONNECT's body.
    pub(crate) fn accept_v5(listener: &TcpListener, code: u8, properties: &[u8]) -> (Peer, Vec<u8>) {
        let (stream, _) = listener.accept().expect("a connection comes");
        let mut peer = Peer::over(stream);
        let (head, connect) = peer.read();
        assert_eq!((head, connect[6]), (0x10, 5), "CONNECT of MQTT 5");
        let mut body = vec![0, code, u8::try_from(properties.len()).expect("short")];
        body.extend_from_slice(properties);
        peer.write(0x20, &body);
        (peer, connect)
    }

    /// The next PUBLISH at `QoS` 1: packet id, and what follows it.
    pub(crate) fn published(&mut self) -> (u16, Vec<u8>) {
        let (head, body) = self.read();
        assert_eq!(head & 0xf6, 0x32, "PUBLISH at QoS 1");
        let id = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
        (u16::from_be_bytes([body[id], body[id + 1]]), body[id + 2..].to_vec())
    }

    /// PUBACK, in MQTT 5 with a reason code.
    pub(crate) fn answer(&mut self, packet: u16, code: Option<u8>) {
        let mut body = packet.to_be_bytes().to_vec();
        body.extend(code);
        self.write(0x40, &body);
    }

    /// PUBACK, to whoever is still there.
    pub(crate) fn answer_quietly(&mut self, packet: u16) {
        let [high, low] = packet.to_be_bytes();
        let _ = self.stream.write_all(&[0x40, 2, high, low]);
    }

    /// Whether the other side has closed the connection, or nothing has come for so long.
    pub(crate) fn reads_nothing_for(&mut self, wait: Duration) -> bool {
        self.stream.set_read_timeout(Some(wait)).expect("a timeout can be set");
        let nothing = self.try_read().is_err();
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        nothing
    }

    fn over(stream: TcpStream) -> Peer {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_nodelay(true).expect("nodelay can be set");
        Peer { stream, next_packet: 0 }
    }

    /// Publishes at `QoS` 1 and waits for the PUBACK.
    pub(crate) fn publish(&mut self, topic: &str, payload: &[u8]) {
        self.publish_many(topic, std::iter::once(payload));
    }

    /// Publishes at `QoS` 1 for whoever subscribes later, and waits for the PUBACK.
    pub(crate) fn publish_retained(&mut self, topic: &str, payload: &[u8]) {
        let mut body = Vec::new();
        push_text(&mut body, topic);
        body.extend_from_slice(&[0, 1]);
        body.extend_from_slice(payload);
        self.write(0x33, &body);
        assert_eq!(self.read().0, 0x40, "PUBACK");
    }

    /// Publishes at `QoS` 1, up to 50 at a time unacknowledged.
    pub(crate) fn publish_many<'a>(&mut self, topic: &str, payloads: impl Iterator<Item = &'a [u8]>) {
        let mut open = 0;
        for payload in payloads {
            self.next_packet = self.next_packet.checked_add(1).unwrap_or(1);
            let mut body = Vec::new();
            push_text(&mut body, topic);
            body.extend_from_slice(&self.next_packet.to_be_bytes());
            body.extend_from_slice(payload);
            self.write(0x32, &body);
            open += 1;
            if open == 50 {
                assert_eq!(self.read().0, 0x40, "PUBACK");
                open -= 1;
            }
        }
        for _ in 0..open {
            assert_eq!(self.read().0, 0x40, "PUBACK");
        }
    }

    /// Subscribes at `QoS` 0 and waits for the SUBACK.
    pub(crate) fn subscribe(&mut self, filter: &str) {
        let mut body = vec![0, 9];
        push_text(&mut body, filter);
        body.push(0);
        self.write(0x82, &body);
        assert_eq!(self.read(), (0x90, vec![0, 9, 0]), "SUBACK");
    }

    /// The next PUBLISH at `QoS` 0.
    pub(crate) fn receive(&mut self) -> Received {
        let (head, body) = self.read();
        assert_eq!(head & 0xf6, 0x30, "PUBLISH at QoS 0");
        let len = usize::from(u16::from_be_bytes([body[0], body[1]]));
        Received {
            topic: String::from_utf8(body[2..2 + len].to_vec()).expect("UTF-8"),
            payload: body[2 + len..].to_vec(),
            retain: head & 1 == 1,
        }
    }

    pub(crate) fn write(&mut self, head: u8, body: &[u8]) {
        let mut packet = vec![head];
        let mut len = body.len();
        loop {
            let byte = u8::try_from(len % 128).expect("below 128");
            len /= 128;
            packet.push(if len > 0 { byte | 0x80 } else { byte });
            if len == 0 {
                break;
            }
        }
        packet.extend_from_slice(body);
        self.write_raw(&packet);
    }

    pub(crate) fn write_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the peer takes it");
    }

    pub(crate) fn read(&mut self) -> Packet {
        self.try_read().expect("a packet comes in time")
    }

    fn try_read(&mut self) -> std::io::Result<Packet> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte)?;
        let head = byte[0];
        let mut len = 0;
        for shift in [0, 7, 14, 21] {
            self.stream.read_exact(&mut byte)?;
            len |= usize::from(byte[0] & 0x7f) << shift;
            if byte[0] & 0x80 == 0 {
                break;
            }
        }
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body)?;
        Ok((head, body))
    }
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&u16::try_from(text.len()).expect("short").to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}
