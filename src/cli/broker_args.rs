//! How to log in at a broker, on the command line: what `fleet` and `remote` share.

use std::path::PathBuf;

use crate::config::boot::{BrokerSpec, ClientCert, Credential, Protocol, Secret, TlsSpec, Trust};
use crate::model::time::Span;

use super::broker_url::AnyBrokerUrl;

/// User, password and certificates.
#[derive(Clone, Debug, clap::Args)]
pub struct BrokerArgs {
    /// User name
    #[arg(long, value_name = "NAME", help_heading = "Connection")]
    pub username: Option<String>,

    /// File that holds the password
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub password_file: Option<PathBuf>,

    /// Whom to trust with mqtts:// [default: the system's certificates]
    #[arg(long, value_name = "FILE", help_heading = "Connection")]
    pub ca_file: Option<PathBuf>,

    /// Our certificate for mqtts://
    #[arg(long, value_name = "FILE", requires = "key_file", help_heading = "Connection")]
    pub cert_file: Option<PathBuf>,

    /// The key of our certificate
    #[arg(long, value_name = "FILE", requires = "cert_file", help_heading = "Connection")]
    pub key_file: Option<PathBuf>,
}

impl BrokerArgs {
    /// The broker at `url`, as this client.
    ///
    /// # Errors
    /// When there are certificates and no TLS.
    pub fn spec(
        &self,
        url: &AnyBrokerUrl,
        client_id: String,
        protocol: Protocol,
        keep_alive: Span,
    ) -> anyhow::Result<BrokerSpec> {
        let AnyBrokerUrl { url, tls } = url;
        anyhow::ensure!(
            *tls || (self.ca_file.is_none() && self.cert_file.is_none()),
            "--ca-file and --cert-file are for mqtts://, and the broker is given as mqtt://"
        );
        let client = self.cert_file.clone().zip(self.key_file.clone());
        let tls = tls.then(|| TlsSpec {
            trust: self.ca_file.clone().map_or(Trust::System, Trust::File),
            client: client.map(|(cert_file, key_file)| ClientCert { cert_file, key_file }),
            server_name: None,
            alpn: Vec::new(),
        });
        Ok(BrokerSpec {
            host: url.host.clone(),
            port: url.port,
            tls,
            protocol,
            proxy: None,
            client_id,
            username: self.username.clone().map(|name| Credential::Text(Secret(name))),
            password: None,
            password_file: self.password_file.clone(),
            keep_alive,
        })
    }
}
