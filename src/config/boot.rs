//! What the shell is told to do: identity, brokers, storage, sockets. Checked;
//! built by `check.rs` alone. Read once at start.

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
    /// Stable client id: the broker's session hangs on it.
    pub client_id: String,
    /// User name.
    pub username: Option<String>,
    /// File that holds the password; read again on every connect.
    pub password_file: Option<PathBuf>,
    /// MQTT keep-alive, at least 5 s. Above the longest stall of the engine.
    pub keep_alive: Span,
}

/// TLS of one connection. Files are PEM and are read again on every connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSpec {
    /// Certificates that are trusted.
    pub ca_file: PathBuf,
    /// Our certificate chain and key, for mutual TLS.
    pub client: Option<ClientCert>,
}

/// A client certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCert {
    /// Certificate chain.
    pub cert_file: PathBuf,
    /// Private key.
    pub key_file: PathBuf,
}

/// Durable state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSpec {
    /// Directory; created when missing.
    pub path: PathBuf,
    /// Bytes of the medium that the outbox leaves free.
    pub reserve_bytes: u64,
}
