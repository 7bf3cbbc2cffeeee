//! Certificates of a test, made by `openssl`.

use std::fs;
use std::path::Path;
use std::process::Command;

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .current_dir(dir)
        .args(arguments.split_whitespace())
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority `NAME.crt` / `NAME.key`.
pub(crate) fn authority(dir: &Path, name: &str) {
    openssl(
        dir,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} \
             -keyout {name}.key -out {name}.crt"
        ),
    );
}

/// `NAME.crt` / `NAME.key`, signed by `authority`, good for 127.0.0.1 and broker.example.
pub(crate) fn certificate(dir: &Path, authority: &str, name: &str) {
    openssl(
        dir,
        &format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ),
    );
    fs::write(dir.join("san.ext"), "subjectAltName=IP:127.0.0.1,DNS:broker.example\n").expect("written");
    openssl(
        dir,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 2 \
             -extfile san.ext -out {name}.crt"
        ),
    );
}

/// `NAME.crt` / `NAME.key`, signed by `authority`, good from 2090 on: what any certificate is
/// to a machine whose clock has not been set.
pub(crate) fn certificate_of_the_future(dir: &Path, authority: &str, name: &str) {
    certificate(dir, authority, name);
    let settings = "[ca]\ndefault_ca=d\n[d]\ndatabase=db\nnew_certs_dir=.\nserial=ser\npolicy=p\ndefault_md=sha256\n[p]\n\
                    commonName=supplied\n";
    fs::write(dir.join("ca.cnf"), settings).expect("written");
    fs::write(dir.join("db"), "").expect("written");
    openssl(
        dir,
        &format!(
            "ca -batch -config ca.cnf -cert {authority}.crt -keyfile {authority}.key -rand_serial -startdate \
             20900101000000Z -enddate 20910101000000Z -extfile san.ext -in {name}.csr -notext -out {name}.crt"
        ),
    );
}

/// `NAME.crt` / `NAME.key`, signed by `authority`, that was good until yesterday.
pub(crate) fn expired_certificate(dir: &Path, authority: &str, name: &str) {
    certificate(dir, authority, name);
    openssl(
        dir,
        &format!(
            "x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days -1 \
             -extfile san.ext -out {name}.crt"
        ),
    );
}
