//! A Sparkplug edge node whose births nobody has heard, until it is asked for them.

use serde_json::json;
use tidegate::agent::mqtt::client::{ClientSpec, Received, Subscriber};

use crate::agent::{Config, ledger};
use crate::edge_node::{EdgeNode, Sent, alias, named};
use crate::scene::{START, Scene, wait_until};

/// Beside the stream that every test has.
const STREAM: &str = r#"
[[streams]]
name = "plant"
topic = "spBv1.0/{group}/+/{device...}"
device = "{group}/{device}"
format = "sparkplug-b"
time = { source = "payload" }
fields = { temp = "/line~1temp" }
watermark = "monotonic"

[[streams.windows]]
name = "10s"
size = "10s"
aggregates = ["count", "sum"]
"#;

fn publish(scene: &mut Scene, sent: &Sent) {
    scene.publish_raw(&sent.topic, &sent.payload);
    scene.flush();
}

#[test]
fn f123_data_before_a_birth_ask_for_it_and_then_have_names_over_a_kill() {
    let mut scene = Scene::with_config(Config { more: STREAM, ..Config::default() });
    let spec = ClientSpec { host: "127.0.0.1".into(), port: scene.devices().port, client_id: "e".into(), clean: true };
    let mut edge = EdgeNode::new("e");
    let mut listening = Subscriber::new(spec, &[&edge.command_topic()]);
    wait_until("the edge node listens", || matches!(listening.next(LOOK), Received::Subscribed(_)));

    let at = |millis: i64| START.as_millis() + millis;
    publish(&mut scene, &edge.data(at(0), &[alias(7).value(1.0)]));
    let mut command = None;
    wait_until("a rebirth is asked for", || {
        if let Received::Message(message) = listening.next(LOOK) {
            command = Some(message);
        }
        command.is_some()
    });
    let command = command.expect("it has come");
    assert!(!command.retain && command.topic == "spBv1.0/G/NCMD/e");
    assert!(command.payload.windows(20).any(|part| part == b"Node Control/Rebirth"));

    publish(&mut scene, &edge.birth(at(1_000), &[named("line/temp", 7).value(20.0)]));
    publish(&mut scene, &edge.data(at(2_000), &[alias(7).value(21.5)]));
    let books = |scene: &Scene| scene.agent.status().map(|status| status["engine"]["streams"][1]["ledger"].clone());
    wait_until("the birth is committed", || {
        let acknowledged = |status: serde_json::Value| status["engine"]["storage"]["unacknowledged"] == 0;
        books(&scene).is_some_and(|books| books["accepted"] == 2) && scene.agent.status().is_some_and(acknowledged)
    });
    scene.agent.kill();
    scene.agent.start();
    publish(&mut scene, &edge.data(at(3_000), &[alias(7).value(22.0)]));
    publish(&mut scene, &edge.data(at(10_000), &[alias(7).value(23.0)]));
    scene.wait_for_panes(1);

    let pane = &scene.cloud.results()[0];
    assert_eq!((&pane["key"], &pane["pane"]), (&json!("G/e"), &json!("on_time")));
    assert_eq!(pane["values"]["temp"], json!({"count": 3, "sum": 63.5}));
    let status = scene.agent.status().expect("the agent answers");
    let books = &status["engine"]["streams"][1]["ledger"];
    assert_eq!(books["rebirths_requested"], 1, "{books}");
    assert_eq!(books["rejected_by"], json!({"unknown_alias": 1}), "{books}");
    assert_eq!(books["ignored"], 1, "our own command: {books}");
    assert_eq!(ledger(&status, "received"), 0, "the other stream has none of it");
    scene.cloud.assert_contract();
}

/// Between two looks.
const LOOK: std::time::Duration = std::time::Duration::from_millis(20);
