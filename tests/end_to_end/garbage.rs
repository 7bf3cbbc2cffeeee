//! Bad input is counted with a reason and harms nothing else.

use crate::agent::ledger;
use crate::broker::Broker;
use crate::broker::needs::{Need, has};
use crate::scene::{DEVICES_CONFIG, Scene, assert_exact, fleet};

const TS: i64 = 1_700_000_001_000;

#[test]
fn garbage_is_counted_with_its_reason_and_the_rest_is_untouched() {
    let deliveries = fleet(8, 5, 60);
    let mut scene = Scene::start();
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    let garbage = garbage();
    for (_, payload) in &garbage {
        scene.publish_raw("devices/device-01/climate", payload);
    }
    scene.publish_raw(&format!("devices/{}/climate", "x".repeat(129)), br#"{"ts":1700000001000,"temperature":1}"#);
    scene.publish(after);
    scene.wait_for_panes(5 * 12);
    scene.wait_for_received(deliveries.len() + garbage.len() + 1);

    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!(ledger(&status, "accepted"), deliveries.len() as u64, "{status}");
    for reason in [
        "empty",
        "not_json",
        "too_deep",
        "wrong_shape",
        "bad_device",
        "missing_time",
        "bad_time",
        "before_min_time",
        "no_values",
        "wrong_type",
        "not_finite",
    ] {
        let expected = garbage.iter().filter(|(why, _)| *why == reason).count() + usize::from(reason == "bad_device");
        assert_eq!(rejected(&status, reason), expected as u64, "{reason} in {status}");
    }
}

#[test]
fn a_message_of_900_kb_does_not_stop_the_ones_behind_it() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let deliveries = fleet(9, 3, 30);
    // Takes up to 256 MB, the listener up to 256 KiB; our publisher up to 1 MiB.
    let mut scene = Scene::with_devices_broker(Broker::mosquitto(DEVICES_CONFIG));
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    scene.publish_raw("devices/device-01/climate", &vec![b'x'; 900 * 1024]);
    scene.publish(after);
    scene.wait_for_panes(3 * 6);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!(rejected(&status, "too_large"), 1, "{status}");
}

fn rejected(status: &serde_json::Value, reason: &str) -> u64 {
    status["engine"]["streams"][0]["ledger"]["rejected_by"][reason].as_u64().unwrap_or(0)
}

/// Payloads with the reason for which each is refused.
fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    let text = |reason, text: &str| (reason, text.as_bytes().to_vec());
    let deep = format!("{{\"ts\":{TS},\"temperature\":1,\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
    vec![
        text("empty", ""),
        text("not_json", "temperature=21"),
        text("not_json", &format!("{{\"ts\":{TS},\"temperature\":2")),
        ("not_json", vec![0xff, 0x00, 0xfe]),
        ("too_deep", deep.into_bytes()),
        text("wrong_shape", "21.5"),
        text("wrong_shape", "\"21.5\""),
        text("missing_time", "{\"temperature\":1}"),
        text("missing_time", "{\"ts\":null,\"temperature\":1}"),
        text("bad_time", "{\"ts\":\"yesterday\",\"temperature\":1}"),
        text("bad_time", "{\"ts\":[],\"temperature\":1}"),
        text("before_min_time", "{\"ts\":1700000001,\"temperature\":1}"),
        text("no_values", &format!("{{\"ts\":{TS},\"humidity\":1}}")),
        text("wrong_type", &format!("{{\"ts\":{TS},\"temperature\":\"warm\"}}")),
        text("wrong_type", &format!("{{\"ts\":{TS},\"temperature\":true}}")),
        text("not_finite", &format!("{{\"ts\":{TS},\"temperature\":1e999}}")),
    ]
}
