//! Starts, stops and what the retained status says about them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::scene::{Scene, assert_exact, fleet};

/// systemd waits longer; the agent's own promise.
const STOP_MAX: Duration = Duration::from_secs(10);

#[test]
fn sigterm_ends_it_within_ten_seconds_with_nothing_lost_and_offline_in_its_status() {
    let deliveries = fleet(7, 5, 60);
    let mut scene = Scene::start();
    scene.cloud.wait_until("an online status", |cloud| state(cloud) == Some("online"));
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    let (status, took) = scene.agent.terminate();
    assert!(status.success() && took < STOP_MAX, "{status} after {took:?}");
    scene.cloud.wait_until("an offline status", |cloud| state(cloud) == Some("offline"));

    scene.agent.start();
    scene.cloud.wait_until("an online status again", |cloud| state(cloud) == Some("online"));
    scene.publish(after);
    scene.wait_for_panes(5 * 12);
    scene.wait_for_received(deliveries.len());
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

#[test]
fn sigterm_ends_it_within_ten_seconds_without_any_broker_too() {
    let mut scene = Scene::start();
    scene.devices_mut().stop();
    scene.cloud_broker.pause();
    let (status, took) = scene.agent.terminate();
    assert!(status.success() && took < STOP_MAX, "{status} after {took:?}");
}

#[test]
fn a_log_that_takes_nothing_does_not_end_it() {
    let mut scene = Scene::start();
    scene.cloud.wait_until("an online status", |cloud| state(cloud) == Some("online"));
    scene.agent.kill();
    // Else the status that is waited for next could be that of before.
    scene.cloud.wait_until("the last will", |cloud| state(cloud) == Some("offline"));
    scene.agent.start_without_log();
    scene.cloud.wait_until("an online status again", |cloud| state(cloud) == Some("online"));
    scene.devices_mut().stop();
    let (status, took) = scene.agent.terminate();
    assert!(status.success() && took < STOP_MAX, "{status} after {took:?}");
}

#[test]
fn the_last_will_says_offline_after_a_kill() {
    let mut scene = Scene::start();
    scene.cloud.wait_until("an online status", |cloud| state(cloud) == Some("online"));
    scene.agent.kill();
    scene.cloud.wait_until("the last will", |cloud| state(cloud) == Some("offline"));
    scene.agent.start();
    scene.cloud.wait_until("an online status again", |cloud| state(cloud) == Some("online"));
}

#[test]
fn a_retained_reading_counts_once_however_often_the_agent_subscribes_again() {
    let deliveries = fleet(11, 5, 60);
    let mut scene = Scene::start();
    let mut sent = 0;
    for part in deliveries.chunks(deliveries.len() / 3) {
        for delivery in part {
            scene.publish_retained(delivery);
        }
        scene.flush();
        sent += part.len();
        scene.wait_for_received(sent);
        // Each process subscribes anew, and the broker repeats what it remembers.
        scene.agent.kill();
        scene.agent.start();
    }
    scene.wait_for_panes(5 * 12);
    scene.wait_for_accepted(sent);
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

#[test]
fn a_second_agent_on_the_same_state_gives_up_and_leaves_the_first_alone() {
    let deliveries = fleet(15, 3, 30);
    let mut scene = Scene::start();
    let (before, after) = deliveries.split_at(deliveries.len() / 2);
    scene.publish(before);
    scene.wait_for_received(before.len());
    assert!(!scene.agent.start_second().success());
    scene.publish(after);
    scene.wait_for_panes(3 * 6);
    let status = scene.agent.status().expect("the first agent answers");
    assert_eq!(status["devices"]["connections"], 1, "nobody took its session: {status}");
    assert_exact(&scene.cloud, &deliveries);
    scene.cloud.assert_contract();
}

fn state(cloud: &crate::cloud::Cloud) -> Option<&str> {
    cloud.statuses.last().and_then(|status| status["state"].as_str())
}

#[test]
fn the_broker_alone_says_where_it_listens_and_ends_when_it_cannot() {
    let port = crate::broker::free_port();
    let start = |dir: &Path| {
        let listen = format!("127.0.0.1:{port}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["broker", "--listen", &listen, "--state"]).arg(dir.join("state"));
        command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut broker = start(first.path());
    let mut line = String::new();
    BufReader::new(broker.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("listening on mqtt://127.0.0.1:{port}\n"));

    let output = start(second.path()).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("tidegate: mqtt://127.0.0.1:{port}: cannot listen")), "{said}");

    kill_process(Pid::from_child(&broker), Signal::TERM).unwrap();
    assert!(broker.wait().unwrap().success());
}
