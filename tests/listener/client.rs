//! A client that says exactly what a test tells it to, and shows all that comes back.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpStream};
use std::time::Duration;

use crate::server::Server;
use crate::wire::{
    self, Version, ack, four, kind, packet, properties, property, take_properties, take_text, take_u16, text,
};

/// Longest wait for anything that has to come: two cores are shared with compilers.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);
/// A session that outlives its connection, in seconds (MQTT 5).
const SESSION_SECS: u32 = 3_600;

/// What a CONNECT says.
#[derive(Clone)]
pub(crate) struct Connect {
    version: Version,
    id: String,
    flags: u8,
    keep_alive: u16,
    properties: Vec<u8>,
    will: Vec<u8>,
    login: Vec<u8>,
}

impl Connect {
    /// A clean session without keep-alive.
    pub(crate) fn new(version: Version, id: &str) -> Connect {
        let id = id.to_owned();
        Connect { version, id, flags: 0x02, keep_alive: 0, properties: Vec::new(), will: Vec::new(), login: Vec::new() }
    }

    /// A session that goes on, if there is one, and outlives the connection.
    pub(crate) fn persistent(self) -> Connect {
        let list = match self.version {
            Version::V311 => Vec::new(),
            Version::V5 => four(property::SESSION_EXPIRY, SESSION_SECS),
        };
        Connect { flags: self.flags & !0x02, ..self.property(&list) }
    }

    pub(crate) fn clean(mut self, clean: bool) -> Connect {
        self.flags = if clean { self.flags | 0x02 } else { self.flags & !0x02 };
        self
    }

    pub(crate) fn keep_alive(mut self, seconds: u16) -> Connect {
        self.keep_alive = seconds;
        self
    }

    pub(crate) fn property(mut self, list: &[u8]) -> Connect {
        self.properties.extend_from_slice(list);
        self
    }

    /// A will with its `QoS`, retain flag, and properties (MQTT 5).
    pub(crate) fn will(mut self, topic: &str, payload: &str, qos: u8, retain: bool, list: &[u8]) -> Connect {
        self.flags |= 0x04 | qos << 3 | u8::from(retain) << 5;
        self.will = [properties(self.version, list), text(topic), text(payload)].concat();
        self
    }

    /// A user name.
    pub(crate) fn user(mut self, name: &str) -> Connect {
        self.flags |= 0x80;
        self.login = text(name);
        self
    }

    /// A user name and a password.
    pub(crate) fn login(self, name: &str, password: &str) -> Connect {
        let mut connect = self.user(name);
        connect.flags |= 0x40;
        connect.login.extend(text(password));
        connect
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let head = [text("MQTT"), vec![self.version as u8, self.flags], self.keep_alive.to_be_bytes().to_vec()];
        let tail = [properties(self.version, &self.properties), text(&self.id), self.will.clone(), self.login.clone()];
        packet(kind::CONNECT, &[head.concat(), tail.concat()].concat())
    }

    /// Connects and is let in.
    pub(crate) fn open(&self, server: &Server) -> Client {
        let (client, answer) = self.ask(server);
        assert_eq!(answer.code, 0, "{} is let in", self.id);
        client
    }

    /// Connects and shows the answer.
    pub(crate) fn ask(&self, server: &Server) -> (Client, Answer) {
        self.ask_over(Client::dial(server, self.version))
    }

    /// The same over a connection that is there.
    pub(crate) fn ask_over(&self, mut client: Client) -> (Client, Answer) {
        client.send(&self.bytes());
        let body = client.expect(kind::CONNACK);
        let mut rest = &body[2..];
        let properties = if rest.is_empty() { Vec::new() } else { take_properties(&mut rest) };
        client.session_present = body[0] == 1;
        (client, Answer { code: body[1], properties })
    }
}

/// A connection with the deadlines of a test.
pub(crate) fn connect_to(address: IpAddr, server: &Server) -> TcpStream {
    let stream = TcpStream::connect((address, server.port)).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// What a CONNACK says beside `session_present`.
pub(crate) struct Answer {
    pub(crate) code: u8,
    pub(crate) properties: Vec<(u8, Vec<u8>)>,
}

/// A PUBLISH that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) qos: u8,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    /// 0 at `QoS` 0.
    pub(crate) id: u16,
    pub(crate) properties: Vec<(u8, Vec<u8>)>,
}

impl Message {
    /// Values of one property, in order.
    pub(crate) fn values(&self, identifier: u8) -> Vec<&[u8]> {
        self.properties.iter().filter(|(found, _)| *found == identifier).map(|(_, value)| value.as_slice()).collect()
    }
}

/// One connection. Dropped without a word, it is cut off.
pub(crate) struct Client {
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
    /// Of TCP alone.
    stream: Option<TcpStream>,
    pub(crate) version: Version,
    pub(crate) session_present: bool,
    /// The last packet id that a method here chose; tests choose theirs below.
    last_id: u16,
}

impl Client {
    /// A connection that has said nothing yet.
    pub(crate) fn dial(server: &Server, version: Version) -> Client {
        Client::dial_to(Ipv4Addr::LOCALHOST.into(), server, version)
    }

    /// The same from and to another address of this machine.
    pub(crate) fn dial_to(address: IpAddr, server: &Server, version: Version) -> Client {
        let stream = connect_to(address, server);
        let mut client = Client::over(stream.try_clone().unwrap(), stream.try_clone().unwrap(), version);
        client.stream = Some(stream);
        client
    }

    /// Over whatever carries bytes both ways.
    pub(crate) fn over(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        version: Version,
    ) -> Client {
        let (input, output) = (Box::new(input), Box::new(output));
        Client { input, output, stream: None, version, session_present: false, last_id: 30_000 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).unwrap();
        self.output.flush().unwrap();
    }

    /// As [`Client::send`], to a server that may have hung up already.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        // What counts is what the server does then.
        let _ = self.output.write_all(bytes);
    }

    /// Another handle of the connection, to write while this one reads.
    pub(crate) fn writer(&self) -> TcpStream {
        self.stream.as_ref().expect("it is TCP").try_clone().unwrap()
    }

    /// The next packet; `None`: the server ended the connection.
    pub(crate) fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let first = self.byte()?;
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            len |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let mut body = vec![0; len];
        self.fill(&mut body).then_some((first, body))
    }

    fn byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        self.fill(&mut byte).then_some(byte[0])
    }

    fn fill(&mut self, buffer: &mut [u8]) -> bool {
        match self.input.read_exact(buffer) {
            Ok(()) => true,
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => false,
            Err(error) => panic!("nothing comes within {WAIT_MAX:?}: {error}"),
        }
    }

    /// The body of the next packet, which has this first byte.
    pub(crate) fn expect(&mut self, first: u8) -> Vec<u8> {
        let (found, body) = self.next().unwrap_or_else(|| panic!("{first:#04x} is expected, the server hangs up"));
        assert_eq!(format!("{found:#04x}"), format!("{first:#04x}"), "first byte of {body:?}");
        body
    }

    /// The next packet acknowledges this id. Returns the reason code, 0 where there is none.
    pub(crate) fn expect_ack(&mut self, first: u8, id: u16) -> u8 {
        let body = self.expect(first);
        assert_eq!(take_u16(&mut body.as_slice()), id, "{first:#04x} is for this packet");
        body.get(2).copied().unwrap_or(0)
    }

    /// The next packet, which is a PUBLISH. It is not acknowledged.
    pub(crate) fn message(&mut self) -> Message {
        let (first, body) = self.next().expect("a message, not the end");
        self.parse(first, &body).unwrap_or_else(|| panic!("a message, not {first:#04x} {body:?}"))
    }

    fn parse(&self, first: u8, body: &[u8]) -> Option<Message> {
        if first & 0xF0 != kind::PUBLISH {
            return None;
        }
        let mut rest = body;
        let topic = String::from_utf8(take_text(&mut rest)).unwrap();
        let qos = first >> 1 & 3;
        let id = if qos > 0 { take_u16(&mut rest) } else { 0 };
        let properties = if self.version == Version::V5 { take_properties(&mut rest) } else { Vec::new() };
        let payload = String::from_utf8(rest.to_vec()).unwrap();
        Some(Message { topic, payload, qos, dup: first & 8 != 0, retain: first & 1 != 0, id, properties })
    }

    /// Completes the handshake of a message that came.
    pub(crate) fn acknowledge(&mut self, message: &Message) {
        match message.qos {
            0 => {}
            1 => self.send(&ack(kind::PUBACK, message.id)),
            _ => {
                self.send(&ack(kind::PUBREC, message.id));
                self.expect_ack(kind::PUBREL, message.id);
                self.send(&ack(kind::PUBCOMP, message.id));
            }
        }
    }

    /// Subscribes. Returns the codes of the answer; messages that come before it are an error.
    pub(crate) fn subscribe(&mut self, filters: &[(&str, u8)]) -> Vec<u8> {
        self.subscribe_with(&[], filters)
    }

    pub(crate) fn subscribe_with(&mut self, list: &[u8], filters: &[(&str, u8)]) -> Vec<u8> {
        let id = self.fresh_id();
        self.send(&wire::subscribe(self.version, id, list, filters));
        self.codes(kind::SUBACK, id)
    }

    pub(crate) fn unsubscribe(&mut self, filters: &[&str]) -> Vec<u8> {
        let id = self.fresh_id();
        self.send(&wire::unsubscribe(self.version, id, filters));
        self.codes(kind::UNSUBACK, id)
    }

    fn codes(&mut self, first: u8, id: u16) -> Vec<u8> {
        let body = self.expect(first);
        let mut rest = body.as_slice();
        assert_eq!(take_u16(&mut rest), id, "the answer is to this packet");
        if self.version == Version::V5 {
            take_properties(&mut rest);
        }
        rest.to_vec()
    }

    /// Publishes and waits for the server's word. `flags` is what the first byte says.
    pub(crate) fn publish(&mut self, flags: u8, topic: &str, payload: &str) -> u8 {
        self.publish_with(flags, topic, &[], payload)
    }

    pub(crate) fn publish_with(&mut self, flags: u8, topic: &str, list: &[u8], payload: &str) -> u8 {
        let id = self.fresh_id();
        self.send(&wire::publish(self.version, flags, topic, id, list, payload.as_bytes()));
        match flags >> 1 & 3 {
            // Answered in order: the message is in.
            0 => {
                self.ping();
                0
            }
            1 => self.expect_ack(kind::PUBACK, id),
            _ => {
                let code = self.expect_ack(kind::PUBREC, id);
                self.send(&ack(kind::PUBREL, id));
                self.expect_ack(kind::PUBCOMP, id);
                code
            }
        }
    }

    pub(crate) fn ping(&mut self) {
        self.send(&[kind::PINGREQ, 0]);
        self.expect(kind::PINGRESP);
    }

    /// Everything that is on its way: sends itself a last message and returns, acknowledged,
    /// what comes before it.
    pub(crate) fn drain(&mut self) -> Vec<Message> {
        let topic = format!("fence/{}", self.fresh_id());
        let (subscribe_id, publish_id) = (self.fresh_id(), self.fresh_id());
        self.send(&wire::subscribe(self.version, subscribe_id, &[], &[(&topic, 1)]));
        self.send(&wire::publish(self.version, 0x02, &topic, publish_id, &[], b""));
        let mut before = Vec::new();
        loop {
            let (first, body) = self.next().expect("the server goes on");
            if let Some(message) = self.parse(first, &body) {
                match message.qos {
                    0 => {}
                    1 => self.send(&ack(kind::PUBACK, message.id)),
                    _ => self.send(&ack(kind::PUBREC, message.id)),
                }
                if message.topic == topic {
                    break;
                }
                before.push(message);
            } else if first == kind::PUBREL {
                self.send(&ack(kind::PUBCOMP, take_u16(&mut body.as_slice())));
            }
        }
        // The answers to the fence itself may come behind it.
        self.send(&wire::unsubscribe(self.version, subscribe_id, &[&topic]));
        while self.next().expect("the server goes on").0 != kind::UNSUBACK {}
        before
    }

    /// Says goodbye and waits until the server has heard it.
    pub(crate) fn disconnect(mut self) {
        self.send(&[kind::DISCONNECT, 0]);
        self.ends();
    }

    /// Cuts the connection without a word, and waits until the server has noticed.
    pub(crate) fn cut(mut self) {
        self.stream.as_ref().expect("it is TCP").shutdown(Shutdown::Write).unwrap();
        while self.next().is_some() {}
    }

    /// The server ends the connection. Returns the reason code of its DISCONNECT (MQTT 5).
    pub(crate) fn ends(&mut self) -> Option<u8> {
        let mut reason = None;
        while let Some((first, body)) = self.next() {
            if first == kind::DISCONNECT {
                reason = Some(body.first().copied().unwrap_or(0));
            }
        }
        reason
    }

    fn fresh_id(&mut self) -> u16 {
        self.last_id += 1;
        self.last_id
    }
}
