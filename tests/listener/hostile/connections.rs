//! Connections: very many, and such as never come to a CONNECT.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};

use super::attack::{ends, say};
use super::{Siege, raise_open_files};
use crate::certificates;
use crate::client::{Connect, WAIT_MAX};
use crate::server::Server;
use crate::wire::{BOTH, Version};

/// Of each kind.
const LORIS: usize = 150;
const CROWD: usize = 10_000;
/// For everything else that this process has open.
const SPARE_FILES: u64 = 3_000;

/// Sockets of each kind, on addresses of this machine: clear, TLS, WebSocket.
const CLEAR: Ipv4Addr = Ipv4Addr::LOCALHOST;
const TLS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const WEBSOCKET: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn everywhere(name: &'static str) -> Siege {
    let section = |dir: &std::path::Path, port: u16| {
        certificates::authority(dir, "ca");
        certificates::certificate(dir, "ca", "broker");
        let at = dir.display();
        format!(
            "tcp = '{CLEAR}:{port}'\ntls = '{TLS}:{port}'\nwebsocket = '{WEBSOCKET}:{port}'\n\
             cert_file = '{at}/broker.crt'\nkey_file = '{at}/broker.key'\nconnect_within = '1s'\nack_within = '10ms'\n"
        )
    };
    let siege =
        Siege::configured(name, &section, &Connect::new(Version::V311, "honest"), &Connect::new(Version::V5, "reader"));
    for address in [TLS, WEBSOCKET] {
        // Bound after the first one.
        let began = std::time::Instant::now();
        while TcpStream::connect((address, siege.server.port)).is_err() {
            assert!(began.elapsed() < WAIT_MAX, "nothing listens on {address}");
            siege.honest.wait(1);
        }
    }
    siege
}

fn dial(address: Ipv4Addr, server: &Server) -> TcpStream {
    let stream = TcpStream::connect((address, server.port)).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

#[test]
fn slow_lorises_are_ended_and_keep_nobody_waiting() {
    let siege = everywhere("slow loris");
    let connect = Connect::new(Version::V5, "loris").bytes();
    let client_hello = [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), vec![7; 90]].concat();
    let upgrade = b"GET /mqtt HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nX: ".to_vec();
    let kinds = [(CLEAR, connect), (TLS, client_hello), (WEBSOCKET, upgrade)];
    let mut silent: Vec<TcpStream> = Vec::new();
    let mut slow: Vec<(TcpStream, &[u8])> = Vec::new();
    for (address, words) in &kinds {
        silent.extend((0..LORIS).map(|_| dial(*address, &siege.server)));
        slow.extend((0..LORIS).map(|_| (dial(*address, &siege.server), words.as_slice())));
    }
    // A byte now and then: one for each round of the honest ones, but never the last.
    let longest = kinds.iter().map(|(_, words)| words.len() - 1).max().unwrap();
    for at in 0..longest {
        for (stream, words) in &mut slow {
            if at + 1 < words.len() {
                // Ended already is what it comes to.
                let _ = stream.write_all(&words[at..=at]);
            }
        }
        siege.honest.wait(0);
    }
    for (stream, _) in &mut slow {
        ends(stream);
    }
    silent.iter_mut().for_each(ends);
    let figures = siege.end();
    let refused: Vec<u64> = ["no_connect", "tls", "websocket"].iter().map(|reason| figures.refused(reason)).collect();
    assert!(refused.iter().all(|count| *count >= 2 * LORIS as u64), "{refused:?}");
}

#[test]
fn garbage_at_each_socket_ends_its_connection() {
    let siege = everywhere("garbage");
    let mut dice = crate::streams::Dice::numbered(0);
    for _ in 0..super::scaled(100) {
        for address in [CLEAR, TLS, WEBSOCKET] {
            let mut stream = dial(address, &siege.server);
            let mut bytes: Vec<u8> = (0..dice.below(3_000)).map(|_| dice.byte()).collect();
            // As far as the first look.
            match (dice.below(2), address) {
                (0, TLS) => drop(bytes.splice(..0, *b"\x16\x03\x01\x01\x00\x01")),
                (0, WEBSOCKET) => drop(bytes.splice(..0, *b"GET /mqtt HTTP/1.1\r\n")),
                (0, _) => drop(bytes.splice(..0, *b"\x10\x20\x00\x04MQTT\x05\x02")),
                _ => {}
            }
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            ends(&mut stream);
        }
    }
    siege.end();
}

/// As many of 10,000 as there are file descriptors for.
fn crowd() -> usize {
    let files = raise_open_files().saturating_sub(SPARE_FILES);
    let crowd = CROWD.min(usize::try_from(files).unwrap_or(CROWD));
    if crowd < CROWD {
        eprintln!("{crowd} connections and not {CROWD}: there are no more file descriptors (ulimit -Hn)");
    }
    crowd
}

/// Connects with a CONNECT each. Those that were let in, with what the server said.
fn arrive(server: &Server, count: usize) -> Vec<TcpStream> {
    let hello = |number: usize| Connect::new(BOTH[number % 2], &format!("crowd-{number}")).bytes();
    (0..count).filter_map(|number| say(server.port, &hello(number))).collect()
}

/// Those that got a CONNACK of success.
fn let_in(crowd: Vec<TcpStream>) -> Vec<TcpStream> {
    use std::io::Read as _;
    let mut inside = Vec::new();
    for mut stream in crowd {
        let mut answer = [0; 4];
        if stream.read_exact(&mut answer).is_ok() && answer[0] == 0x20 && answer[3] == 0 {
            inside.push(stream);
        }
    }
    inside
}

#[test]
fn ten_thousand_connections_are_more_than_are_let_in_and_the_rest_is_refused() {
    let siege = Siege::begin("10,000 connections, 2,000 allowed", "");
    let crowd = arrive(&siege.server, crowd());
    siege.endure();
    let inside = let_in(crowd);
    // With the two honest ones, and whoever asks for the status is none.
    assert_eq!(inside.len(), 1_998);
    drop(inside);
    siege.until("they are gone", |status| status["listener"]["connected"] == 2);
    let figures = siege.end();
    assert!(figures.refused("too_many_connections") > 0);
}

#[test]
fn ten_thousand_clients_are_served_where_that_is_allowed() {
    let count = crowd();
    let limits = "max_connections = 20000\nmax_sessions = 20000\n";
    let siege = Siege::begin("10,000 clients", limits);
    let before = siege.server.memory().resident_kib;
    let inside = let_in(arrive(&siege.server, count));
    assert_eq!(inside.len(), count);
    let all_in = siege.server.memory().resident_kib;
    let cpu = siege.server.cpu_time();
    siege.endure();
    println!(
        "{count} connected: {:.2} KiB each; CPU of {} honest rounds meanwhile {:?}",
        (all_in - before) as f64 / count as f64,
        super::scaled(super::ROUNDS),
        siege.server.cpu_time().saturating_sub(cpu)
    );
    drop(inside);
    siege.until("they are gone", |status| status["listener"]["connected"] == 2);
    let figures = siege.end_under(2 * super::CAP_KIB);
    println!("after they are gone: {} KiB", figures.resident_kib);
}
