//! The other ways in: TLS, WebSocket, a Unix socket. What is said inside is the same.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, WebSocket, client as shake_hands};

use crate::client::{Client, Connect, WAIT_MAX, connect_to};
use crate::server::{Server, tidegate};
use crate::wire::{BOTH, Version};

/// Both ends of a stream that cannot be divided. One thread uses them, in turn.
pub(crate) struct Shared<S>(Arc<Mutex<S>>);

impl<S: Read + Write + Send + 'static> Shared<S> {
    pub(crate) fn client(stream: S, version: Version) -> Client {
        let stream = Arc::new(Mutex::new(stream));
        Client::over(Shared(Arc::clone(&stream)), Shared(stream), version)
    }
}

impl<S: Read> Read for Shared<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap().read(buffer)
    }
}

impl<S: Write> Write for Shared<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().flush()
    }
}

/// A connection through TLS to a server whose certificate `ca` signed, with a certificate and
/// key of its own, or without.
pub(crate) fn tls(server: &Server, ca: &str, own: Option<&str>) -> StreamOwned<ClientConnection, TcpStream> {
    let file = |name: &str, ending: &str| server.dir().join(format!("{name}.{ending}"));
    let certificate = |path: &Path| CertificateDer::from_pem_file(path).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&file(ca, "crt"))).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let key = PrivateKeyDer::from_pem_file(file(name, "key")).unwrap();
            builder.with_client_auth_cert(vec![certificate(&file(name, "crt"))], key).unwrap()
        }
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, connect_to(Ipv4Addr::LOCALHOST.into(), server))
}

/// The bytes in the binary frames of a WebSocket.
pub(crate) struct Frames {
    socket: WebSocket<TcpStream>,
    arrived: VecDeque<u8>,
}

impl Frames {
    pub(crate) fn open(server: &Server, path: &str, protocol: &'static str) -> Result<Frames, String> {
        let mut request = format!("ws://127.0.0.1:{}{path}", server.port).into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(protocol));
        let (socket, answer) =
            shake_hands(request, connect_to(Ipv4Addr::LOCALHOST.into(), server)).map_err(|error| error.to_string())?;
        assert_eq!(answer.headers()["Sec-WebSocket-Protocol"], protocol);
        Ok(Frames { socket, arrived: VecDeque::new() })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.socket.get_ref()
    }
}

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.arrived.is_empty() {
            match self.socket.read() {
                Ok(Message::Binary(bytes)) => self.arrived.extend(bytes),
                Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed) => return Ok(0),
                Ok(_) => {}
                Err(Error::Io(error)) => return Err(error),
                Err(error) => return Err(io::Error::new(ErrorKind::UnexpectedEof, error)),
            }
        }
        self.arrived.read(buffer)
    }
}

impl Write for Frames {
    /// One frame for each byte: packets may span as many as they like.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        for byte in buffer {
            let frame = Message::Binary(Bytes::copy_from_slice(&[*byte]));
            self.socket.send(frame).map_err(io::Error::other)?;
        }
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush().map_err(io::Error::other)
    }
}

/// Subscribes, publishes at each `QoS`, and gets what it published.
fn assert_served(client: Client, version: Version) {
    let (mut client, answer) = Connect::new(version, "client").ask_over(client);
    assert_eq!(answer.code, 0, "{version:?}: it is let in");
    assert_eq!(client.subscribe(&[("a/+", 2)]), [2]);
    let sent = |number: u8| format!("{number} {}", "x".repeat(1_000));
    for qos in 0..3 {
        let id = 100 + u16::from(qos);
        client.send(&crate::wire::publish(version, qos << 1, "a/b", id, &[], sent(qos).as_bytes()));
    }
    let payloads: Vec<String> = client.drain().into_iter().map(|message| message.payload).collect();
    assert_eq!(payloads, [sent(0), sent(1), sent(2)], "{version:?}");
    client.disconnect();
}

#[test]
fn a_client_is_served_over_websocket() {
    let server = Server::configured(&|_, port| format!("websocket = '127.0.0.1:{port}'"));
    for version in BOTH {
        for path in ["/mqtt", "/"] {
            let frames = Frames::open(&server, path, "mqtt").expect("a WebSocket");
            assert_served(Shared::client(frames, version), version);
        }
    }
    for (path, protocol) in [("/other", "mqtt"), ("/mqtt", "chat")] {
        let refused = Frames::open(&server, path, protocol).err().expect("it is refused");
        assert!(refused.contains("40"), "{path} {protocol}: {refused}");
    }
    // The look whether it listens already was none, either.
    assert!(server.refused("websocket") >= 2);
}

/// A masked binary frame.
fn frame(bytes: &[u8]) -> Vec<u8> {
    let length = u64::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[0x82, 0xFF][..], &length, &[0; 4], bytes].concat()
}

/// A client that is sent what it says, and reads all the time.
#[test]
fn a_websocket_never_waits_in_a_circle() {
    let server = Server::configured(&|_, port| format!("websocket = '127.0.0.1:{port}'"));
    let mut stream = connect_to(Ipv4Addr::LOCALHOST.into(), &server);
    stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
    let request = "GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    // A client waits for the answer before it says more.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    let mut reading = stream.try_clone().unwrap();
    let heard = std::thread::spawn(move || {
        let (mut buffer, mut heard) = (vec![0; 64 * 1_024], 0);
        loop {
            match reading.read(&mut buffer) {
                Ok(0) => return Ok(heard),
                Ok(count) => heard += count,
                Err(error) => return Err(error),
            }
        }
    });
    let hello = Connect::new(Version::V5, "echo").bytes();
    let subscribe = crate::wire::subscribe(Version::V5, 1, &[], &[("w", 0)]);
    stream.write_all(&frame(&[hello, subscribe].concat())).unwrap();
    let message = frame(&crate::wire::publish(Version::V5, 0, "w", 0, &[], &vec![b'x'; 100_000]));
    for _ in 0..300 {
        stream.write_all(&message).expect("it is read on");
    }
    stream.write_all(&frame(&[0xe0, 0])).unwrap();
    let heard = heard.join().unwrap().expect("its goodbye is heard");
    assert!(heard > 1_000_000, "{heard} bytes");
}

#[test]
fn a_client_is_served_over_a_unix_socket_which_is_not_for_everybody() {
    let server =
        Server::configured(&|dir, port| format!("tcp = '127.0.0.1:{port}'\nunix = '{}/mqtt.sock'", dir.display()));
    let path = server.dir().join("mqtt.sock");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    for version in BOTH {
        let stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        assert_served(Client::over(stream.try_clone().unwrap(), stream, version), version);
    }
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (at, file) = (dir.path().display(), dir.path().join("notes.txt"));
    std::fs::write(&file, "precious").unwrap();
    let config = dir.path().join("tidegate.toml");
    let text = format!("gateway.id = 'broker'\nstorage.path = '{at}/state'\nlistener.unix = '{at}/notes.txt'\n");
    std::fs::write(&config, text).unwrap();
    let output = tidegate(&["broker", "--config", config.to_str().unwrap()], "");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("something that is not a socket is in its place"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn tls_files_that_are_of_no_use_are_told_before_the_first_client_comes() {
    for (certificate, key, why) in [
        ("broker", "missing", "missing.key"),
        ("broker", "other", "cannot be used"),
        ("expired", "expired", "has expired"),
    ] {
        let server = Server::configured(&|dir, port| {
            crate::certificates::authority(dir, "ca");
            for name in ["broker", "other"] {
                crate::certificates::certificate(dir, "ca", name);
            }
            crate::certificates::expired_certificate(dir, "ca", "expired");
            let at = dir.display();
            // At another address: the look whether it listens is a client, too.
            format!(
                "tcp = '127.0.0.1:{port}'\ntls = '127.0.0.2:{port}'\n\
                 cert_file = '{at}/{certificate}.crt'\nkey_file = '{at}/{key}.key'"
            )
        });
        let trouble = || server.status()["health"]["reasons"].to_string();
        let began = std::time::Instant::now();
        while !trouble().contains(why) {
            assert!(began.elapsed() < WAIT_MAX, "{why}: nobody is told: {}", trouble());
        }
        assert_eq!(server.refused("tls"), 0);
    }
}

#[test]
fn a_client_is_served_over_tls() {
    let server = Server::configured(&|dir, port| {
        crate::certificates::authority(dir, "ca");
        crate::certificates::certificate(dir, "ca", "broker");
        let at = dir.display();
        format!("tls = '127.0.0.1:{port}'\ncert_file = '{at}/broker.crt'\nkey_file = '{at}/broker.key'")
    });
    for version in BOTH {
        assert_served(Shared::client(tls(&server, "ca", None), version), version);
    }
    // Nobody listens for plain MQTT there.
    let mut plain = Client::dial(&server, Version::V5);
    plain.send(&Connect::new(Version::V5, "plain").bytes());
    while plain.next().is_some() {}
    Shared::client(tls(&server, "ca", None), Version::V5);
}
