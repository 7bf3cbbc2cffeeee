//! Brokers that go away and come back, on both sides.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::agent::mqtt::client::{ClientSpec, Publisher, Received, Subscriber};

use crate::agent::{Agent, Config};
use crate::broker::Broker;
use crate::cloud::{Cloud, WAIT_MAX};
use crate::scene::{DEVICES_CONFIG, PERSISTENT, Scene, assert_exact, fleet, wait_until};

#[test]
fn what_was_made_while_the_cloud_was_down_arrives_in_order_per_device() {
    let deliveries = fleet(3, 10, 120);
    let mut scene = Scene::start();
    let (before, rest) = deliveries.split_at(deliveries.len() / 3);
    let (during, after) = rest.split_at(rest.len() / 2);
    scene.publish(before);
    scene.wait_for_received(before.len());
    scene.cloud_broker.stop();
    scene.publish(during);
    scene.wait_for_received(before.len() + during.len());
    scene.cloud_broker.restart();
    scene.publish(after);
    scene.wait_for_panes(10 * 24);
    scene.wait_for_received(deliveries.len());

    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    let mut newest = BTreeMap::new();
    for pane in &scene.cloud.log {
        let place = (pane["lane"].as_str().unwrap(), pane["key"].as_str().unwrap());
        let start = pane["start_ms"].as_i64().unwrap();
        let before = newest.insert(place, start);
        assert!(before.is_none_or(|before| before < start), "{place:?}: {before:?} then {start}");
    }
}

#[test]
fn a_cloud_broker_that_freezes_costs_nothing() {
    let deliveries = fleet(4, 5, 60);
    let mut scene = Scene::start();
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    scene.wait_for_received(before.len());
    scene.cloud_broker.pause();
    scene.publish(after);
    scene.wait_for_received(deliveries.len());
    scene.cloud_broker.resume();
    scene.wait_for_panes(5 * 12);

    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

#[test]
fn after_a_devices_broker_forgot_everything_the_agent_subscribes_again() {
    let deliveries = fleet(5, 10, 60);
    let mut scene = Scene::start();
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    scene.wait_for_received(before.len());
    scene.devices_mut().kill();
    scene.devices_mut().restart();
    scene.wait_for_subscriptions(2);
    scene.publish(after);
    scene.wait_for_panes(10 * 12);
    scene.wait_for_received(deliveries.len());

    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    assert!(scene.agent.is_running());
}

#[test]
fn an_agent_that_finds_no_broker_waits_for_both() {
    let (mut devices, mut cloud_broker) = (Broker::start(DEVICES_CONFIG), Broker::start(PERSISTENT));
    devices.stop();
    cloud_broker.stop();
    let dir = tempfile::tempdir().unwrap();
    let config = Config { devices: devices.port, cloud: cloud_broker.port, ..Config::default() };
    let mut agent = Agent::new(dir.path(), &config);
    agent.start();
    wait_until("the agent is up without brokers", || agent.status().is_some());

    cloud_broker.restart();
    let mut cloud = Cloud::connect(cloud_broker.port);
    devices.restart();
    wait_until("the agent subscribes", || devices.subscriptions() > 0);
    let deliveries = fleet(6, 5, 30);
    let spec = ClientSpec { host: "127.0.0.1".into(), port: devices.port, client_id: "fleet".into(), clean: true };
    let mut publisher = Publisher::new(spec);
    for delivery in &deliveries {
        publisher.publish(&delivery.topic, &delivery.payload, WAIT_MAX).unwrap();
    }
    publisher.flush(WAIT_MAX).unwrap();
    cloud.wait_until("every pane", |cloud| cloud.receiver.panes().count() >= 5 * 6);

    assert_exact(&cloud, &deliveries);
    cloud.assert_contract();
    assert!(agent.is_running());
}

#[test]
fn a_backlog_of_twenty_thousand_readings_is_worked_off_exactly() {
    let deliveries = fleet(14, 50, 200);
    let mut scene = Scene::start();
    scene.agent.kill();
    scene.publish(&deliveries);
    let begin = std::time::Instant::now();
    scene.agent.start();
    scene.wait_for_panes(50 * 40);
    println!("{} readings in {:?}", deliveries.len(), begin.elapsed());
    scene.wait_for_received(deliveries.len());
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

#[test]
fn results_on_the_gateway_go_on_while_the_cloud_is_gone() {
    let deliveries = fleet(6, 3, 60);
    let mut scene = Scene::with_config(Config { uplink: "[local]\nqos = 1", ..Config::default() });
    scene.cloud_broker.stop();
    let spec =
        ClientSpec { host: "127.0.0.1".into(), port: scene.devices().port, client_id: "display".into(), clean: true };
    let mut display = Subscriber::new(spec, &["tidegate/gw-1/local/#"]);
    let mut here = BTreeMap::new();
    let look = |display: &mut Subscriber, here: &mut BTreeMap<String, Value>| match display.next(WAIT_MAX / 600) {
        Received::Message(message) => {
            let record: Value = serde_json::from_slice(&message.payload).expect("a record is JSON");
            let id = record["id"].as_str().expect("an id").replacen("gw-1/", "tidegate/gw-1/local/", 1);
            assert!(id.starts_with(&format!("{}/", message.topic)), "{} of {id}", message.topic);
            display.ack(&message);
            here.insert(id, record);
        }
        Received::Subscribed(_) | Received::Lost(_) | Received::Nothing => {}
    };
    wait_until("the display has subscribed", || {
        look(&mut display, &mut here);
        scene.devices().subscriptions_of("display") > 0
    });
    wait_until("the agent can publish here", || {
        scene.agent.status().is_some_and(|status| status["local"]["connected"] == true)
    });
    scene.publish(&deliveries);
    wait_until("all windows are on the gateway", || {
        look(&mut display, &mut here);
        here.len() >= 3 * 12
    });
    scene.cloud_broker.restart();
    scene.wait_for_panes(3 * 12);
    assert_exact(&scene.cloud, &deliveries);
    for (id, pane) in scene.cloud.receiver.panes() {
        let here = &here[&id.replacen("gw-1/", "tidegate/gw-1/local/", 1)];
        assert_eq!((&here["values"], &here["rev"]), (&pane["values"], &pane["rev"]), "{id}");
    }
}
