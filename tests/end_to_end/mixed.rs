//! Devices of every preset at once, through real brokers and the real agent.

use std::time::Instant;

use serde_json::Value;
use tidegate::fleet::mixed::books::{Books, ReceiveTimes, Rules};
use tidegate::fleet::mixed::{MixedSpec, START, plan};
use tidegate::model::time::Span;

use crate::agent::Config;
use crate::cloud::{Cloud, WAIT_MAX};
use crate::scene::{Scene, seed, wait_until};

const RULES: Rules = Rules {
    windows: &[("1m", Span::from_secs(60)), ("10m", Span::from_secs(600))],
    disorder: Span::from_secs(10),
    lateness: Span::from_secs(60),
};

/// Nobody says that the devices behind a bridge of this system are gone: silence has to.
const SILENT: &str = "tasmota";

/// An hour, as fast as it can be published. What has a time of its own is exact window by
/// window; of what has none, the windows are those of the agent's clock, and exact together.
/// Every window that is open at the end comes because its device is said to be offline.
#[test]
fn an_hour_of_every_preset_at_once_gives_the_exact_windows() {
    let seed = seed(1);
    let (scene, books) = hour(seed, 0);
    let status = scene.agent.status().expect("the agent answers");
    assert_none(seed, "counts", &books.check_counts(&status["engine"], ReceiveTimes::Unknown));
    assert_eq!(status["engine"]["unmatched"], 0);
    let idle = scene.cloud.log.iter().filter(|record| record["stream"] != SILENT);
    assert_none(seed, "idle panes", &books.check_idle(idle, ReceiveTimes::Unknown, |system| system != SILENT));
}

#[test]
fn kills_during_the_hour_change_no_window() {
    hour(seed(2), 4);
}

/// Publishes it, kills the agent so many times on the way, and compares what stands at the
/// cloud in the end.
fn hour(seed: u64, kills: usize) -> (Scene, Books) {
    let spec = MixedSpec {
        seed,
        devices: 20,
        duration: Span::from_secs(3_600),
        disorder: RULES.disorder,
        // The agent has subscribed before: to the broker, nothing that follows is retained.
        retained: false,
    };
    let streams = RULES.streams(|system| if system == SILENT { "2s" } else { "1h" });
    let mut scene = Scene::with_config(Config { snapshot_interval: "2s", more: &streams, ..Config::default() });
    wait_until("every filter is granted", || {
        scene.agent.status().is_some_and(|status| status["devices"]["subscribed"] == true)
    });
    let mut books = Books::new(RULES);
    let messages = plan(&spec);
    for part in messages.chunks(messages.len() / (kills + 1) + 1) {
        if books.received() > 0 {
            scene.agent.kill();
            scene.agent.start();
        }
        for sent in part {
            scene.publish_raw(&sent.message.topic, &sent.message.payload);
            books.take(sent, START + sent.at);
        }
    }
    scene.flush();
    books.fall_idle(SILENT);

    let agent = &scene.agent;
    wait_until("everything is taken in", || agent.status().is_some_and(|status| received(&status) >= books.received()));
    let expected = books.readings_shown(ReceiveTimes::Unknown);
    let (cloud, asked) = (&mut scene.cloud, Instant::now());
    // What is still missing then is told window by window below.
    while readings(cloud) < expected && asked.elapsed() < WAIT_MAX {
        cloud.receive_for(WAIT_MAX / 500);
    }
    assert_none(seed, "windows", &books.check_windows(&scene.cloud.receiver, ReceiveTimes::Unknown));
    assert_none(seed, "late readings", &books.check_late(&scene.cloud.receiver));
    scene.cloud.assert_contract();
    (scene, books)
}

/// Else says how many differences there are, and shows the first.
fn assert_none(seed: u64, what: &str, wrong: &[String]) {
    let first = wrong[..wrong.len().min(30)].join("\n");
    assert!(wrong.is_empty(), "E2E_SEED={seed}, {what}: {} differences\n{first}", wrong.len());
}

/// Of all streams.
fn received(status: &Value) -> u64 {
    let streams = status["engine"]["streams"].as_array();
    streams.into_iter().flatten().filter_map(|stream| stream["ledger"]["received"].as_u64()).sum()
}

/// In all windows at the cloud, each once per window.
fn readings(cloud: &Cloud) -> u64 {
    cloud.receiver.panes().filter_map(|(_, pane)| pane["count"].as_u64()).sum()
}
