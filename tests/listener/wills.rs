//! Last wills: published when a client vanishes, and only then.

use crate::client::{Client, Connect};
use crate::server::Server;
use crate::wire::{BOTH, Version, four, kind, packet, property};

fn witness(server: &Server, version: Version) -> Client {
    let mut witness = Connect::new(version, "witness").open(server);
    witness.subscribe(&[("wills/#", 1)]);
    witness
}

fn mortal(version: Version) -> Connect {
    Connect::new(version, "mortal").will("wills/mortal", "gone", 1, false, &[])
}

#[test]
fn a_client_that_says_goodbye_leaves_no_will() {
    for version in BOTH {
        let server = Server::start();
        let mut witness = witness(&server, version);
        mortal(version).open(&server).disconnect();
        assert_eq!(witness.drain(), [], "{version:?}");
    }
}

#[test]
fn a_client_whose_connection_is_cut_leaves_its_will() {
    for version in BOTH {
        let server = Server::start();
        let mut witness = witness(&server, version);
        mortal(version).open(&server).cut();
        let will = witness.message();
        assert_eq!((will.topic.as_str(), will.payload.as_str()), ("wills/mortal", "gone"), "{version:?}");
        assert_eq!((will.qos, will.retain), (1, false), "{version:?}");
        witness.acknowledge(&will);
        assert_eq!(witness.drain(), [], "{version:?}: once");
    }
}

#[test]
fn a_client_that_is_silent_for_longer_than_its_keep_alive_leaves_its_will() {
    for version in BOTH {
        let server = Server::start();
        let mut witness = witness(&server, version);
        let _silent = mortal(version).keep_alive(1).open(&server);
        assert_eq!(witness.message().payload, "gone", "{version:?}");
    }
}

#[test]
fn a_client_that_breaks_the_protocol_leaves_its_will() {
    for version in BOTH {
        let server = Server::start();
        let mut witness = witness(&server, version);
        let mut client = mortal(version).open(&server);
        client.try_send(&[0xF5, 0x00, 0x06, 0xFF]);
        client.ends();
        assert_eq!(witness.message().payload, "gone", "{version:?}");
    }
}

#[test]
fn a_client_that_is_taken_over_leaves_its_will() {
    for version in BOTH {
        let server = Server::start();
        let mut witness = witness(&server, version);
        let mut first = mortal(version).open(&server);
        let _second = Connect::new(version, "mortal").open(&server);
        first.ends();
        assert_eq!(witness.message().payload, "gone", "{version:?}");
    }
}

#[test]
fn a_retained_will_is_kept() {
    for version in BOTH {
        let server = Server::start();
        let mut witness = witness(&server, version);
        Connect::new(version, "mortal").will("wills/kept", "gone", 2, true, &[]).open(&server).cut();
        let live = witness.message();
        assert!(!live.retain);
        let mut late = Connect::new(version, "late").open(&server);
        late.subscribe(&[("wills/#", 0)]);
        let kept = late.message();
        assert_eq!((kept.payload.as_str(), kept.retain, kept.qos), ("gone", true, 0), "{version:?}");
    }
}

#[test]
fn an_mqtt_5_client_may_say_goodbye_with_its_will() {
    let server = Server::start();
    let mut witness = witness(&server, Version::V5);
    let mut client = mortal(Version::V5).open(&server);
    client.send(&packet(kind::DISCONNECT, &[0x04]));
    client.ends();
    assert_eq!(witness.message().payload, "gone");
}

#[test]
fn a_delayed_will_waits_for_its_client_and_is_forgotten_when_it_returns() {
    let server = Server::start();
    let mut witness = witness(&server, Version::V5);
    let returning = Connect::new(Version::V5, "returning").persistent();
    let delay = |seconds| four(property::WILL_DELAY, seconds);
    returning.clone().will("wills/returning", "never", 1, false, &delay(2)).open(&server).cut();
    let back = returning.open(&server);
    assert!(back.session_present);
    // Left at the same time with a longer delay: when this one comes, the other would have.
    let lost = Connect::new(Version::V5, "lost").persistent();
    lost.will("wills/lost", "at last", 1, false, &delay(4)).open(&server).cut();
    assert_eq!(witness.message().payload, "at last");
}

#[test]
fn a_delayed_will_comes_when_the_session_ends_before() {
    let server = Server::start();
    let mut witness = witness(&server, Version::V5);
    let connect = Connect::new(Version::V5, "short").will(
        "wills/short",
        "with the session",
        1,
        false,
        &four(property::WILL_DELAY, 3_000),
    );
    connect.property(&four(property::SESSION_EXPIRY, 1)).open(&server).cut();
    assert_eq!(witness.message().payload, "with the session");
}

#[test]
fn a_will_of_a_session_that_ends_at_once_has_no_delay() {
    let server = Server::start();
    if !server.is_ours() {
        // 2.0.11 waits.
        return;
    }
    let mut witness = witness(&server, Version::V5);
    let connect = Connect::new(Version::V5, "short");
    connect.will("wills/short", "now", 1, false, &four(property::WILL_DELAY, 3_000)).open(&server).cut();
    assert_eq!(witness.message().payload, "now");
}
