//! What the shell is told to do: identity, brokers, storage, sockets. Checked;
//! built by `check.rs` alone. Read once at start.

use core::fmt;
use core::net::SocketAddr;
use std::path::PathBuf;

use crate::engine::spec::PipelineSpec;
use crate::model::time::Span;

/// A whole checked configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What the engine does.
    pub pipeline: PipelineSpec,
    /// The broker that devices publish to; `None`: they connect to the listener.
    pub devices: Option<BrokerSpec>,
    /// The broker of the cloud; `None`: nothing is sent anywhere (`tidegate broker`).
    pub uplink: Option<BrokerSpec>,
    /// Where devices connect to the agent itself; `None`: nowhere.
    pub listener: Option<ListenerSpec>,
    /// Results on the devices' broker too; `None`: none.
    pub local: Option<LocalSpec>,
    /// Where state lives.
    pub storage: StorageSpec,
    /// The control socket; `None`: no socket.
    pub control: Option<PathBuf>,
    /// Configuration and commands over MQTT; `None`: none.
    pub remote: Option<RemoteSpec>,
    /// Tells this document from others: [`super::raw::Document::hash`].
    pub hash: String,
}

/// One MQTT connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSpec {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// TLS, when the URL says `mqtts`.
    pub tls: Option<TlsSpec>,
    /// The version that is spoken.
    pub protocol: Protocol,
    /// What the connection is made through.
    pub proxy: Option<ProxySpec>,
    /// Stable client id: the broker's session hangs on it.
    pub client_id: String,
    /// User name.
    pub username: Option<Credential>,
    /// The password itself, where it came with a document over MQTT.
    pub password: Option<Secret>,
    /// File that holds the password; read again on every connect.
    pub password_file: Option<PathBuf>,
    /// MQTT keep-alive, at least 5 s. Above the longest stall of the engine.
    pub keep_alive: Span,
}

/// A version of MQTT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// 3.1.1.
    V311,
    /// 5.
    V5,
}

/// A name or password from the document, or the file that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// As it stands in the document.
    Text(Secret),
    /// Read again on every connect: whoever renews it needs no restart.
    File(PathBuf),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// An HTTP proxy that is asked to CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySpec {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User name and password, for a proxy that wants to know who we are.
    pub login: Option<(Secret, Credential)>,
}

/// TLS of one connection. Files are PEM and are read again on every connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSpec {
    /// Whom to trust.
    pub trust: Trust,
    /// Our certificate chain and key, for mutual TLS.
    pub client: Option<ClientCert>,
    /// The name that the broker's certificate is for, when it is not the host of the address.
    pub server_name: Option<String>,
    /// What is offered in ALPN; nothing when empty.
    pub alpn: Vec<String>,
}

/// Whose signature makes a broker's certificate good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// That of the authorities in the operating system's bundle.
    System,
    /// That of the certificates in this file.
    File(PathBuf),
}

/// A client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCert {
    /// Certificate chain.
    pub cert_file: PathBuf,
    /// Private key.
    pub key_file: PathBuf,
}

/// How results are published on the devices' broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalSpec {
    /// The broker keeps the last one of each topic.
    pub retain: bool,
    /// At `QoS` 1, else 0.
    pub acknowledged: bool,
}

/// Configuration and commands over MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteSpec {
    /// By the devices' broker too.
    pub local: bool,
    /// Documents and commands are taken with a signature of this Ed25519 key only.
    pub public_key: Option<[u8; 32]>,
}

/// Durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSpec {
    /// Directory; created when missing.
    pub path: PathBuf,
    /// Bytes of the medium that the outbox leaves free.
    pub reserve_bytes: u64,
}

/// The listener: clients that connect to the agent itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSpec {
    /// Where it listens; at least one.
    pub sockets: Vec<SocketSpec>,
    /// Who is let in, and what they may do.
    pub access: AccessSpec,
    /// Bounds of connections.
    pub limits: ConnectionLimits,
}

/// One socket of the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSpec {
    /// Where.
    pub address: SocketAddress,
    /// MQTT in WebSocket frames (path `/mqtt`), else plain.
    pub websocket: bool,
    /// TLS, with files that are read again when they change.
    pub tls: Option<ServerTlsSpec>,
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The server's side of TLS. Files are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTlsSpec {
    /// Our certificate chain.
    pub cert_file: PathBuf,
    /// Our private key.
    pub key_file: PathBuf,
    /// Clients show a certificate that one of these has signed; its common name is their user
    /// name then. `None`: they are not asked.
    pub client_ca_file: Option<PathBuf>,
    /// Clients without a certificate are turned away, else they may have a password.
    pub client_cert_required: bool,
}

/// Who is let in, and what they may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSpec {
    /// User names and argon2 hashes of passwords, read again when it changes.
    pub password_file: Option<PathBuf>,
    /// Whoever connects from this machine needs no name. From elsewhere everybody does.
    pub anonymous_on_loopback: bool,
    /// The first rule whose `user` fits decides; without rules everything is allowed.
    pub rules: Vec<AccessRule>,
}

/// What some users may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// User name, `*` in it for any text; `None`: those without one.
    pub user: Option<String>,
    /// Filters of topics that they may publish to. `{client_id}` and `{username}` stand for a
    /// whole level and are theirs.
    pub publish: Vec<String>,
    /// Filters that they may subscribe to, or to a part of. As above.
    pub subscribe: Vec<String>,
    /// Filters that are refused although the lists above allow them. As above.
    pub deny: Vec<String>,
}

/// Bounds of connections; the broker's own are in the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at a time. Beyond: closed at once, counted.
    pub connections: usize,
    /// Of one address (not on loopback).
    pub connections_per_address: usize,
    /// Bytes of the largest packet. Larger: the connection ends (0x95).
    pub packet_bytes: usize,
    /// Bytes of the first packet.
    pub connect_bytes: usize,
    /// Bytes of all half-received packets and unsent output together. Beyond: no reading.
    pub memory_bytes: usize,
    /// Messages per second of one client; 0: no bound. Beyond: it is read more slowly.
    pub messages_per_second: u32,
    /// From the first byte to the CONNECT.
    pub connect_within: Span,
    /// Longest keep-alive of MQTT 5 clients, which are told; 3.1.1 has no word for it, and there
    /// what the client asks for holds. `Span::ZERO`: no bound.
    pub keep_alive_max: Span,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            connections: 2_000,
            connections_per_address: 200,
            packet_bytes: 256 * 1024,
            connect_bytes: 8 * 1024,
            memory_bytes: 16 * 1024 * 1024,
            messages_per_second: 0,
            connect_within: Span::from_secs(5),
            keep_alive_max: Span::ZERO,
        }
    }
}
