//! TLS of a connection, from PEM files that are read on every connect: a
//! rotated certificate is used at the next connection without a restart.
//!
//! rustls with ring, chosen explicitly (no process-wide default), trusting the
//! configured authorities alone. Files that have not changed keep their configuration, and
//! with it the tickets by which a broker resumes TLS with less traffic. **Files that cannot
//! be used** (half written, a key that is not the certificate's) are reported, and the last
//! ones that could be go on being used: a rotation that went wrong does not cost the data
//! path. An expired certificate is an error of that attempt; the next attempt reads the
//! files again.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tracing::{debug, warn};

use crate::config::boot::{TlsSpec, Trust};

use super::connection::LinkError;

/// Where Linux distributions keep the authorities that they trust; the first one that is there.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Bytes of a PEM file: ten times the largest bundle.
const PEM_BYTES_MAX: u64 = 4 * 1_024 * 1_024;

/// Why the files cannot be used. Says which file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Missing, not readable, or not PEM.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, for a person.
        problem: String,
    },
    /// The files are readable and do not fit together.
    #[error("the client certificate {} and its key do not fit: {problem}", path.display())]
    Pair {
        /// The certificate.
        path: PathBuf,
        /// What rustls says.
        problem: String,
    },
}

/// The files of one connection, as they were last.
#[derive(Default)]
pub struct TlsFiles {
    good: Option<Good>,
    reported: String,
}

/// What the last usable files made.
struct Good {
    fingerprint: Vec<(usize, u32)>,
    config: Arc<ClientConfig>,
}

/// What the files hold.
struct Contents {
    authorities: (PathBuf, Vec<u8>),
    client: Option<[(PathBuf, Vec<u8>); 2]>,
}

impl TlsFiles {
    /// The client side, from the files as they are, or as they were when they could be used.
    ///
    /// # Errors
    /// [`TlsError`], naming the file: they could never be used since the start.
    pub fn config(&mut self, spec: &TlsSpec) -> Result<Arc<ClientConfig>, TlsError> {
        let problem = match self.read(spec) {
            Ok(config) => {
                self.reported.clear();
                return Ok(config);
            }
            Err(problem) => problem,
        };
        let Some(good) = &self.good else { return Err(problem) };
        let shown = problem.to_string();
        if shown != self.reported {
            warn!(problem = %shown, "the new TLS files cannot be used: going on with the ones before");
            self.reported = shown;
        }
        Ok(Arc::clone(&good.config))
    }

    /// Why the files as they are now cannot be used; empty: they can.
    pub fn problem(&self) -> &str {
        &self.reported
    }

    fn read(&mut self, spec: &TlsSpec) -> Result<Arc<ClientConfig>, TlsError> {
        let contents = Contents::read(spec)?;
        let fingerprint = contents.fingerprint();
        if let Some(good) = self.good.as_ref().filter(|good| good.fingerprint == fingerprint) {
            return Ok(Arc::clone(&good.config));
        }
        let config = Arc::new(client_config(spec, &contents)?);
        self.good = Some(Good { fingerprint, config: Arc::clone(&config) });
        Ok(config)
    }
}

impl Contents {
    fn read(spec: &TlsSpec) -> Result<Contents, TlsError> {
        let authorities = match &spec.trust {
            Trust::File(path) => bytes_of(path.clone())?,
            Trust::System => bytes_of(system_bundle())?,
        };
        let client = spec
            .client
            .as_ref()
            .map(|client| Ok([bytes_of(client.cert_file.clone())?, bytes_of(client.key_file.clone())?]));
        Ok(Contents { authorities, client: client.transpose()? })
    }

    /// Tells these contents from others: it decides whether they are read again, not whom to trust.
    fn fingerprint(&self) -> Vec<(usize, u32)> {
        let files = std::iter::once(&self.authorities).chain(self.client.iter().flatten());
        files.map(|(_, bytes)| (bytes.len(), crc32fast::hash(bytes))).collect()
    }
}

fn system_bundle() -> PathBuf {
    let found = SYSTEM_BUNDLES.iter().find(|path| Path::new(path).exists());
    PathBuf::from(found.unwrap_or(&SYSTEM_BUNDLES[0]))
}

fn bytes_of(path: PathBuf) -> Result<(PathBuf, Vec<u8>), TlsError> {
    let mut bytes = Vec::new();
    match File::open(&path).and_then(|file| file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes)) {
        Ok(len) if len as u64 > PEM_BYTES_MAX => {
            Err(TlsError::File { path, problem: format!("has more than {PEM_BYTES_MAX} bytes") })
        }
        Ok(_len) => Ok((path, bytes)),
        Err(error) => Err(TlsError::File { path, problem: format!("cannot be read: {error}") }),
    }
}

fn client_config(spec: &TlsSpec, contents: &Contents) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has a cipher suite for every default protocol version")
        .with_root_certificates(authorities(&contents.authorities)?);
    let mut config = match &contents.client {
        None => builder.with_no_client_auth(),
        Some([cert, (key_path, key)]) => {
            let chain = certificates(cert)?;
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|error| file_error(key_path, &error, "a private key"))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| TlsError::Pair { path: cert.0.clone(), problem: error.to_string() })?
        }
    };
    config.alpn_protocols = spec.alpn.iter().map(|name| name.clone().into_bytes()).collect();
    Ok(config)
}

/// Those of a bundle that can be used: a single odd one does not cost the others.
fn authorities(file: &(PathBuf, Vec<u8>)) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let mut problem = String::new();
    for certificate in certificates(file)? {
        if let Err(error) = store.add(certificate) {
            debug!(path = %file.0.display(), %error, "a certificate is not usable as a CA");
            problem = error.to_string();
        }
    }
    if store.is_empty() {
        return Err(TlsError::File { path: file.0.clone(), problem: format!("not usable as a CA: {problem}") });
    }
    Ok(store)
}

/// At least one certificate.
fn certificates((path, bytes): &(PathBuf, Vec<u8>)) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |error: &pem::Error| file_error(path, error, "a certificate");
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| read(&error))?;
    if found.is_empty() { Err(read(&pem::Error::NoItemsFound)) } else { Ok(found) }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors; only some get words of their own")]
fn file_error(path: &Path, error: &pem::Error, wanted: &str) -> TlsError {
    let problem = match error {
        pem::Error::NoItemsFound => format!("holds no PEM section with {wanted}"),
        other => format!("is not valid PEM: {other}"),
    };
    TlsError::File { path: path.to_owned(), problem }
}

/// What an I/O error of a TLS connection says, in words that lead to the cause. `name` is
/// what the certificate should be for.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors; only some get words of their own")]
pub fn verdict(error: &std::io::Error, name: &str) -> LinkError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(reason)) = inner else { return LinkError::of_io(error) };
    LinkError::Broken(match reason {
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the broker's certificate is not valid yet: is the gateway's clock right?".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the broker's certificate has expired, or the gateway's clock is ahead".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("the broker's certificate is not for {name}: see `server_name`")
        }
        CertificateError::UnknownIssuer => "the broker's certificate is not from an authority in `ca_file`".into(),
        other => format!("the broker's certificate is not accepted: {other:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_of_the_system_is_used_or_named() {
        let spec = TlsSpec { trust: Trust::System, client: None, server_name: None, alpn: vec!["mqtt".into()] };
        match TlsFiles::default().config(&spec) {
            Ok(config) => assert_eq!(config.alpn_protocols, [b"mqtt"]),
            Err(error) => assert!(error.to_string().starts_with(SYSTEM_BUNDLES[0]), "{error}"),
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_what_is_wrong() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let spec = |name: &str| TlsSpec {
            trust: Trust::File(dir.path().join(name)),
            client: None,
            server_name: None,
            alpn: Vec::new(),
        };
        let problem = |name: &str| TlsFiles::default().config(&spec(name)).expect_err("unusable").to_string();

        assert!(problem("missing.pem").contains("missing.pem: cannot be read"), "{}", problem("missing.pem"));
        std::fs::write(dir.path().join("empty.pem"), "not pem at all\n").expect("written");
        assert!(problem("empty.pem").contains("holds no PEM section with a certificate"), "{}", problem("empty.pem"));
        std::fs::write(dir.path().join("bad.pem"), "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n")
            .expect("written");
        assert!(problem("bad.pem").contains("is not valid PEM"), "{}", problem("bad.pem"));
        std::fs::write(dir.path().join("der.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
            .expect("written");
        assert!(problem("der.pem").contains("not usable as a CA"), "{}", problem("der.pem"));
    }
}
