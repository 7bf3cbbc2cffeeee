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
use crate::engine::step::Clock;
use crate::model::time::WallTime;

use super::certificate::not_after;
use super::server::Server;

/// When a file was changed, and its length.
type Stamp = Option<(SystemTime, u64)>;

/// A certificate that ends within this time is told of.
const ENDS_SOON_MS: i64 = 14 * 86_400_000;

/// Certificates, as they were last.
pub(super) struct ServerTls {
    spec: ServerTlsSpec,
    /// The socket, as it is shown.
    socket: Arc<str>,
    server: Arc<Server>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The files that were looked at last, and what is wrong with them; empty: nothing.
    stamps: Vec<Stamp>,
    problem: String,
    good: Option<Good>,
}

struct Good {
    config: Arc<ServerConfig>,
    /// When our certificate ends.
    ends: Option<WallTime>,
}

impl ServerTls {
    pub(super) fn new(spec: ServerTlsSpec, socket: Arc<str>, server: Arc<Server>) -> ServerTls {
        ServerTls { spec, socket, server, state: Mutex::default() }
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// No usable files, or the client and we do not agree.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.config()?;
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Tells what is wrong with the files, and with the certificate's dates.
    pub(super) fn look(&self) {
        let _ = self.config();
    }

    fn config(&self) -> io::Result<Arc<ServerConfig>> {
        let stamps = self.stamps();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.stamps != stamps || state.stamps.is_empty() {
            state.stamps = stamps;
            state.problem.clear();
            match load(&self.spec) {
                Ok(good) => state.good = Some(good),
                // The ones before go on being used.
                Err(problem) => state.problem = format!("its TLS files cannot be used: {problem}"),
            }
        }
        let notice = match &state.good {
            Some(Good { ends: Some(ends), .. }) if state.problem.is_empty() => self.ending(*ends),
            _ => state.problem.clone(),
        };
        if self.server.facts.set_notice(&self.socket, &notice) && !notice.is_empty() {
            warn!(socket = %self.socket, "{notice}");
        }
        match &state.good {
            Some(good) => Ok(Arc::clone(&good.config)),
            None => Err(io::Error::other(notice)),
        }
    }

    /// Empty: not soon, as far as the clock knows. One that was never set is behind.
    fn ending(&self, ends: WallTime) -> String {
        let left = ends.as_millis() - self.server.clock.now().wall.as_millis();
        if left > ENDS_SOON_MS {
            return String::new();
        }
        let file = self.spec.cert_file.display();
        match left {
            ..=0 => format!("the certificate in {file} has expired: no client will trust it"),
            _ => format!("the certificate in {file} expires in {} h", left / 3_600_000),
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

fn load(spec: &ServerTlsSpec) -> io::Result<Good> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&spec.cert_file)?;
    let ends = chain.first().and_then(|certificate| not_after(certificate));
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
    Ok(Good { config: Arc::new(config), ends })
}

fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| wrong(path, &error))?;
    if found.is_empty() { Err(wrong(path, &"no certificate in it")) } else { Ok(found) }
}

fn wrong(path: &Path, problem: &dyn core::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {problem}", path.display()))
}
