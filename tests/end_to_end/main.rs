//! Black-box tests on real brokers.

mod broker;

use broker::Broker;

#[test]
fn a_broker_comes_back_on_its_port_after_a_stop_and_after_a_kill() {
    let mut broker = Broker::start(&["persistence true", "persistence_location {dir}/"]);
    let port = broker.port;
    broker.restart();
    broker.kill();
    broker.restart();
    assert_eq!(broker.port, port);
    assert!(broker.dir().join("mosquitto.db").exists(), "a stop writes what is persistent");
    assert!(broker.log().contains("starting"));
}
