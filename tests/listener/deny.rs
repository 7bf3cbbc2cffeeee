//! What a rule denies does not reach its clients, however they have subscribed.

use std::fs;
use std::time::Instant;

use crate::access::{ANNA, BERT, with_passwords};
use crate::client::{Client, Connect, WAIT_MAX};
use crate::server::Server;
use crate::wire::{BOTH, Version, property};

/// For Bert, who sends; Anna's rule follows.
const BERT_SENDS: &str = "[[listener.rules]]\nuser = 'bert'\npublish = '#'\nsubscribe = '#'\n";

fn for_anna(rule: &str) -> String {
    format!("{BERT_SENDS}[[listener.rules]]\nuser = 'anna'\npublish = 'fence/#'\n{rule}\n")
}

fn anna(version: Version) -> Connect {
    Connect::new(version, "reader").login("anna", ANNA)
}

fn bert(server: &Server) -> Client {
    Connect::new(Version::V5, "device").login("bert", BERT).open(server)
}

fn withheld(server: &Server) -> u64 {
    server.refused("delivery_not_allowed")
}

/// Messages that wait for anybody.
fn queued(server: &Server) -> u64 {
    server.status()["engine"]["broker"]["queued"].as_u64().unwrap()
}

/// Topics of all that is on its way.
fn topics(reader: &mut Client) -> Vec<String> {
    reader.drain().into_iter().map(|message| message.topic).collect()
}

#[test]
fn a_subscription_is_refused_when_all_of_it_is_denied_and_else_misses_what_is() {
    for version in BOTH {
        let rules = for_anna("subscribe = '#'\ndeny = ['a/secret', 'b/#']");
        let server = with_passwords(&format!("max_in_flight = 2\n{rules}"));
        let mut device = bert(&server);
        for topic in ["a/secret", "a/open"] {
            device.publish(0x03, topic, "kept");
        }
        let mut reader = anna(version).open(&server);
        let asked = [("a/secret", 2), ("b/#", 1), ("b/+/c", 1), ("$share/g/b/+", 1), ("#", 2)];
        assert_eq!(reader.subscribe(&asked), [0x80, 0x80, 0x80, 0x80, 2], "{version:?}");
        let kept = reader.message();
        assert_eq!((kept.topic.as_str(), kept.payload.as_str()), ("a/open", "kept"), "{version:?}");
        reader.acknowledge(&kept);
        for qos in 0..3 {
            // More than may be in flight: what is withheld keeps nothing else back.
            for topic in ["a/secret", "b", "b/c", "b/c/d", "a/secret"] {
                device.publish(qos << 1, topic, "withheld");
            }
            device.publish(qos << 1, "a/open", "delivered");
            let message = reader.message();
            let found = (message.topic.as_str(), message.payload.as_str(), message.qos);
            assert_eq!(found, ("a/open", "delivered", qos), "{version:?}");
            reader.acknowledge(&message);
        }
        assert_eq!(topics(&mut reader), [""; 0], "{version:?}");
        assert_eq!((withheld(&server), server.refused("subscribe_not_allowed")), (16, 4), "{version:?}");
        assert_eq!(queued(&server), 0, "{version:?}: what is withheld is done with");
    }
}

#[test]
fn rules_that_have_changed_hold_for_sessions_from_before() {
    let change = |server: &mut Server, old: &str, new: &str| {
        let file = server.dir().join("tidegate.toml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(old), "{text}");
        fs::write(file, text.replace(old, new)).unwrap();
        server.restart();
    };
    let (wide, narrow) = ("subscribe = ['+/#']", "subscribe = ['a/#', 'fence/#']\ndeny = 'a/secret'");
    for version in BOTH {
        let mut server = with_passwords(&for_anna(wide));
        let connect = anna(version).persistent();
        let mut reader = connect.open(&server);
        assert_eq!(reader.subscribe(&[("#", 2)]), [2]);
        let mut device = bert(&server);
        // Sent and not acknowledged; then what waits for her.
        for qos in [1, 2] {
            device.publish(qos << 1, "a/secret", "sent");
            assert_eq!(reader.message().topic, "a/secret", "{version:?}");
        }
        reader.cut();
        for qos in [1, 2] {
            for topic in ["a/secret", "other", "a/open"] {
                device.publish(qos << 1, topic, "waits");
            }
        }

        change(&mut server, wide, narrow);
        let mut reader = connect.open(&server);
        assert!(reader.session_present, "{version:?}");
        assert_eq!(topics(&mut reader), ["a/open"; 2], "{version:?}");
        assert_eq!(withheld(&server), 6, "{version:?}");
        let mut device = bert(&server);
        for qos in 0..3 {
            for topic in ["a/secret", "other", "a/open"] {
                device.publish(qos << 1, topic, "new");
            }
        }
        assert_eq!(topics(&mut reader), ["a/open"; 3], "{version:?}");
        assert_eq!(withheld(&server), 12, "{version:?}");
        reader.disconnect();

        // What was withheld is done with: it does not come when she may have it again.
        change(&mut server, narrow, wide);
        let mut reader = connect.open(&server);
        assert_eq!(topics(&mut reader), [""; 0], "{version:?}");
        bert(&server).publish(0x02, "other", "new");
        assert_eq!(topics(&mut reader), ["other"], "{version:?}: the subscription is there");
        reader.disconnect();

        // And without a rule for her she has nothing at all.
        change(&mut server, "user = 'anna'", "user = 'carl'");
        let mut reader = connect.open(&server);
        let mut device = bert(&server);
        (0..3).for_each(|qos| assert_eq!(device.publish(qos << 1, "a/open", "new"), 0));
        let asked = Instant::now();
        while withheld(&server) < 3 {
            assert!(asked.elapsed() < WAIT_MAX, "{version:?}: {} are withheld", withheld(&server));
        }
        // The next packet would be a message, if one had come.
        reader.ping();
    }
}

#[test]
fn what_a_member_of_a_group_may_not_have_goes_to_nobody_else() {
    let server = with_passwords(&for_anna("subscribe = '#'\ndeny = 'a/secret'"));
    let mut reader = anna(Version::V5).open(&server);
    let mut other = Connect::new(Version::V5, "other").login("bert", BERT).open(&server);
    for member in [&mut reader, &mut other] {
        assert_eq!(member.subscribe(&[("$share/readers/a/+", 1)]), [1]);
    }
    let mut device = bert(&server);
    for _ in 0..6 {
        device.publish(0x02, "a/secret", "");
    }
    assert_eq!(reader.drain(), []);
    let lost = withheld(&server);
    assert!((1..6).contains(&lost), "everybody works: {lost}");
    reader.disconnect();
    assert_eq!(topics(&mut other).len() as u64, 6 - lost, "refused is refused, as MQTT 5 has it");
    assert_eq!(queued(&server), 0);
}

#[test]
fn where_a_name_fills_no_level_of_deny_any_text_is_denied() {
    let server = Server::configured(&|_, port| {
        format!(
            "tcp = '127.0.0.1:{port}'\n[[listener.rules]]\npublish = '#'\nsubscribe = '#'\n\
             deny = 'private/{{client_id}}/#'\n"
        )
    });
    for version in BOTH {
        // One that gets its id from the listener has none for the rules.
        let mut nameless = Connect::new(version, "").open(&server);
        let mut named = Connect::new(version, "c1").open(&server);
        assert_eq!(nameless.subscribe(&[("private/+", 1), ("private/#", 1)]), [0x80, 1], "{version:?}");
        assert_eq!(named.subscribe(&[("private/c1/+", 1), ("private/+", 1)]), [0x80, 1], "{version:?}");
        let mut device = Connect::new(version, "device").open(&server);
        for topic in ["private/c1", "private/c2", "private"] {
            device.publish(0x02, topic, "");
        }
        assert_eq!(topics(&mut nameless), ["private"], "{version:?}");
        assert_eq!(topics(&mut named), ["private/c2"], "{version:?}");
    }
    assert_eq!(withheld(&server), 6);
}

/// Their own programs need Python and minutes; this is what the file is for.
#[test]
fn the_configuration_for_paho_s_suites_has_what_they_ask_for() {
    let (_, section) = include_str!("paho.toml").split_once("[listener]\n").expect("there is a listener");
    assert!(section.contains("127.0.0.1:1883\""), "{section}");
    let server = Server::configured(&|_, port| section.replace("1883", &port.to_string()));
    for version in BOTH {
        let mut client = Connect::new(version, "client").open(&server);
        let asked = [("test/nosubscribe", 2), ("#", 2), ("+/+", 2)];
        assert_eq!(client.subscribe(&asked), [0x80, 2, 2], "{version:?}");
    }
    let (_, answer) = Connect::new(Version::V5, "client").keep_alive(120).ask(&server);
    assert!(answer.properties.contains(&(property::SERVER_KEEP_ALIVE, vec![0, 60])));
}
