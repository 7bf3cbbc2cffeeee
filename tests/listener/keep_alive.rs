//! Silence: what the server ends, and what it does not.

use std::fs;
use std::net::TcpStream;
use std::time::Instant;

use crate::certificates;
use crate::client::{Connect, WAIT_MAX};
use crate::server::Server;
use crate::sockets::{Frames, Shared, tls};
use crate::wire::{BOTH, Version, property};

#[test]
fn a_silent_client_is_cut_off_after_its_keep_alive() {
    for version in BOTH {
        let server = Server::start();
        let mut silent = Connect::new(version, "silent").keep_alive(1).open(&server);
        let reason = silent.ends();
        if version == Version::V5 && server.is_ours() {
            assert_eq!(reason, Some(0x8D), "keep alive timeout");
        }
    }
}

#[test]
fn a_client_without_keep_alive_and_one_that_pings_stay() {
    for version in BOTH {
        let server = Server::start();
        let mut quiet = Connect::new(version, "quiet").open(&server);
        let mut lively = Connect::new(version, "lively").keep_alive(1).open(&server);
        let mut silent = Connect::new(version, "silent").keep_alive(3).open(&server);
        // The silent one measures the time: four and a half seconds of the server's clock.
        let (done, end) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while end.try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Empty) {
                    lively.ping();
                    // Not sleeping: a pause that ends early when the test does.
                    if end.recv_timeout(std::time::Duration::from_millis(200)).is_ok() {
                        break;
                    }
                }
                lively.ping();
            });
            silent.ends();
            drop(done);
        });
        quiet.ping();
    }
}

#[test]
fn the_longest_keep_alive_is_for_who_can_be_told_of_it() {
    let server = Server::configured(&|_, port| format!("tcp = '127.0.0.1:{port}'\nkeep_alive_max = '5s'"));
    // MQTT 3.1.1 has no word for it: what the client has asked for holds, and it would come
    // back and be cut off for ever.
    let quiet = [0, 600].map(|asked| Connect::new(Version::V311, &format!("quiet-{asked}")).keep_alive(asked));
    let mut quiet = quiet.map(|connect| connect.open(&server));
    for asked in [0, 600] {
        let (mut told, answer) = Connect::new(Version::V5, "told").keep_alive(asked).ask(&server);
        assert!(answer.properties.contains(&(property::SERVER_KEEP_ALIVE, vec![0, 5])), "{asked}");
        // It measures the time: seven and a half seconds of the server's clock.
        if asked == 0 {
            assert_eq!(told.ends(), Some(0x8D), "keep alive timeout");
        }
    }
    quiet.iter_mut().for_each(crate::client::Client::ping);
    assert_eq!(server.refused("keep_alive"), 1);
}

/// Seconds until the kernel asks the other side of the server's end of this connection whether
/// it is there; `None`: it does not.
fn asked_in(server: &Server, client: &TcpStream) -> Option<u64> {
    let ends = [server.port, client.local_addr().unwrap().port()];
    let ends = ends.map(|port| format!("0100007F:{port:04X}"));
    let began = Instant::now();
    loop {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut ours = rows.filter(|row| row.len() > 5 && row[1] == ends[0] && row[2] == ends[1]);
        // "timer:when", in hundredths of a second. Other timers run until all is acknowledged.
        match ours.next().expect("it is connected")[5].split_once(':').expect("two numbers") {
            ("00", _) => return None,
            ("02", when) => return Some(u64::from_str_radix(when, 16).unwrap() / 100),
            (_, _) => assert!(began.elapsed() < WAIT_MAX, "the connection comes to rest"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_vanished_client_without_keep_alive_is_found_by_its_socket() {
    let server = Server::configured(&|_, port| format!("tcp = '127.0.0.1:{port}'"));
    for version in BOTH {
        for (asked, is_watched) in [(0, true), (600, false)] {
            let client = Connect::new(version, "client").keep_alive(asked).open(&server);
            let found = asked_in(&server, &client.writer());
            assert_eq!(found.is_some(), is_watched, "{version:?} {asked}");
            assert!(found.is_none_or(|secs| (200..=300).contains(&secs)), "{found:?}");
        }
    }
}

#[test]
fn a_vanished_client_is_found_by_its_socket_under_tls_and_websocket_too() {
    let server = Server::configured(&|dir, port| {
        certificates::authority(dir, "ca");
        certificates::certificate(dir, "ca", "broker");
        let at = dir.display();
        format!("tls = '127.0.0.1:{port}'\ncert_file = '{at}/broker.crt'\nkey_file = '{at}/broker.key'")
    });
    let stream = tls(&server, "ca", None);
    let socket = stream.sock.try_clone().unwrap();
    let (_client, _) = Connect::new(Version::V311, "client").ask_over(Shared::client(stream, Version::V311));
    assert!(asked_in(&server, &socket).is_some());

    let server = Server::configured(&|_, port| format!("websocket = '127.0.0.1:{port}'"));
    let frames = Frames::open(&server, "/mqtt", "mqtt").expect("a WebSocket");
    let socket = frames.stream().try_clone().unwrap();
    let (_client, _) = Connect::new(Version::V311, "client").ask_over(Shared::client(frames, Version::V311));
    assert!(asked_in(&server, &socket).is_some());
}
