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
use rustls::{AlertDescription, ClientConfig, RootCertStore};
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

/// Whose certificate is not accepted, and why. In the words of the configuration file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CertificateError {
    /// None of those that are trusted has signed it.
    #[error("the broker's certificate is not from an authority in `ca_file`")]
    UnknownIssuer,
    /// It is of somebody else.
    #[error("the broker's certificate is not for {0}: see `server_name`")]
    NotForName(String),
    /// Whatever else is wrong with it, for a person.
    #[error("the broker's certificate {0}")]
    Unusable(String),
    /// The broker does not take ours, or wants one: its alert.
    #[error("the broker does not accept our certificate, or wants one: its alert is {0}")]
    Ours(String),
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
    if let Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) = inner {
        return LinkError::Broken("no TLS is spoken there: a port for plain MQTT (mqtt, mostly 1883)?".into());
    }
    let Some(rustls::Error::InvalidCertificate(reason)) = inner else { return LinkError::of_io(error) };
    LinkError::Certificate(match reason {
        rustls::CertificateError::NotValidYet | rustls::CertificateError::NotValidYetContext { .. } => {
            CertificateError::Unusable("is not valid yet: is the gateway's clock right?".into())
        }
        rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => {
            CertificateError::Unusable("has expired, or the gateway's clock is ahead".into())
        }
        rustls::CertificateError::NotValidForName | rustls::CertificateError::NotValidForNameContext { .. } => {
            CertificateError::NotForName(name.to_owned())
        }
        rustls::CertificateError::UnknownIssuer => CertificateError::UnknownIssuer,
        other => CertificateError::Unusable(plain(other)),
    })
}

/// What is wrong with a certificate, where the library's own word for it says little. Fits behind "its
/// certificate".
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's errors; only some get words of their own")]
pub fn plain(reason: &rustls::CertificateError) -> String {
    let shown = format!("{reason:?}");
    match reason {
        rustls::CertificateError::UnknownIssuer => "is not from an authority that is trusted".into(),
        rustls::CertificateError::Expired | rustls::CertificateError::ExpiredContext { .. } => "has expired".into(),
        rustls::CertificateError::NotValidYet | rustls::CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".into()
        }
        rustls::CertificateError::InvalidPurpose | rustls::CertificateError::InvalidPurposeContext { .. } => {
            "is for another use (its extendedKeyUsage)".into()
        }
        // Errors of the verifying library come through as they are.
        _ if shown.contains("UnsupportedCertVersion") => "is of X.509 version 1; version 3 is needed".into(),
        _ if shown.contains("CaUsedAsEndEntity") => {
            "is that of an authority (CA:TRUE); one that an authority has signed is needed".into()
        }
        _ => format!("is not accepted: {shown}"),
    }
}

/// What is wrong with a client that fails the handshake, for the log of the server.
pub fn handshake_problem(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(reason)) => format!("its certificate {}", plain(reason)),
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            "not TLS: plain MQTT at a TLS port?".into()
        }
        Some(rustls::Error::NoCertificatesPresented) => "it shows no certificate, and one is required".into(),
        Some(rustls::Error::AlertReceived(AlertDescription::UnknownCA)) => {
            "it does not trust our certificate: it says UnknownCA".into()
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("it says {alert:?}"),
        _ => error.to_string(),
    }
}

/// The alert by which the other side says that our certificate is of no use to it.
pub fn refused_certificate(error: &std::io::Error) -> Option<CertificateError> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::AlertReceived(alert)) = inner else { return None };
    let about_ours = matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::NoCertificate
    );
    about_ours.then(|| CertificateError::Ours(format!("{alert:?}")))
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

    /// As the verifying library's errors come: with a name, behind a trait.
    struct Odd(&'static str);

    impl core::fmt::Debug for Odd {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl core::fmt::Display for Odd {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Odd {}

    #[test]
    fn a_client_s_handshake_that_fails_is_told_in_plain_words() {
        let told = |error: rustls::Error| handshake_problem(&std::io::Error::other(error));
        let invalid = |error: rustls::CertificateError| told(rustls::Error::InvalidCertificate(error));
        let other = |name: &'static str| rustls::CertificateError::Other(rustls::OtherError(Arc::new(Odd(name))));
        assert_eq!(
            invalid(other("UnsupportedCertVersion")),
            "its certificate is of X.509 version 1; version 3 is needed"
        );
        assert!(invalid(other("CaUsedAsEndEntity")).starts_with("its certificate is that of an authority"));
        assert_eq!(
            told(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)),
            "not TLS: plain MQTT at a TLS port?"
        );
        assert_eq!(told(rustls::Error::NoCertificatesPresented), "it shows no certificate, and one is required");
        assert_eq!(handshake_problem(&std::io::Error::other("gone")), "gone");
    }

    #[test]
    fn an_odd_certificate_is_told_in_plain_words() {
        let told = |reason: rustls::CertificateError| {
            let error = std::io::Error::other(rustls::Error::InvalidCertificate(reason));
            let verdict = verdict(&error, "broker.example");
            assert!(verdict.is_permanent());
            verdict.to_string()
        };
        let other = |name: &'static str| rustls::CertificateError::Other(rustls::OtherError(Arc::new(Odd(name))));
        assert!(told(other("UnsupportedCertVersion")).contains("X.509 version 1; version 3 is needed"));
        assert!(told(other("CaUsedAsEndEntity")).contains("an authority (CA:TRUE)"));
        assert!(told(rustls::CertificateError::UnknownIssuer).contains("`ca_file`"));
        assert!(told(rustls::CertificateError::NotValidForName).contains("is not for broker.example"));
        let alert = std::io::Error::other(rustls::Error::AlertReceived(AlertDescription::CertificateRequired));
        assert!(LinkError::of_io(&alert).to_string().contains("wants one"));
        let alert = std::io::Error::other(rustls::Error::AlertReceived(AlertDescription::InternalError));
        assert!(!LinkError::of_io(&alert).is_permanent());
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
