//! The way to the cloud's broker through an HTTP proxy.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use tidegate::config::boot::{BrokerSpec, Credential, ProxySpec, Secret};

use crate::broker::Broker;
use crate::broker::needs::{Need, has};
use crate::task::{Task, broker_spec};
use crate::tls::{publishes, secured, spec};

/// What the proxy says to each CONNECT.
#[derive(Clone)]
enum Says {
    /// 200, and everything goes through.
    Yes,
    /// This, and the connection ends.
    No(&'static str),
    /// Nothing, for ever.
    Nothing,
}

/// An HTTP proxy; its threads end with the test program.
struct HttpProxy {
    port: u16,
    says: Arc<Mutex<Says>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl HttpProxy {
    fn start(says: Says) -> HttpProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let port = listener.local_addr().expect("an address").port();
        let (says, requests) = (Arc::new(Mutex::new(says)), Arc::new(Mutex::new(Vec::new())));
        let (answers, seen) = (Arc::clone(&says), Arc::clone(&requests));
        thread::spawn(move || {
            let mut silent = Vec::new();
            for mut client in listener.incoming().map_while(Result::ok) {
                let head = head(&mut client);
                let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
                seen.lock().expect("no panic").push(head);
                let says = answers.lock().expect("no panic").clone();
                match says {
                    Says::Nothing => silent.push(client),
                    Says::No(answer) => drop(client.write_all(answer.as_bytes())),
                    Says::Yes => {
                        let Ok(server) = TcpStream::connect(target) else { continue };
                        client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").expect("written");
                        join(&client, &server);
                    }
                }
            }
        });
        HttpProxy { port, says, requests }
    }

    fn spec(&self, login: Option<(&str, Credential)>) -> ProxySpec {
        let login = login.map(|(user, password)| (Secret(user.into()), password));
        ProxySpec { host: "127.0.0.1".into(), port: self.port, login }
    }

    fn says(&self, says: Says) {
        *self.says.lock().expect("no panic") = says;
    }

    fn last_request(&self) -> String {
        self.requests.lock().expect("no panic").last().cloned().unwrap_or_default()
    }
}

fn head(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|len| len == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("UTF-8")
}

fn join(client: &TcpStream, server: &TcpStream) {
    for (from, to) in [(client, server), (server, client)] {
        let (mut from, mut to) = (from.try_clone().expect("cloned"), to.try_clone().expect("cloned"));
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

fn through(broker: BrokerSpec, proxy: ProxySpec) -> BrokerSpec {
    BrokerSpec { proxy: Some(proxy), ..broker }
}

#[test]
fn batches_go_through_a_proxy_that_knows_us() {
    let broker = Broker::start(&[]);
    let proxy = HttpProxy::start(Says::Yes);
    let login = ("gw 7", Credential::Text(Secret("p:w".into())));
    publishes(&Task::uplink(through(broker_spec(broker.port, "gw"), proxy.spec(Some(login)))));
    let request = proxy.last_request();
    assert!(request.starts_with(&format!("CONNECT 127.0.0.1:{} HTTP/1.1\r\n", broker.port)), "{request}");
    assert!(request.contains(&format!("Host: 127.0.0.1:{}\r\n", broker.port)), "{request}");
    assert!(request.contains("Proxy-Authorization: Basic Z3cgNzpwOnc=\r\n"), "{request}");
}

#[test]
fn tls_and_client_certificates_go_through_it_too() {
    if !has(&[Need::Mosquitto, Need::Openssl]) {
        return;
    }
    let (_broker, port, files) = secured();
    let proxy = HttpProxy::start(Says::Yes);
    publishes(&Task::uplink(through(spec(port, &files, "ca.crt", Some("gateway")), proxy.spec(None))));
    assert!(!proxy.last_request().contains("Authorization"));
}

#[test]
fn whatever_a_proxy_answers_is_told_in_words_and_no_credential_is() {
    let broker = Broker::start(&[]);
    let proxy = HttpProxy::start(Says::No(""));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("proxy-password");
    fs::write(&file, "hunter2\n").expect("written");
    let login = Some(("gw", Credential::File(file.clone())));
    for (answer, login, words) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", None, "wants a user name and password (407)"),
        ("HTTP/1.1 407 hunter2\r\n\r\n", login.clone(), "does not accept the user name and password (407)"),
        ("HTTP/1.1 403 Forbidden\r\nServer: x\r\n\r\n<html>hunter2", login.clone(), "does not allow connections to"),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\n", login.clone(), "does not reach"),
        ("HTTP/1.1 301 Moved\r\nLocation: /\r\n\r\n", login.clone(), "with status 301"),
        ("SSH-2.0-OpenSSH\r\n\r\n", login.clone(), "no HTTP"),
        ("HTTP/1.1 200", login.clone(), "closed the connection without an answer"),
    ] {
        proxy.says(Says::No(answer));
        let reason = Task::uplink(through(broker_spec(broker.port, "gw"), proxy.spec(login))).down();
        assert!(reason.contains("the proxy 127.0.0.1:") && reason.contains(words), "{reason}");
        assert!(!reason.contains("hunter2") && !reason.contains("aHVudGVyMg"), "{reason}");
    }
    let endless: &'static str = Box::leak(format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(20_000)).into_boxed_str());
    proxy.says(Says::No(endless));
    let task = Task::uplink(through(broker_spec(broker.port, "gw"), proxy.spec(login)));
    assert!(task.down().contains("no HTTP"));
    // The file is read at every connect.
    fs::remove_file(&file).expect("removed");
    while !task.down().contains("proxy-password: ") {}
    fs::write(&file, "hunter3\n").expect("written");
    proxy.says(Says::Yes);
    publishes(&task);
    assert!(proxy.last_request().contains("Z3c6aHVudGVyMw=="), "{}", proxy.last_request());
}

#[test]
fn a_proxy_that_is_silent_or_not_there_is_named() {
    let proxy = HttpProxy::start(Says::Nothing);
    let reason = Task::uplink(through(broker_spec(1, "gw"), proxy.spec(None))).down();
    assert_eq!(reason, format!("no answer from the proxy 127.0.0.1:{} within 10 s", proxy.port));
    let nobody = ProxySpec { port: crate::broker::free_port(), ..proxy.spec(None) };
    let port = nobody.port;
    let reason = Task::uplink(through(broker_spec(1, "gw"), nobody)).down();
    assert!(reason.starts_with(&format!("no connection to the proxy 127.0.0.1:{port}: ")), "{reason}");
}

#[test]
fn an_ipv6_address_stands_in_brackets() {
    let proxy = HttpProxy::start(Says::No("HTTP/1.1 403 Forbidden\r\n\r\n"));
    let broker = BrokerSpec { host: "fd00::7".into(), ..broker_spec(8883, "gw") };
    let reason = Task::uplink(through(broker, proxy.spec(None))).down();
    assert!(reason.contains("does not allow connections to [fd00::7]:8883"), "{reason}");
    assert!(proxy.last_request().starts_with("CONNECT [fd00::7]:8883 HTTP/1.1\r\nHost: [fd00::7]:8883\r\n"));
}
