//! What ends by time: messages and sessions (MQTT 5). A delayed will on the same server
//! serves as the clock, so that nothing here sleeps or guesses.

use crate::client::Connect;
use crate::server::Server;
use crate::wire::{Version, four, property};

/// Returns when the server says that so many seconds have passed.
fn seconds(server: &Server, seconds: u32) {
    let mut observer = Connect::new(Version::V5, "clock-observer").open(server);
    observer.subscribe(&[("clock", 0)]);
    let clock = Connect::new(Version::V5, "clock").property(&four(property::SESSION_EXPIRY, 600));
    clock.will("clock", "struck", 0, false, &four(property::WILL_DELAY, seconds)).open(server).cut();
    observer.message();
    // For the next use.
    Connect::new(Version::V5, "clock").open(server).disconnect();
    observer.disconnect();
}

fn expiring(seconds: u32) -> Vec<u8> {
    four(property::MESSAGE_EXPIRY, seconds)
}

#[test]
fn a_message_that_expires_while_its_reader_is_away_is_not_delivered() {
    let server = Server::start();
    let kept = Connect::new(Version::V5, "reader").persistent();
    let mut reader = kept.open(&server);
    reader.subscribe(&[("a", 1)]);
    reader.disconnect();
    let mut device = Connect::new(Version::V5, "device").open(&server);
    device.publish_with(0x02, "a", &expiring(1), "short");
    device.publish_with(0x02, "a", &expiring(600), "long");
    device.publish(0x02, "a", "for ever");
    seconds(&server, 3);
    let mut reader = kept.open(&server);
    let long = reader.message();
    assert_eq!(long.payload, "long");
    let left = u32::from_be_bytes(long.values(property::MESSAGE_EXPIRY)[0].try_into().unwrap());
    assert!((1..600).contains(&left), "what is left of it: {left}");
    reader.acknowledge(&long);
    let last = reader.message();
    assert_eq!((last.payload.as_str(), last.values(property::MESSAGE_EXPIRY).len()), ("for ever", 0));
}

#[test]
fn a_retained_message_expires() {
    let server = Server::start();
    let mut device = Connect::new(Version::V5, "device").open(&server);
    device.publish_with(0x03, "a/short", &expiring(1), "short");
    device.publish_with(0x03, "a/long", &expiring(600), "long");
    seconds(&server, 3);
    let mut reader = Connect::new(Version::V5, "reader").open(&server);
    reader.subscribe(&[("a/#", 1)]);
    let found: Vec<String> = reader.drain().into_iter().map(|message| message.payload).collect();
    assert_eq!(found, ["long"]);
}

#[test]
fn a_session_is_there_until_it_expires_and_not_after() {
    let server = Server::start();
    let session = |id: &str, seconds| {
        Connect::new(Version::V5, id).clean(false).property(&four(property::SESSION_EXPIRY, seconds))
    };
    session("short", 1).open(&server).disconnect();
    session("long", 600).open(&server).disconnect();
    assert!(session("short", 1).open(&server).session_present, "not yet");
    seconds(&server, 4);
    assert!(!session("short", 1).open(&server).session_present);
    assert!(session("long", 600).open(&server).session_present);
}
