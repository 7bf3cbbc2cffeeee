//! Packets that are too large, and such as never end.

use std::io::Write as _;
use std::net::TcpStream;

use super::Siege;
use super::attack::{ends, say};
use crate::client::Connect;
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
