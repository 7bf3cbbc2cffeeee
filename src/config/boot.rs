//! What the shell is told to do: identity, brokers, storage, sockets. Checked;
//! built by `check.rs` alone. Read once at start.

use core::fmt;
use std::path::PathBuf;

use crate::engine::spec::PipelineSpec;
use crate::model::time::Span;

/// A whole checked configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What the engine does.
    pub pipeline: PipelineSpec,
    /// The broker that devices publish to.
    pub devices: BrokerSpec,
    /// The broker of the cloud.
    pub uplink: BrokerSpec,
    /// Results on the devices' broker too; `None`: none.
    pub local: Option<LocalSpec>,
    /// Where state lives.
    pub storage: StorageSpec,
    /// The control socket; `None`: no socket.
    pub control: Option<PathBuf>,
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

/// Durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSpec {
    /// Directory; created when missing.
    pub path: PathBuf,
    /// Bytes of the medium that the outbox leaves free.
    pub reserve_bytes: u64,
}
