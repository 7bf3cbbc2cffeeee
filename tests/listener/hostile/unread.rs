//! Readers that do not read, or are very many.

use std::net::TcpStream;

use super::attack::{Attack, say};
use super::{Figures, ROUNDS, Siege, scaled};
use crate::client::Connect;
use crate::wire::{Version, property, publish, subscribe, text};

const LARGE: usize = 200_000;
/// An option of a subscription at `QoS` 0: the retain flag stays as it was sent.
const AS_PUBLISHED: u8 = 0x08;

fn hello(id: &str) -> Vec<u8> {
    Connect::new(Version::V5, id).bytes()
}

/// Clients that subscribe to `flood` and read nothing.
fn lazy(siege: &Siege, readers: usize, qos: u8) -> Vec<TcpStream> {
    let reader = |number: usize| {
        let subscribe = subscribe(Version::V5, 1, &[], &[("flood", qos)]);
        say(siege.server.port, &[hello(&format!("lazy-{number}")), subscribe].concat()).expect("there is room")
    };
    (0..readers).map(reader).collect()
}

/// Three publishers flood them.
fn unread(name: &'static str, readers: usize, qos: u8, rounds: usize, message: &[u8]) -> Figures {
    let siege = Siege::begin(name, "");
    let lazy = lazy(&siege, readers, qos);
    let mut attack = Attack::new();
    for number in 0..3 {
        attack.flood(siege.server.port, hello(&format!("flood-{number}")), message.to_vec(), true);
    }
    siege.honest.wait(scaled(rounds));
    attack.end();
    drop(lazy);
    siege.end()
}

fn message(flags: u8, list: &[u8], bytes: usize) -> Vec<u8> {
    publish(Version::V5, flags, "flood", 1, list, &vec![b'x'; bytes])
}

/// 240 KB of user properties.
fn wordy() -> Vec<u8> {
    let word = text("w".repeat(30_000));
    [&[property::USER][..], &word, &word].concat().repeat(4)
}

#[test]
fn a_reader_that_never_reads_is_given_up() {
    unread("large messages at QoS 0, one does not read", 1, 0, ROUNDS, &message(0, &[], LARGE));
    unread("small messages at QoS 0, one does not read", 1, 0, ROUNDS, &message(0, &[], 1).repeat(500));
    unread("large messages at QoS 1, one does not read", 1, 1, ROUNDS, &message(0x02, &[], LARGE));
    unread("large messages at QoS 1 for QoS 0, one does not read", 1, 0, ROUNDS, &message(0x02, &[], LARGE));
    unread("user properties, one does not read", 1, 0, ROUNDS, &message(0, &wordy(), 0));
    // Below what the memory allocator maps by itself.
    unread("120 KB at QoS 0, one does not read", 1, 0, ROUNDS, &message(0, &[], 120_000));
    unread("retained, as published, one does not read", 1, AS_PUBLISHED, ROUNDS, &message(0x01, &[], LARGE));
}

#[test]
fn readers_that_never_read_share_one_bound() {
    let figures = unread("large messages at QoS 0, 500 do not read", 500, 0, ROUNDS, &message(0, &[], LARGE));
    assert!(figures.broker("dropped_slow") > 0);
    let figures = unread("large messages at QoS 1, 500 do not read", 500, 1, ROUNDS, &message(0x02, &[], LARGE));
    assert!(figures.broker("dropped_queue_full") > 0);
    unread("user properties, 500 do not read", 500, 0, ROUNDS, &message(0, &wordy(), 0));
}

#[test]
fn a_flood_to_very_many_readers_is_passed_on_in_pieces() {
    // Each message is 500 deliveries, each burst three millions: it takes its time.
    unread("small messages at QoS 0 to 500", 500, 0, ROUNDS / 10, &message(0, &[], 1).repeat(500));
    unread("small messages at QoS 1 to 500", 500, 1, ROUNDS / 10, &message(0x02, &[], 1));
}
