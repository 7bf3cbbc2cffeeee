//! The uplink over MQTT 5 against a broker that is played byte by byte: what it allows, what
//! it refuses and how it ends a connection reaches the engine; what it breaks ends the
//! connection and nothing else. Also against a real one.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate::agent::inbox::Outbound;
use tidegate::agent::uplink::packing;
use tidegate::config::boot::{BrokerSpec, Protocol};
use tidegate::engine::encode::Encoding;
use tidegate::engine::outbox::LaneKind;
use tidegate::engine::step::{Batch, BatchId, Refusal, UplinkTerms};
use tidegate::model::limits::UPLINK_WINDOW;
use tidegate::model::time::Span;

use crate::broker::Broker;
use crate::broker::needs::{Need, has};
use crate::peer::Peer;
use crate::task::{Task, broker_spec};

pub(crate) fn five(port: u16) -> BrokerSpec {
    BrokerSpec { protocol: Protocol::V5, ..broker_spec(port, "gw-uplink") }
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

fn batch(id: u64) -> Outbound {
    Outbound::Batch(Batch::new(BatchId(id), "t/gw/data/live", id.to_string()))
}

#[test]
fn each_reason_code_of_an_answer_has_its_meaning_for_the_batch() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let (mut cloud, connect) = Peer::accept_v5(&listener, 0, &[]);
    assert_eq!(connect[7] & 0x02, 2, "clean start");
    assert_eq!(connect[10..16], [10, 0x11, 0, 0, 0, 0], "session expiry 0: the outbox is what remembers");
    let outbound = task.uplink_up();
    let answers: [(Option<u8>, Option<Refusal>); 11] = [
        (None, None),
        (Some(0x00), None),
        (Some(0x10), None),
        (Some(0x80), Some(Refusal::Poison)),
        (Some(0x83), Some(Refusal::Poison)),
        (Some(0x90), Some(Refusal::Poison)),
        (Some(0x99), Some(Refusal::Poison)),
        (Some(0x87), Some(Refusal::NotNow)),
        (Some(0x91), Some(Refusal::NotNow)),
        (Some(0x97), Some(Refusal::NotNow)),
        (Some(0xee), Some(Refusal::NotNow)),
    ];
    for (id, (code, refusal)) in (0..).zip(answers) {
        outbound.try_send(batch(id)).expect("connected");
        let (packet, _) = cloud.published();
        cloud.answer(packet, code);
        match refusal {
            None => assert_eq!(task.acked(), BatchId(id), "{code:?}"),
            Some(refusal) => assert_eq!(task.refused_batch(), (BatchId(id), refusal), "{code:?}"),
        }
    }
    assert!(!outbound.is_disconnected(), "none of them ends the connection");
}

/// F52: connected, and the queue does not fall. Whoever looks at the health sees why.
#[test]
fn f52_what_keeps_the_queue_from_falling_is_told_until_it_falls_again() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
    let outbound = task.uplink_up();
    let answer = |cloud: &mut Peer, code| {
        outbound.try_send(batch(1)).expect("connected");
        let (packet, _) = cloud.published();
        cloud.answer(packet, Some(code));
    };
    answer(&mut cloud, 0x97);
    task.refused_batch();
    assert_eq!(task.notice(), "the broker does not take batches now: a quota is used up");
    answer(&mut cloud, 0x97);
    task.refused_batch();
    answer(&mut cloud, 0x10);
    task.acked();
    assert!(task.notice().contains("nobody has subscribed to"));
    answer(&mut cloud, 0x00);
    task.acked();
    assert_eq!(task.notice(), "");
    answer(&mut cloud, 0x99);
    task.refused_batch();
    answer(&mut cloud, 0x00);
    task.acked();
}

#[test]
fn a_receive_maximum_of_one_is_kept_to_by_batches_and_status_alike() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, b"\x21\x00\x01");
    let (outbound, terms) = task.uplink_up_on_terms();
    assert_eq!(terms.expect("MQTT 5 says").window, 1);
    outbound.try_send(batch(1)).expect("connected");
    outbound.try_send(Outbound::Status { document: b"{}".to_vec(), configuration: 0 }).expect("connected");
    outbound.try_send(batch(2)).expect("connected");
    for _ in 0..3 {
        let (packet, _) = cloud.published();
        assert!(cloud.reads_nothing_for(Duration::from_millis(50)), "the next one waits for the answer");
        cloud.answer(packet, None);
    }
    assert_eq!((task.acked(), task.acked()), (BatchId(1), BatchId(2)));
}

#[test]
fn nothing_larger_than_the_maximum_packet_size_is_sent() {
    let (listener, port) = listen();
    let mut task = Task::uplink(five(port));
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, b"\x27\x00\x00\x04\x00");
    let (outbound, terms) = task.uplink_up_on_terms();
    let UplinkTerms { payload_max, window } = terms.expect("MQTT 5 says");
    assert!((500..1_024).contains(&payload_max) && window == UPLINK_WINDOW, "{payload_max} {window}");
    let sized = |id, bytes| Outbound::Batch(Batch::new(BatchId(id), "t/gw/data/live", vec![b'x'; bytes]));
    outbound.try_send(sized(1, payload_max + 1)).expect("connected");
    assert_eq!(task.refused_batch(), (BatchId(1), Refusal::Poison), "it would never be taken");
    outbound.try_send(Outbound::Status { document: vec![b' '; 2_000], configuration: 0 }).expect("connected");
    outbound.try_send(sized(2, payload_max)).expect("connected");
    let (packet, _) = cloud.published();
    cloud.answer(packet, None);
    assert_eq!(task.acked(), BatchId(2));
    // The last word is short when it has to be.
    task.stop();
    outbound.try_send(Outbound::Last(vec![b' '; 2_000])).expect("connected");
    let (packet, rest) = cloud.published();
    assert!(rest.ends_with(b"offline"), "{rest:?}");
    cloud.answer(packet, None);
    assert_eq!(cloud.read().0, 0xe0, "DISCONNECT");
    task.join();
}

#[test]
fn a_connack_that_says_no_is_told_in_words() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    for (code, properties, words) in [
        (0x87, &b""[..], "not authorised"),
        (0x97, b"\x1f\x00\x05later", "a quota is used up (it says: later)"),
        (0x8a, b"", "this client is banned"),
        (0xee, b"", "reason code 0xee"),
        (0x84, b"", "protocol = \"3.1.1\""),
        (0x00, b"\x24\x00", "QoS 0 only"),
        (0x00, b"\x21\x00\x00", "a limit of 0"),
        (0x9a, b"", "no retained messages"),
    ] {
        let (_cloud, connect) = Peer::accept_v5(&listener, code, properties);
        assert_eq!(connect[7] & 0x20, 0x20, "the last will is retained");
        let reason = task.down();
        assert!(reason.contains(words), "{code:#x}: {reason}");
    }
    let (_cloud, connect) = Peer::accept_v5(&listener, 0, &[]);
    assert_eq!(connect[7] & 0x20, 0, "and is not, after a broker that keeps nothing said so");
    task.uplink_up();
}

/// What a broker that knows nothing but 3.1.1 answers to a CONNECT of 5.
#[test]
fn a_broker_without_mqtt_5_leads_to_the_setting() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let (stream, _) = listener.accept().expect("a connection comes");
    std::io::Write::write_all(&mut &stream, b"\x20\x02\x00\x01").expect("written");
    let reason = task.down();
    assert!(reason.contains("try `protocol = \"3.1.1\"`"), "{reason}");
}

#[test]
fn how_a_connection_ended_tells_whether_a_batch_may_be_to_blame() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let ends: [(&[u8], bool, &str, bool); 7] = [
        (b"\xe0\x01\x95", true, "larger than it takes", true),
        (b"\xe0\x07\x99\x05\x1f\x00\x02no", true, "(it says: no)", true),
        (b"\xe0\x01\x99", false, "does not accept the payload", false),
        (b"\xe0\x00", true, "no reason given", false),
        (b"\xe0\x01\x8b", true, "shutting down", false),
        (b"\xe0\x01\x8e", true, "another client", false),
        (b"", true, "closed the connection", true),
    ];
    for (last_words, in_flight, words, blames) in ends {
        let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
        let outbound = task.uplink_up();
        if in_flight {
            outbound.try_send(batch(1)).expect("connected");
            cloud.published();
        }
        cloud.write_raw(last_words);
        drop(cloud);
        let (reason, blamed) = task.blamed();
        assert!(reason.contains(words) && blamed == blames, "{last_words:02x?}: {reason}, {blamed}");
    }
}

#[test]
fn an_answer_that_came_just_before_the_end_counts() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
    let outbound = task.uplink_up();
    outbound.try_send(batch(1)).expect("connected");
    outbound.try_send(batch(2)).expect("connected");
    let (first, _) = cloud.published();
    cloud.published();
    let [high, low] = first.to_be_bytes();
    cloud.write_raw(&[0x40, 2, high, low, 0xe0, 1, 0x8b]);
    assert_eq!(task.acked(), BatchId(1));
    assert_eq!(task.blamed(), ("the broker ended the connection: it is shutting down".into(), false));
}

#[test]
fn garbage_auth_and_packets_that_are_not_due_end_the_connection_or_nothing() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let breaks: [(&[u8], &str); 5] = [
        (b"\xf0\x02\x18\x00", "AUTH"),
        (b"\x00\x00", "no packet has type 0"),
        (b"\x40\x01\x07", "shorter than it says"),
        (b"\x40\xff\xff\xff\xff\x01", "more than four bytes"),
        (b"\x30\xff\xff\xff\x7f", "above our limit"),
    ];
    for (bytes, words) in breaks {
        let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
        let _outbound = task.uplink_up();
        cloud.write_raw(bytes);
        let (reason, blames) = task.blamed();
        assert!(reason.contains(words) && !blames, "{bytes:02x?}: {reason}");
    }
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
    let outbound = task.uplink_up();
    // A PUBLISH, a PUBREL, a SUBACK, an UNSUBACK, a PINGRESP and an answer to nothing.
    cloud.write_raw(b"\x30\x04\x00\x01a\x00\x62\x02\x00\x07\x90\x04\x00\x01\x00\x01\xb0\x04\x00\x01\x00\x00\xd0\x00");
    cloud.answer(999, None);
    outbound.try_send(batch(1)).expect("connected");
    let (packet, _) = cloud.published();
    cloud.answer(packet, Some(0));
    assert_eq!(task.acked(), BatchId(1), "all of that is ignored");
}

/// F52: connected, pings are answered, even publishes that we never made are: and what is
/// in flight is not. The queue would not fall, until a restart.
#[test]
fn f52_a_broker_that_answers_everything_but_our_batches_is_given_up() {
    let (listener, port) = listen();
    let task = Task::uplink_with(five(port), Span::from_millis(300));
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
    let outbound = task.uplink_up();
    outbound.try_send(batch(1)).expect("connected");
    let (packet, _) = cloud.published();
    while !outbound.is_disconnected() {
        cloud.answer_quietly(packet.wrapping_add(1_000));
        std::thread::yield_now();
    }
    assert_eq!(task.blamed(), ("the broker stopped responding".into(), false));
    // F50: at once on the next connection, not when some retry timer is due.
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, &[]);
    let outbound = task.uplink_up();
    outbound.try_send(batch(1)).expect("connected");
    let (packet, _) = cloud.published();
    cloud.answer(packet, None);
    assert_eq!(task.acked(), BatchId(1));
}

#[test]
fn the_broker_s_own_keep_alive_is_kept_to() {
    let (listener, port) = listen();
    let task = Task::uplink(five(port));
    let (mut cloud, _) = Peer::accept_v5(&listener, 0, b"\x13\x00\x01");
    let _outbound = task.uplink_up();
    assert_eq!(cloud.read(), (0xc0, vec![]), "PINGREQ long before our own 30 s");
}

/// The properties as another program sees them, through a real broker.
#[test]
fn a_receiver_sees_what_a_batch_is_without_opening_it() {
    if !has(&[Need::MosquittoClients]) {
        return;
    }
    let broker = Broker::start(&[]);
    let sub = Command::new("mosquitto_sub")
        .args(["-V", "5", "-q", "1", "-C", "2", "-W", "60", "-t", "t/gw/data/#", "-p", &broker.port.to_string()])
        .args(["-F", "%t %P %C %E %l"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mosquitto_sub is installed");
    crate::task::wait_until("the subscription is there", || broker.subscriptions() > 0);
    let task = Task::uplink(five(broker.port));
    let outbound = task.uplink_up();
    let mut live = Batch::new(BatchId(1), "t/gw/data/live", "{}");
    live.expiry = None;
    let mut late = Batch::new(BatchId(2), "t/gw/data/late", packing::pack(&[b'a'; 500]));
    late.lane = LaneKind::Late;
    late.encoding = Encoding::Cbor;
    late.expiry = Some(Span::from_secs(3_600));
    for batch in [live, late] {
        outbound.try_send(Outbound::Batch(batch)).expect("connected");
    }
    assert_eq!((task.acked(), task.acked()), (BatchId(1), BatchId(2)));
    let seen = sub.wait_with_output().expect("it ends after two").stdout;
    let seen = String::from_utf8(seen).expect("UTF-8");
    let lines: Vec<&str> = seen.lines().collect();
    assert!(
        lines[0].starts_with("t/gw/data/live v:1 lane:live encoding:json compression:none application/json"),
        "{seen}"
    );
    assert!(
        lines[1].starts_with("t/gw/data/late v:1 lane:late encoding:cbor compression:zstd application/zstd 3"),
        "{seen}"
    );
}

/// What a real broker says about itself.
#[test]
fn the_limits_of_a_real_broker_are_kept_to() {
    let broker = Broker::start(&["max_packet_size 4096", "max_inflight_messages 3"]);
    let mut cloud = Peer::connect(broker.port, "cloud");
    cloud.subscribe("t/gw/data/#");
    let task = Task::uplink(five(broker.port));
    let (outbound, terms) = task.uplink_up_on_terms();
    let UplinkTerms { payload_max, window } = terms.expect("MQTT 5 says");
    assert!((3_500..4_096).contains(&payload_max) && window == 3, "{payload_max} {window}");
    let sized = |id, bytes| Outbound::Batch(Batch::new(BatchId(id), "t/gw/data/live", vec![b'x'; bytes]));
    outbound.try_send(sized(1, 5_000)).expect("connected");
    assert_eq!(task.refused_batch(), (BatchId(1), Refusal::Poison));
    for id in 2..12 {
        outbound.try_send(sized(id, payload_max)).expect("connected");
    }
    for id in 2..12 {
        assert_eq!(task.acked(), BatchId(id));
        assert_eq!(cloud.receive().payload.len(), payload_max);
    }
    assert!(!outbound.is_disconnected());
}
