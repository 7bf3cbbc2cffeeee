//! TLS and mutual TLS against mosquitto, with certificates made by `openssl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate::agent::inbox::Outbound;
use tidegate::config::boot::{BrokerSpec, ClientCert, TlsSpec};
use tidegate::engine::step::{Batch, BatchId};

use crate::broker::{Broker, free_port};
use crate::task::{Task, broker_spec};

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .current_dir(dir)
        .args(arguments.split_whitespace())
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority `NAME.crt` / `NAME.key`.
fn authority(dir: &Path, name: &str) {
    openssl(
        dir,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -keyout {name}.key -out {name}.crt"
        ),
    );
}

/// `NAME.crt` / `NAME.key`, signed by `authority`, good for 127.0.0.1.
fn certificate(dir: &Path, authority: &str, name: &str) {
    openssl(
        dir,
        &format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ),
    );
    fs::write(dir.join("san.ext"), "subjectAltName=IP:127.0.0.1,DNS:localhost\n").expect("written");
    openssl(
        dir,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 2 \
             -extfile san.ext -out {name}.crt"
        ),
    );
}

/// A broker with a plain and a TLS listener; the latter wants client certificates.
fn secured() -> (Broker, u16, PathBuf) {
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

fn spec(port: u16, files: &Path, ca: &str, client: Option<&str>) -> BrokerSpec {
    let tls = TlsSpec {
        ca_file: files.join(ca),
        client: client.map(|name| ClientCert {
            cert_file: files.join(format!("{name}.crt")),
            key_file: files.join(format!("{name}.key")),
        }),
    };
    BrokerSpec { tls: Some(tls), ..broker_spec(port, "gw-tls") }
}

fn publishes(task: &Task) {
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
    let (broker, port, files) = secured();
    publishes(&Task::uplink(spec(port, &files, "ca.crt", Some("gateway"))));
    assert!(broker.log().contains("'gateway'") || broker.log().contains("u'gateway'"), "{}", broker.log());
}

#[test]
fn whoever_cannot_prove_who_it_is_gets_no_connection() {
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
fn a_password_is_read_from_its_file_on_every_connect() {
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
    let broker = Broker::start_in(dir, &["allow_anonymous false", "password_file {dir}/passwd"]);
    let spec = BrokerSpec {
        username: Some("gateway".into()),
        password_file: Some(file.clone()),
        ..broker_spec(broker.port, "gw-password")
    };
    let task = Task::uplink(spec);
    assert!(task.down().contains("not authorised"), "mosquitto's return code 5");
    fs::write(&file, "right\n").expect("written");
    publishes(&task);
}
