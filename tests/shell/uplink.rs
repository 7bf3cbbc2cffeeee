//! Batches out, acknowledgements back, against a real broker.

use tidegate::agent::inbox::Outbound;
use tidegate::engine::step::{Batch, BatchId};
use tidegate::model::limits::UPLINK_WINDOW;
use tidegate::model::time::Span;

use crate::broker::Broker;
use crate::peer::{Peer, Received};
use crate::task::{Task, broker_spec};

fn batch(id: u64) -> Outbound {
    Outbound::Batch(Batch::new(BatchId(id), "t/gw/data", id.to_string()))
}

fn status(payload: &str, retain: bool) -> Received {
    Received { topic: "t/gw/status".into(), payload: payload.into(), retain }
}

#[test]
fn every_batch_is_acknowledged_under_its_own_id() {
    let broker = Broker::start(&[]);
    let mut cloud = Peer::connect(broker.port, "cloud");
    cloud.subscribe("t/gw/data");
    let task = Task::uplink(broker_spec(broker.port, "gw-uplink"));
    let outbound = task.uplink_up();
    let window = u64::try_from(UPLINK_WINDOW).expect("small");
    for round in 0..50 {
        for id in 0..window {
            outbound.try_send(batch(round * window + id)).expect("room for a whole window");
        }
        let mut acked: Vec<u64> = (0..window).map(|_| task.acked().0).collect();
        acked.sort_unstable();
        assert_eq!(acked, (round * window..(round + 1) * window).collect::<Vec<_>>());
    }
    for id in 0..50 * window {
        assert_eq!(cloud.receive().payload, id.to_string().into_bytes(), "in order");
    }
}

#[test]
fn f37_f46_a_broker_that_dies_with_batches_in_flight_is_reported_and_they_can_be_sent_again() {
    let mut broker = Broker::start(&[]);
    let task = Task::uplink(broker_spec(broker.port, "gw-uplink"));
    let outbound = task.uplink_up();
    outbound.try_send(batch(1)).expect("connected");
    assert_eq!(task.acked(), BatchId(1));
    // Frozen: what is sent now is never acknowledged.
    broker.pause();
    outbound.try_send(batch(2)).expect("connected");
    outbound.try_send(batch(3)).expect("connected");
    broker.kill();
    task.down();
    assert!(outbound.is_disconnected(), "a batch of the old connection has nowhere to go");
    assert!(outbound.try_send(batch(4)).is_err());

    broker.restart();
    let mut cloud = Peer::connect(broker.port, "cloud");
    cloud.subscribe("t/gw/data");
    let outbound = task.uplink_up();
    outbound.try_send(batch(2)).expect("connected");
    outbound.try_send(batch(3)).expect("connected");
    assert_eq!((task.acked(), task.acked()), (BatchId(2), BatchId(3)));
    assert_eq!((cloud.receive().payload, cloud.receive().payload), (b"2".to_vec(), b"3".to_vec()));
}

/// F43: a cable is pulled without a FIN. What was in flight is not acknowledged, the engine
/// hears it, and the next connection takes it.
#[test]
fn f43_f56_what_goes_into_a_silent_link_is_not_sent() {
    let mut broker = Broker::start(&[]);
    let task = Task::uplink_with(broker_spec(broker.port, "gw-uplink"), Span::from_millis(500));
    let outbound = task.uplink_up();
    broker.pause();
    outbound.try_send(batch(1)).expect("connected, as far as anybody can know");
    outbound.try_send(batch(2)).expect("connected");
    assert_eq!(task.blamed(), ("the broker stopped responding".into(), false));
    assert!(outbound.try_send(batch(3)).is_err(), "not connected is not sent");
    broker.resume();
    let outbound = task.uplink_up();
    outbound.try_send(batch(1)).expect("connected");
    outbound.try_send(batch(2)).expect("connected");
    assert_eq!((task.acked(), task.acked()), (BatchId(1), BatchId(2)));
}

#[test]
fn the_status_is_retained_and_the_last_word_replaces_it() {
    let broker = Broker::start(&[]);
    let mut cloud = Peer::connect(broker.port, "cloud");
    cloud.subscribe("t/gw/status");
    let mut task = Task::uplink(broker_spec(broker.port, "gw-uplink"));
    let outbound = task.uplink_up();
    outbound.try_send(Outbound::Status { document: b"online".to_vec(), configuration: 0 }).expect("connected");
    assert_eq!(cloud.receive(), status("online", false));
    task.stop();
    outbound.try_send(batch(1)).expect("a stop does not cut off what is due");
    outbound.try_send(Outbound::Last(b"offline on purpose".to_vec())).expect("connected");
    // As the engine thread does when it ends; the broker has not answered yet.
    drop(outbound);
    assert_eq!(cloud.receive(), status("offline on purpose", false));
    assert_eq!(task.acked(), BatchId(1));
    task.join();
    let mut late = Peer::connect(broker.port, "late");
    late.subscribe("t/gw/status");
    assert_eq!(late.receive(), status("offline on purpose", true), "no last will after a DISCONNECT");
}

#[test]
fn a_connection_that_is_given_up_leaves_the_last_will() {
    let broker = Broker::start(&[]);
    let mut cloud = Peer::connect(broker.port, "cloud");
    cloud.subscribe("t/gw/status");
    let task = Task::uplink(broker_spec(broker.port, "gw-uplink"));
    drop(task.uplink_up());
    assert_eq!(cloud.receive(), status("offline", false));
    assert!(task.down().contains("given up"));
    task.uplink_up();
}
