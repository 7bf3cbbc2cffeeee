//! TLS and mutual TLS against mosquitto, with certificates made by `openssl`.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use tidegate::agent::inbox::Outbound;
use tidegate::config::boot::{BrokerSpec, ClientCert, Credential, TlsSpec, Trust};
use tidegate::engine::step::{Batch, BatchId};

use crate::broker::needs::{Need, has};
use crate::broker::{Broker, free_port};
use crate::certificates::{authority, certificate, certificate_of_the_future, expired_certificate};
use crate::task::{Task, broker_spec};

/// A broker with a plain and a TLS listener; the latter wants client certificates.
pub(crate) fn secured() -> (Broker, u16, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    authority(dir.path(), "ca");
    authority(dir.path(), "stranger");
    certificate(dir.path(), "ca", "server");
    certificate(dir.path(), "ca", "gateway");
    certificate(dir.path(), "stranger", "impostor");
    let port = free_port();
    let listener = format!("listener {port} 127.0.0.1");
    let broker = Broker::start_in(
        dir,
        &[
            &listener,
            "cafile {dir}/ca.crt",
            "certfile {dir}/server.crt",
            "keyfile {dir}/server.key",
            "require_certificate true",
            "use_identity_as_username true",
        ],
    );
    let files = broker.dir().to_owned();
    (broker, port, files)
}

pub(crate) fn spec(port: u16, files: &Path, ca: &str, client: Option<&str>) -> BrokerSpec {
    let tls = TlsSpec {
        trust: Trust::File(files.join(ca)),
        client: client.map(|name| ClientCert {
            cert_file: files.join(format!("{name}.crt")),
            key_file: files.join(format!("{name}.key")),
        }),
        server_name: None,
        alpn: Vec::new(),
    };
    BrokerSpec { tls: Some(tls), ..broker_spec(port, "gw-tls") }
}

pub(crate) fn publishes(task: &Task) {
    let outbound = task.uplink_up();
    let batch = Batch::new(BatchId(7), "t", "x");
    outbound.try_send(Outbound::Batch(batch)).expect("connected");
    assert_eq!(task.acked(), BatchId(7));
}

/// The reason of the first attempt that fails. With TLS 1.3 the broker's verdict
/// on our certificate may come only after the handshake.
fn refusal(spec: BrokerSpec) -> String {
    Task::uplink(spec).down()
}

#[test]
fn both_sides_show_a_certificate_and_batches_flow() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (broker, port, files) = secured();
    publishes(&Task::uplink(spec(port, &files, "ca.crt", Some("gateway"))));
    assert!(broker.log().contains("'gateway'") || broker.log().contains("u'gateway'"), "{}", broker.log());
}

#[test]
fn an_odd_certificate_in_a_bundle_does_not_cost_the_others() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (_broker, port, files) = secured();
    let mut bundle = fs::read_to_string(files.join("stranger.crt")).expect("read");
    bundle.push_str("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    bundle.push_str(&fs::read_to_string(files.join("ca.crt")).expect("read"));
    fs::write(files.join("bundle.crt"), bundle).expect("written");
    publishes(&Task::uplink(spec(port, &files, "bundle.crt", Some("gateway"))));
}

#[test]
fn whoever_cannot_prove_who_it_is_gets_no_connection() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (_broker, port, files) = secured();
    let server = refusal(spec(port, &files, "stranger.crt", Some("gateway")));
    assert!(server.contains("certificate"), "an unknown server: {server}");
    let impostor = refusal(spec(port, &files, "ca.crt", Some("impostor")));
    assert!(impostor.contains("alert"), "a certificate of an unknown authority: {impostor}");
    let anonymous = refusal(spec(port, &files, "ca.crt", None));
    assert!(anonymous.contains("alert"), "no certificate: {anonymous}");
    let missing = refusal(spec(port, &files, "nowhere.crt", None));
    assert!(missing.contains("nowhere.crt: cannot be read"), "{missing}");
}

#[test]
fn a_certificate_that_was_replaced_is_used_at_the_next_connection() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (mut broker, port, files) = secured();
    for end in ["crt", "key"] {
        fs::copy(files.join(format!("impostor.{end}")), files.join(format!("mine.{end}"))).expect("copied");
    }
    let task = Task::uplink(spec(port, &files, "ca.crt", Some("mine")));
    assert!(task.down().contains("alert"));
    for end in ["crt", "key"] {
        fs::copy(files.join(format!("gateway.{end}")), files.join(format!("mine.{end}"))).expect("copied");
    }
    publishes(&task);
    broker.restart();
    task.down();
    publishes(&task);
}

#[test]
fn a_name_and_a_password_are_read_from_their_files_on_every_connect() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary directory");
    let passwords = dir.path().join("passwd");
    let made = Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(&passwords)
        .args(["gateway", "right"])
        .output()
        .expect("mosquitto_passwd is installed");
    assert!(made.status.success());
    let file = dir.path().join("secret");
    fs::write(&file, "wrong\n").expect("written");
    let name = dir.path().join("name");
    fs::write(&name, "nobody\n").expect("written");
    let broker = Broker::start_in(dir, &["allow_anonymous false", "password_file {dir}/passwd"]);
    let spec = BrokerSpec {
        username: Some(Credential::File(name.clone())),
        password_file: Some(file.clone()),
        ..broker_spec(broker.port, "gw-password")
    };
    let task = Task::uplink(spec);
    let refused = |task: &Task| assert!(task.down().contains("not authorised"), "mosquitto's return code 5");
    refused(&task);
    fs::write(&file, "right\n").expect("written");
    refused(&task);
    fs::write(&name, "gateway\n").expect("written");
    publishes(&task);
}

fn copy_pair(files: &Path, from: &str, to: &str) {
    for end in ["crt", "key"] {
        fs::copy(files.join(format!("{from}.{end}")), files.join(format!("{to}.{end}"))).expect("copied");
    }
}

/// F88: a rotation needs no restart, and one that goes wrong does not cost the data path.
#[test]
fn f88_the_last_files_that_fit_stay_in_use_until_there_are_new_ones_that_do() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (mut broker, port, files) = secured();
    certificate(&files, "ca", "renewed");
    copy_pair(&files, "gateway", "mine");
    fs::copy(files.join("ca.crt"), files.join("trusted.crt")).expect("copied");
    let task = Task::uplink(spec(port, &files, "trusted.crt", Some("mine")));
    publishes(&task);
    let mut publishes_on_the_next_connection = || {
        broker.restart();
        task.down();
        publishes(&task);
        broker.log()
    };
    fs::copy(files.join("impostor.key"), files.join("mine.key")).expect("copied");
    publishes_on_the_next_connection();
    fs::write(files.join("mine.crt"), "-----BEGIN CERTIFICATE-----\nMIIB").expect("written");
    publishes_on_the_next_connection();
    fs::remove_file(files.join("mine.key")).expect("removed");
    publishes_on_the_next_connection();
    fs::write(files.join("trusted.crt"), "").expect("written");
    assert!(!publishes_on_the_next_connection().contains("'renewed'"));
    // It is told, too; the dropped queue makes for the next connection.
    let notice = task.uplink_notice();
    assert!(notice.contains("those before are: ") && notice.contains("mine.key: cannot be read"), "{notice}");
    fs::copy(files.join("ca.crt"), files.join("trusted.crt")).expect("copied");
    copy_pair(&files, "renewed", "mine");
    let log = publishes_on_the_next_connection();
    assert!(log.contains("'renewed'"), "{log}");
}

/// F90: boot before time. What is wrong is said, nothing crashes, and once the certificate is
/// good (here because it is another one) the connection is made.
#[test]
fn f90_certificates_that_are_not_valid_yet_or_any_more_are_tried_again() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (mut broker, port, files) = secured();
    copy_pair(&files, "server", "good");
    certificate_of_the_future(&files, "ca", "early");
    expired_certificate(&files, "ca", "old");
    copy_pair(&files, "early", "server");
    broker.restart();
    let task = Task::uplink(spec(port, &files, "ca.crt", Some("gateway")));
    let says = |words| (0..1_000).any(|_| task.down().contains(words));
    assert!(says("not valid yet: is the gateway's clock right?"));
    copy_pair(&files, "old", "server");
    broker.restart();
    assert!(says("has expired, or the gateway's clock is ahead"));
    copy_pair(&files, "good", "server");
    broker.restart();
    publishes(&task);
}

/// The server's end of TLS, up to the handshake: what was offered in ALPN and chosen, and the
/// name that was asked for.
fn handshake(files: &Path, listener: &TcpListener, alpn: &[u8]) -> (Option<Vec<u8>>, Option<String>) {
    let chain = CertificateDer::pem_file_iter(files.join("server.crt")).expect("PEM").map(|c| c.expect("PEM"));
    let key = PrivateKeyDer::from_pem_file(files.join("server.key")).expect("PEM");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring")
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .expect("they fit");
    config.alpn_protocols = vec![alpn.to_vec()];
    let mut connection = rustls::ServerConnection::new(Arc::new(config)).expect("valid");
    let (mut stream, _) = listener.accept().expect("a connection comes");
    while connection.is_handshaking() && connection.complete_io(&mut stream).is_ok() {}
    let _ = stream.flush();
    (connection.alpn_protocol().map(<[u8]>::to_vec), connection.server_name().map(str::to_owned))
}

#[test]
fn alpn_offers_what_is_configured_and_the_server_name_need_not_be_the_address() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (_broker, _, files) = secured();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    let port = listener.local_addr().expect("an address").port();
    let mut spec = spec(port, &files, "ca.crt", None);
    let tls = spec.tls.as_mut().expect("TLS");
    tls.alpn = vec!["mqtt".into(), "x-amzn-mqtt-ca".into()];
    tls.server_name = Some("broker.example".into());
    let _task = Task::uplink(spec);
    let seen = handshake(&files, &listener, b"x-amzn-mqtt-ca");
    assert_eq!(seen, (Some(b"x-amzn-mqtt-ca".to_vec()), Some("broker.example".into())));
}

#[test]
fn a_certificate_for_another_name_leads_to_the_setting() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (_broker, port, files) = secured();
    let mut spec = spec(port, &files, "ca.crt", Some("gateway"));
    spec.tls.as_mut().expect("TLS").server_name = Some("other.example".into());
    let reason = refusal(spec);
    assert!(reason.contains("not for other.example: see `server_name`"), "{reason}");
}
