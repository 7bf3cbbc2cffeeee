//! TLS of a connection, from PEM files that are read on every connect: a
//! rotated certificate is used at the next connection without a restart.
//!
//! rustls with ring, chosen explicitly (no process-wide default), trusting the
//! configured authorities alone. An expired certificate is an error of that
//! attempt; the next attempt reads the files again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{ClientConfig, RootCertStore};

use crate::config::boot::TlsSpec;

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

/// Builds the client side from the files.
///
/// # Errors
/// [`TlsError`], naming the file.
pub fn client_config(spec: &TlsSpec) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has a cipher suite for every default protocol version")
        .with_root_certificates(authorities(&spec.ca_file)?);
    let Some(client) = &spec.client else {
        return Ok(Arc::new(builder.with_no_client_auth()));
    };
    let chain = certificates(&client.cert_file)?;
    let key = PrivateKeyDer::from_pem_file(&client.key_file)
        .map_err(|error| file_error(&client.key_file, &error, "a private key"))?;
    let config = builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| TlsError::Pair { path: client.cert_file.clone(), problem: error.to_string() })?;
    Ok(Arc::new(config))
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(path)? {
        store.add(certificate).map_err(|error| TlsError::File {
            path: path.to_owned(),
            problem: format!("not usable as a CA: {error}"),
        })?;
    }
    Ok(store)
}

/// At least one certificate.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |error: &pem::Error| file_error(path, error, "a certificate");
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|error| read(&error))?.collect();
    let found = found.map_err(|error| read(&error))?;
    if found.is_empty() { Err(read(&pem::Error::NoItemsFound)) } else { Ok(found) }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors; only some get words of their own")]
fn file_error(path: &Path, error: &pem::Error, wanted: &str) -> TlsError {
    let problem = match error {
        pem::Error::NoItemsFound => format!("holds no PEM section with {wanted}"),
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        other => format!("is not valid PEM: {other}"),
    };
    TlsError::File { path: path.to_owned(), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_what_is_wrong() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let spec = |name: &str| TlsSpec { ca_file: dir.path().join(name), client: None };
        let problem = |name: &str| client_config(&spec(name)).expect_err("unusable").to_string();

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
