//! The server's side of TLS. Files are looked at on each connection and read again when they
//! have changed, so that a renewed certificate needs no restart; files that cannot be used are
//! told, and the ones before go on being used.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;

use crate::config::boot::ServerTlsSpec;

/// When a file was changed, and its length.
type Stamp = Option<(SystemTime, u64)>;

/// Certificates, as they were last.
pub(super) struct ServerTls {
    spec: ServerTlsSpec,
    good: Mutex<Option<(Vec<Stamp>, Arc<ServerConfig>)>>,
}

impl ServerTls {
    pub(super) fn new(spec: ServerTlsSpec) -> ServerTls {
        ServerTls { spec, good: Mutex::new(None) }
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// No usable files, or the client and we do not agree.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config()?;
        TlsAcceptor::from(config).accept(stream).await
    }

    fn config(&self) -> io::Result<Arc<ServerConfig>> {
        let stamps = self.stamps();
        let mut good = self.good.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, config)) = good.as_ref().filter(|(known, _)| *known == stamps) {
            let _ = known;
            return Ok(Arc::clone(config));
        }
        match server_config(&self.spec) {
            Ok(config) => {
                let config = Arc::new(config);
                *good = Some((stamps, Arc::clone(&config)));
                Ok(config)
            }
            Err(problem) => {
                warn!(%problem, "the TLS files of the listener cannot be used");
                match good.as_mut() {
                    Some((known, config)) => {
                        // Told once, until they change again.
                        *known = stamps;
                        Ok(Arc::clone(config))
                    }
                    None => Err(problem),
                }
            }
        }
    }

    fn stamps(&self) -> Vec<Stamp> {
        let ServerTlsSpec { cert_file, key_file, client_ca_file, .. } = &self.spec;
        [Some(cert_file), Some(key_file), client_ca_file.as_ref()].into_iter().flatten().map(stamp).collect()
    }
}

fn stamp(path: &PathBuf) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn server_config(spec: &ServerTlsSpec) -> io::Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&spec.cert_file)?;
    let key = PrivateKeyDer::from_pem_file(&spec.key_file).map_err(|error| wrong(&spec.key_file, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match &spec.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if spec.client_cert_required { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(path, &error))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| wrong(&spec.cert_file, &error))?;
    config.alpn_protocols = vec![b"mqtt".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| wrong(path, &error))?;
    if found.is_empty() { Err(wrong(path, &"no certificate in it")) } else { Ok(found) }
}

fn wrong(path: &Path, problem: &dyn core::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {problem}", path.display()))
}
