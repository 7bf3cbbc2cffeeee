//! Who is let in, and what they may do.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Instant;

use crate::certificates;
use crate::client::{Client, Connect, WAIT_MAX};
use crate::server::{Server, tidegate};
use crate::sockets::{Shared, tls};
use crate::wire::{BOTH, Version};

pub(crate) const ANNA: &str = "anna's password";
pub(crate) const BERT: &str = "bert's password";

/// Reason codes of MQTT 5, and return codes of 3.1.1.
fn code(version: Version, v5: u8, v311: u8) -> u8 {
    if version == Version::V5 { v5 } else { v311 }
}

fn bad_credentials(version: Version) -> u8 {
    code(version, 0x86, 4)
}

fn not_authorized(version: Version) -> u8 {
    code(version, 0x87, 5)
}

/// As `tidegate password set` does it, with the program itself.
fn set_password(dir: &Path, user: &str, password: &str) {
    let done = tidegate(&["password", "set", dir.join("passwords").to_str().unwrap(), user], password);
    assert!(done.status.success(), "{done:?}");
}

/// Anna and Bert, and what else stands in the section; it listens at `addresses`.
fn with_passwords_at(addresses: &[IpAddr], more: &str) -> Server {
    Server::configured(&|dir, port| {
        set_password(dir, "anna", ANNA);
        set_password(dir, "bert", BERT);
        let addresses: Vec<String> = addresses.iter().map(|address| format!("'{address}:{port}'")).collect();
        format!("tcp = [{}]\npassword_file = '{}/passwords'\n{more}", addresses.join(", "), dir.display())
    })
}

pub(crate) fn with_passwords(more: &str) -> Server {
    with_passwords_at(&[Ipv4Addr::LOCALHOST.into()], more)
}

/// An address of this machine that is not its loopback. Nothing is sent to find it, and what
/// is sent to it leaves no machine.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let address = socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9)).and_then(|()| socket.local_addr()).ok();
    let address = address.map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
    if address.is_none() {
        eprintln!("SKIPPED: this machine has no address but its loopback");
    }
    address
}

#[test]
fn with_a_password_file_a_user_is_let_in_and_nobody_else() {
    let server = with_passwords("");
    for version in BOTH {
        let connect = Connect::new(version, "client");
        let answer = |connect: &Connect| connect.ask(&server).1.code;
        assert_eq!(answer(&connect.clone().login("anna", ANNA)), 0, "{version:?}");
        assert_eq!(answer(&connect.clone().login("anna", ANNA)), 0, "{version:?}: as it is known from before");
        for (name, password) in [("anna", BERT), ("anna", ""), ("carl", ANNA)] {
            let refused = answer(&connect.clone().login(name, password));
            assert_eq!(refused, bad_credentials(version), "{version:?} {name} {password}");
        }
        assert_eq!(answer(&connect.clone().user("anna")), bad_credentials(version), "{version:?}: no password");
        assert_eq!(answer(&connect), not_authorized(version), "{version:?}: no name");
    }
    assert_eq!((server.refused("bad_credentials"), server.refused("not_authorized")), (8, 2));
    // It was not let in, and is not served.
    let (mut client, _) = Connect::new(Version::V5, "client").ask(&server);
    assert_eq!(client.ends(), None);
}

#[test]
fn a_rule_is_for_its_users_and_their_names_fill_its_levels() {
    let rules = r##"
        [[listener.rules]]
        user = "bert"
        subscribe = "#"

        [[listener.rules]]
        user = "*"
        publish = ["devices/{username}/#", "by-id/{client_id}"]
        subscribe = ["to/{username}/+", "all"]
        deny = "devices/+/secret"
    "##;
    let server = with_passwords(rules);
    let mut reader = Connect::new(Version::V5, "reader").login("bert", BERT).open(&server);
    reader.subscribe(&[("#", 2)]);
    let mut refused = 0;
    for version in BOTH {
        let mut client = Connect::new(version, "c7").login("anna", ANNA).open(&server);
        for topic in ["devices/anna/x", "devices/anna", "by-id/c7"] {
            for qos in 0..3 {
                assert_eq!(client.publish(qos << 1, topic, "allowed"), 0);
                let message = reader.message();
                assert_eq!((message.topic.as_str(), message.payload.as_str()), (topic, "allowed"), "{version:?}");
                reader.acknowledge(&message);
            }
        }
        for topic in ["devices/bert/x", "devices/anna/secret", "by-id/anna", "other", "$SYS/x"] {
            // 3.1.1 has no word for it: the message is acknowledged, and goes nowhere.
            assert_eq!(client.publish(0x02, topic, "refused"), code(version, 0x87, 0), "{version:?} {topic}");
            client.publish(0x00, topic, "refused");
            refused += 2;
        }
        if version == Version::V311 {
            assert_eq!(client.publish(0x04, "other", "refused"), 0);
            refused += 1;
        }
        // The next packet would be a message, if one had come.
        reader.ping();

        let asked = [("to/anna/+", 1), ("all", 0), ("to/bert/+", 1), ("to/+/x", 1), ("#", 1), ("$share/g/all", 1)];
        assert_eq!(client.subscribe(&asked), [1, 0, 0x80, 0x80, 0x80, 1], "{version:?}");
        client.disconnect();
    }
    assert_eq!(server.refused("publish_not_allowed"), refused);
    assert_eq!(server.refused("subscribe_not_allowed"), 6);
    // Bert's rule comes first for him, and says nothing about publishing.
    assert_eq!(reader.publish(0x02, "devices/bert/x", ""), 0x87);
}

#[test]
fn a_client_whose_will_is_not_allowed_is_not_let_in() {
    let server = with_passwords("[[listener.rules]]\nuser = 'anna'\npublish = 'devices/{username}/#'\n");
    for version in BOTH {
        let connect = Connect::new(version, "client").login("anna", ANNA);
        let ask = |topic: &str| connect.clone().will(topic, "gone", 0, false, &[]).ask(&server).1.code;
        assert_eq!(ask("devices/anna/state"), 0, "{version:?}");
        assert_eq!(ask("devices/bert/state"), not_authorized(version), "{version:?}");
    }
    assert_eq!(server.refused("will_not_allowed"), 2);
}

#[test]
fn without_a_name_only_who_is_on_this_machine_is_let_in() {
    let Some(elsewhere) = own_address() else { return };
    let server = with_passwords_at(&[Ipv4Addr::LOCALHOST.into(), elsewhere], "anonymous = 'loopback'\n");
    for version in BOTH {
        let connect = Connect::new(version, "client");
        let ask = |connect: &Connect, address| connect.ask_over(Client::dial_to(address, &server, version)).1.code;
        assert_eq!(ask(&connect, Ipv4Addr::LOCALHOST.into()), 0, "{version:?}");
        assert_eq!(ask(&connect, elsewhere), not_authorized(version), "{version:?}");
        assert_eq!(ask(&connect.login("anna", ANNA), elsewhere), 0, "{version:?}: with a password");
    }
}

#[test]
fn after_wrong_passwords_an_address_has_to_wait_and_another_one_has_not() {
    let Some(elsewhere) = own_address() else { return };
    let server = with_passwords_at(&[Ipv4Addr::LOCALHOST.into(), elsewhere], "");
    let connect = Connect::new(Version::V5, "client");
    let ask = |connect: &Connect| connect.ask_over(Client::dial_to(elsewhere, &server, Version::V5)).1.code;
    let wrong = connect.clone().login("anna", BERT);
    let mut tries = 0;
    // The wait doubles: on however slow a machine one of them is longer than a hash takes.
    while ask(&wrong) == 0x86 {
        tries += 1;
        assert!(tries < 16, "it never has to wait");
    }
    assert!(tries >= 5, "the first few have no consequence: {tries}");
    assert_eq!(server.refused("bad_credentials"), tries);
    assert!(server.refused("too_many_attempts") >= 1);
    // Not even a right password is looked at now. (Unless the wait is over at this moment, which takes seconds.)
    assert_eq!(Connect::new(Version::V5, "client").login("anna", ANNA).ask(&server).1.code, 0, "from this machine");
    let right = Connect::new(Version::V311, "client").login("anna", ANNA);
    let code = right.ask_over(Client::dial_to(elsewhere, &server, Version::V311)).1.code;
    assert!(matches!(code, 5 | 0), "{code}");
}

#[test]
fn nobody_takes_over_the_session_of_another_user() {
    let server = with_passwords("");
    for version in BOTH {
        let id = format!("same-{version:?}");
        let connect = Connect::new(version, &id).persistent();
        let mut anna = connect.clone().login("anna", ANNA).open(&server);
        anna.subscribe(&[("for/anna", 1)]);
        let mut bert = connect.clone().login("bert", BERT).open(&server);
        assert!(!bert.session_present, "{version:?}: it is another session");
        anna.ping();
        bert.publish(0x02, "for/anna", "hello");
        assert_eq!(anna.message().payload, "hello");
        assert_eq!(bert.drain(), [], "{version:?}: Anna's subscription is not Bert's");
        anna.disconnect();
        assert!(connect.clone().login("anna", ANNA).open(&server).session_present, "{version:?}: it is hers again");
    }
}

#[test]
fn a_password_file_is_read_again_when_it_has_changed() {
    let server = with_passwords("");
    let carl = Connect::new(Version::V5, "client").login("carl", "new");
    assert_eq!(carl.ask(&server).1.code, 0x86);
    set_password(server.dir(), "carl", "new");
    // It is looked at once a second.
    let asked = Instant::now();
    while carl.ask(&server).1.code != 0 {
        assert!(asked.elapsed() < WAIT_MAX, "it is never read again");
    }
    let file = server.dir().join("passwords");
    assert!(tidegate(&["password", "delete", file.to_str().unwrap(), "carl"], "").status.success());
    while carl.ask(&server).1.code == 0 {
        assert!(asked.elapsed() < 2 * WAIT_MAX, "Carl is still let in");
    }
    let healthy = || server.status()["health"]["state"] == "ok";
    assert!(healthy(), "another password is no trouble: {}", server.status()["health"]);
    // One that cannot be used leaves those in force that there were.
    let good = fs::read(&file).unwrap();
    fs::write(&file, "no line of such a file\n").unwrap();
    let anna = Connect::new(Version::V5, "client").login("anna", ANNA);
    while healthy() {
        assert_eq!(anna.ask(&server).1.code, 0);
        assert!(asked.elapsed() < 3 * WAIT_MAX, "nobody is told");
    }
    assert_eq!(anna.ask(&server).1.code, 0);
    fs::write(&file, good).unwrap();
    while !healthy() {
        assert_eq!(anna.ask(&server).1.code, 0);
        assert!(asked.elapsed() < 4 * WAIT_MAX, "it is mended, and nobody is told");
    }
}

#[test]
fn a_password_file_that_comes_late_is_found() {
    let server = Server::configured(&|dir, port| {
        let (dir, log) = (dir.to_owned(), dir.join("log"));
        let at = dir.display().to_string();
        std::thread::spawn(move || {
            let began = Instant::now();
            while !fs::read_to_string(&log).is_ok_and(|log| log.contains("no client can connect")) {
                // The test has its own deadline for the port.
                if began.elapsed() > WAIT_MAX {
                    return;
                }
                std::thread::yield_now();
            }
            set_password(&dir, "anna", ANNA);
        });
        format!("tcp = '127.0.0.1:{port}'\npassword_file = '{at}/passwords'")
    });
    assert_eq!(Connect::new(Version::V5, "client").login("anna", ANNA).ask(&server).1.code, 0);
    assert_eq!(server.status()["health"]["state"], "ok");
}

#[test]
fn a_client_certificate_is_a_login_and_its_common_name_the_user_name() {
    let server = Server::configured(&|dir, port| {
        certificates::authority(dir, "ca");
        certificates::authority(dir, "other");
        for (authority, name) in [("ca", "broker"), ("ca", "press-7"), ("other", "stranger")] {
            certificates::certificate(dir, authority, name);
        }
        let at = dir.display();
        format!(
            "tls = '127.0.0.1:{port}'\ncert_file = '{at}/broker.crt'\nkey_file = '{at}/broker.key'\n\
             client_ca_file = '{at}/ca.crt'\nanonymous = 'never'\n\
             [[listener.rules]]\nuser = '*'\npublish = 'devices/{{username}}/#'\n"
        )
    });
    for version in BOTH {
        let connect = Connect::new(version, "client");
        let with = |name| Shared::client(tls(&server, "ca", Some(name)), version);
        let (mut press, answer) = connect.ask_over(with("press-7"));
        assert_eq!(answer.code, 0, "{version:?}");
        assert_eq!(press.publish(0x02, "devices/press-7/x", ""), 0);
        assert_eq!(press.publish(0x02, "devices/press-8/x", ""), code(version, 0x87, 0));
        assert_eq!(connect.clone().user("press-7").ask_over(with("press-7")).1.code, 0, "{version:?}");
        let other = connect.clone().login("press-8", "x").ask_over(with("press-7")).1.code;
        assert_eq!(other, bad_credentials(version), "{version:?}: another name than that of the certificate");
    }
    assert_eq!(server.refused("certificate_mismatch"), 2);
    for own in [None, Some("stranger")] {
        let mut stream = tls(&server, "ca", own);
        // In TLS 1.3 the client learns of it with what it reads first.
        let hello = Connect::new(Version::V5, "client").bytes();
        let said = std::io::Write::write_all(&mut stream, &hello);
        let heard = said.and_then(|()| std::io::Read::read(&mut stream, &mut [0]));
        assert!(!matches!(heard, Ok(1..)), "{own:?}: it is not served");
    }
    // The look whether it listens already came without TLS, too.
    assert!(server.refused("tls") >= 2);
}

#[test]
fn where_a_certificate_is_optional_a_password_is_as_good() {
    let server = Server::configured(&|dir, port| {
        certificates::authority(dir, "ca");
        certificates::certificate(dir, "ca", "broker");
        certificates::certificate(dir, "ca", "press-7");
        set_password(dir, "anna", ANNA);
        let at = dir.display();
        format!(
            "tls = '127.0.0.1:{port}'\ncert_file = '{at}/broker.crt'\nkey_file = '{at}/broker.key'\n\
             client_ca_file = '{at}/ca.crt'\nclient_cert = 'optional'\npassword_file = '{at}/passwords'\n"
        )
    });
    for version in BOTH {
        let connect = Connect::new(version, "client");
        let ask = |connect: &Connect, own| connect.ask_over(Shared::client(tls(&server, "ca", own), version)).1.code;
        assert_eq!(ask(&connect, Some("press-7")), 0, "{version:?}");
        assert_eq!(ask(&connect.clone().login("anna", ANNA), None), 0, "{version:?}");
        assert_eq!(ask(&connect.clone().login("anna", BERT), None), bad_credentials(version), "{version:?}");
        assert_eq!(ask(&connect, None), not_authorized(version), "{version:?}");
    }
}

#[test]
fn the_password_command_sets_lists_checks_and_deletes_users() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("passwords");
    let run = |arguments: &[&str], input: &str| {
        let done = tidegate(&[&["password", arguments[0], file.to_str().unwrap()], &arguments[1..]].concat(), input);
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        (done.status.code().unwrap(), said)
    };
    assert_eq!(run(&["list"], "").0, 1, "there is no file yet");
    assert_eq!(run(&["check", "anna"], "x").0, 2, "likewise: no password could be right");
    assert!(run(&["set", "anna"], "first\n").1.ends_with("user \"anna\" added\n"));
    assert_eq!(run(&["set", "bert"], BERT).0, 0);
    assert!(run(&["set", "anna"], "second").1.ends_with("user \"anna\" has another password\n"));
    assert_eq!(run(&["list"], ""), (0, "anna\nbert\n".to_owned()));
    assert_eq!(run(&["check", "anna"], "second\n").0, 0);
    assert_eq!(run(&["check", "anna"], "first\n").0, 1);
    assert_eq!(run(&["check", "carl"], "first\n").0, 1);
    assert_eq!(run(&["delete", "anna"], "").0, 0);
    let (code, said) = run(&["delete", "anna"], "");
    assert!(code == 1 && said.contains("there is no user \"anna\""), "{said}");
    assert_eq!(run(&["list"], ""), (0, "bert\n".to_owned()));
    let (code, said) = run(&["set", "carl"], "");
    assert!(code == 1 && said.contains("no password on standard input"), "{said}");
    assert!(!fs::read_to_string(&file).unwrap().contains(BERT));
}
