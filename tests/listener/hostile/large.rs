//! Packets that are too large, and such as never end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::Siege;
use super::attack::{ends, say};
use crate::client::{Connect, WAIT_MAX};
use crate::wire::{BOTH, Version, publish, subscribe, text, varint};

/// The largest packet that the listener takes.
const PACKET_BYTES: usize = 256 * 1_024;
const CONNECTIONS: usize = 500;

fn connected(siege: &Siege, version: Version, number: usize) -> TcpStream {
    say(siege.server.port, &Connect::new(version, &format!("large-{number}")).bytes()).expect("there is room")
}

#[test]
fn packets_that_are_too_large_are_refused_by_their_length() {
    let siege = Siege::begin("oversized packets", "");
    let announced = [&[0x32][..], &[0xFF, 0xFF, 0xFF, 0x7F], b"\0\x01a"].concat();
    let body = vec![b'x'; PACKET_BYTES + 1];
    let long = "x".repeat(60_000);
    let mut crowd = Vec::new();
    for number in 0..CONNECTIONS {
        let version = BOTH[number % 2];
        let mut stream = connected(&siege, version, number);
        let whole = match number % 4 {
            // 256 MB, and one byte more than is taken, in a PUBLISH and in a SUBSCRIBE.
            0 => announced.clone(),
            1 => publish(version, 0x02, "a", 1, &[], &body),
            _ => subscribe(version, 1, &[], &[(long.as_str(), 0); 5]),
        };
        // It may be ended before all is written.
        let _ = stream.write_all(&whole);
        crowd.push(stream);
        // First, and larger than anybody may send who is not known.
        let words = text("x".repeat(20_000));
        let head = [&[0x10][..], &varint(words.len() + 10), &text("MQTT"), &[version as u8, 2, 0, 0]].concat();
        crowd.extend(say(siege.server.port, &[head, words].concat()));
        crowd.extend(say(siege.server.port, &[0x10, 0xFF, 0xFF, 0xFF, 0x7F]));
    }
    crowd.iter_mut().for_each(ends);
    let figures = siege.end();
    assert_eq!(figures.refused("packet_too_large"), 3 * CONNECTIONS as u64);
}

#[test]
fn packets_that_never_end_share_one_bound() {
    let siege = Siege::begin("half-sent packets", "");
    let packet = publish(Version::V5, 0x02, "a", 1, &[], &vec![b'x'; PACKET_BYTES - 100]);
    let crowd: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|number| {
            let mut stream = connected(&siege, Version::V5, number);
            let _ = stream.write_all(&packet[..packet.len() - 1]);
            stream
        })
        .collect();
    siege.endure();
    drop(crowd);
    let figures = siege.end();
    assert!(figures.refused("memory") > 0, "not all of them fit");
}

#[test]
fn the_rest_of_a_large_packet_keeps_no_room() {
    let siege = Siege::begin("whole packets and the start of the next", "");
    // One byte of the next packet behind each.
    let packet = publish(Version::V5, 0x02, "a", 1, &[], &vec![b'x'; PACKET_BYTES - 100]);
    let packet = [packet.as_slice(), &[0x32]].concat();
    let mut crowd: Vec<TcpStream> = (0..CONNECTIONS).map(|number| connected(&siege, Version::V5, number)).collect();
    for stream in &mut crowd {
        stream.write_all(&packet).unwrap();
        siege.honest.wait(0);
    }
    siege.endure();
    drop(crowd);
    siege.end();
}

#[test]
fn websocket_messages_that_never_end_count_with_the_others() {
    let section = |_: &std::path::Path, port: u16| {
        format!("tcp = '127.0.0.1:{port}'\nwebsocket = '127.0.0.2:{port}'\nack_within = '10ms'\n")
    };
    let siege = Siege::configured(
        "half-sent WebSocket messages",
        &section,
        &Connect::new(Version::V311, "honest"),
        &Connect::new(Version::V5, "reader"),
    );
    let upgrade = "GET /mqtt HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // Binary, whole, masked, 250,000 bytes; and in parts, with a ping between them.
    let header = [&[0x82, 0xFF][..], &250_000_u64.to_be_bytes(), &[0; 4]].concat();
    let half = [&header[..], &vec![b'x'; 240_000]].concat();
    let part = |first: u8| [&[first, 0xFE][..], &60_000_u16.to_be_bytes(), &[0; 4], &vec![b'x'; 60_000]].concat();
    let ping = [0x89, 0x80, 0, 0, 0, 0];
    let parts = [&part(0x02)[..], &ping, &part(0x00), &ping, &part(0x00), &ping, &part(0x00)].concat();
    let crowd: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|number| {
            let mut stream = TcpStream::connect((std::net::Ipv4Addr::new(127, 0, 0, 2), siege.server.port)).unwrap();
            stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
            stream.write_all(upgrade.as_bytes()).unwrap();
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 101");
            // It may be ended before all is written.
            let _ = stream.write_all(if number % 2 == 0 { &half } else { &parts });
            stream
        })
        .collect();
    siege.endure();
    drop(crowd);
    assert!(siege.end().refused("memory") > 0, "not all of them fit");
}
