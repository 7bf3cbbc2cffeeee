//! Shared subscriptions: each message to one of the group.

use std::collections::BTreeSet;

use crate::client::{Client, Connect};
use crate::server::Server;
use crate::wire::Version;

fn open(server: &Server, id: &str) -> Client {
    Connect::new(Version::V5, id).open(server)
}

#[test]
fn each_message_goes_to_one_of_the_group_and_all_of_them_get_some() {
    let server = Server::start();
    let mut group: Vec<Client> = ["one", "two", "three"].iter().map(|id| open(&server, id)).collect();
    for reader in &mut group {
        assert_eq!(reader.subscribe(&[("$share/readers/a/+", 1)]), [1]);
    }
    let mut device = open(&server, "device");
    for number in 0..15 {
        device.publish(0x02, "a/b", &number.to_string());
    }
    let mut all = BTreeSet::new();
    for reader in &mut group {
        let found = reader.drain();
        assert!(!found.is_empty(), "everybody works");
        for message in found {
            assert!(all.insert(message.payload.clone()), "{} comes once", message.payload);
        }
    }
    assert_eq!(all.len(), 15, "nothing is left out");
}

#[test]
fn groups_and_plain_subscriptions_are_independent() {
    let server = Server::start();
    let (mut one, mut two, mut plain) = (open(&server, "one"), open(&server, "two"), open(&server, "plain"));
    one.subscribe(&[("$share/first/a", 1)]);
    two.subscribe(&[("$share/second/a", 1)]);
    plain.subscribe(&[("a", 1)]);
    open(&server, "device").publish(0x02, "a", "to each");
    for reader in [&mut one, &mut two, &mut plain] {
        assert_eq!(reader.drain().len(), 1);
    }
}

#[test]
fn a_shared_subscription_gets_no_retained_messages() {
    let server = Server::start();
    if !server.is_ours() {
        // 2.0.11 sends them.
        return;
    }
    open(&server, "device").publish(0x03, "a", "kept");
    let mut reader = open(&server, "reader");
    reader.subscribe(&[("$share/readers/a", 1)]);
    assert_eq!(reader.drain(), []);
}

#[test]
fn what_a_member_leaves_unacknowledged_is_not_lost() {
    let server = Server::start();
    let leaving = Connect::new(Version::V5, "leaving").persistent();
    let mut reader = leaving.open(&server);
    reader.subscribe(&[("$share/readers/a", 1)]);
    open(&server, "device").publish(0x02, "a", "in flight");
    assert_eq!(reader.message().payload, "in flight");
    reader.cut();
    assert_eq!(leaving.open(&server).message().payload, "in flight");
}

#[test]
fn a_member_that_unsubscribes_gets_no_more() {
    let server = Server::start();
    let (mut one, mut two) = (open(&server, "one"), open(&server, "two"));
    one.subscribe(&[("$share/readers/a", 1)]);
    two.subscribe(&[("$share/readers/a", 1)]);
    assert_eq!(one.unsubscribe(&["$share/readers/a"]), [0]);
    let mut device = open(&server, "device");
    for number in 0..4 {
        device.publish(0x02, "a", &number.to_string());
    }
    assert_eq!(one.drain(), []);
    assert_eq!(two.drain().len(), 4);
}

#[test]
fn a_shared_subscription_without_a_group_or_with_no_local_is_refused() {
    let server = Server::start();
    if !server.is_ours() {
        // 2.0.11 takes the first.
        return;
    }
    for (filter, options) in
        [("$share//a", 1), ("$share/gr+up/a", 1), ("$share/group", 1), ("$share/group/a", 1 | 0x04)]
    {
        let mut reader = open(&server, "reader");
        reader.try_send(&crate::wire::subscribe(Version::V5, 1, &[], &[(filter, options)]));
        // Refused with a code or ended, both are in the standard's words.
        match reader.next() {
            Some((crate::wire::kind::SUBACK, body)) => {
                assert!(body.last().is_some_and(|code| *code >= 0x80), "{filter}: {body:?}");
            }
            Some((first, body)) => assert!(first == 0xE0 && body[0] >= 0x80, "{filter}: {body:?}"),
            None => {}
        }
    }
}
