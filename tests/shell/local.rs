//! Results on the devices' own broker.

use tidegate::config::boot::LocalSpec;
use tidegate::engine::step::LocalRecord;
use tidegate::model::limits::LOCAL_LEN;

use crate::broker::Broker;
use crate::peer::{Peer, Received};
use crate::task::{Task, broker_spec};

const WAYS: [LocalSpec; 2] =
    [LocalSpec { retain: true, acknowledged: true }, LocalSpec { retain: false, acknowledged: false }];

fn record(number: usize) -> LocalRecord {
    LocalRecord { topic: "t/gw/local/s/w/a".into(), payload: number.to_string().into_bytes() }
}

#[test]
fn results_reach_whoever_listens_in_order_at_either_qos() {
    let broker = Broker::start(&[]);
    for spec in WAYS {
        let mut display = Peer::connect(broker.port, "display");
        display.subscribe("t/gw/local/#");
        let task = Task::local(broker_spec(broker.port, "gw-local"), spec);
        let records = task.local_up();
        for number in 0..LOCAL_LEN {
            records.try_send(record(number)).expect("room for a whole queue");
        }
        for number in 0..LOCAL_LEN {
            let payload = number.to_string().into_bytes();
            assert_eq!(display.receive(), Received { topic: "t/gw/local/s/w/a".into(), payload, retain: false });
        }
        let mut late = Peer::connect(broker.port, "late");
        if spec.retain {
            late.subscribe("t/gw/local/#");
            assert!(late.receive().retain, "the last one is kept");
            // As somebody who wants it away.
            let mut cleaner = Peer::connect(broker.port, "cleaner");
            cleaner.publish_retained("t/gw/local/s/w/a", b"");
        }
    }
}

#[test]
fn a_queue_dies_with_its_connection_and_the_next_one_has_its_own() {
    let mut broker = Broker::start(&[]);
    let task = Task::local(broker_spec(broker.port, "gw-local"), WAYS[0]);
    let old = task.local_up();
    broker.kill();
    task.down();
    assert!(old.try_send(record(1)).is_err(), "it has nowhere to go, and is counted");
    broker.restart();
    let mut display = Peer::connect(broker.port, "display");
    display.subscribe("t/gw/local/#");
    let records = task.local_up();
    records.try_send(record(2)).expect("connected");
    assert_eq!(display.receive().payload, b"2");
}

#[test]
fn at_a_stop_what_is_in_the_queue_goes_out_before_the_disconnect() {
    let broker = Broker::start(&[]);
    let mut display = Peer::connect(broker.port, "display");
    display.subscribe("t/gw/local/#");
    let mut task = Task::local(broker_spec(broker.port, "gw-local"), WAYS[1]);
    let records = task.local_up();
    task.stop();
    records.try_send(record(7)).expect("connected");
    // As the engine thread does when it ends.
    drop(records);
    assert_eq!(display.receive().payload, b"7");
    task.join();
    crate::task::wait_until("it has said goodbye", || broker.goodbyes_of("gw-local") > 0);
}
