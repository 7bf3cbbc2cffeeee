//! Wires and brokers that fail in every way, on either side.
//!
//! Where only wires fail, nothing may be lost. Where a broker forgets, the end state is
//! that of a run over what was delivered to the agent's socket, and the cloud's that of
//! what its broker acknowledged: both read from the wires themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate::fleet::Delivery;
use tidegate::fleet::receiver::Receiver;
use tidegate::model::rng::Rng;

use crate::agent::{Config, ledger};
use crate::broker::Broker;
use crate::broker::needs::{Need, has};
use crate::cloud::assert_contract;
use crate::proxy::{Proxy, Weather};
use crate::scale::rounds;
use crate::scene::{self, DEVICES_CONFIG, PERSISTENT, Scene, Setting, assert_received, seed, wait_until};
use crate::stage::{self, assert_no_panic, assert_nothing_lost, assert_same, fleet, has_all, held, undisturbed};

const SEED: u64 = 20_261_205;
const DEVICES: u32 = 10;
/// The agent has to find out by itself that a wire is dark.
const WATCHFUL: &str = "keep_alive = \"5s\"";
/// What a broker resends unmarked counts once.
const DEDUP: &str = "dedup = { by = \"time_and_values\", horizon = 1024 }\ndevices_max = 20";

#[test]
fn wires_that_fail_in_every_way_lose_nothing() {
    let rounds = rounds(10, 100);
    let deliveries = fleet(20, DEVICES, 4 * rounds + 30);
    let config = Config { broker: WATCHFUL, ..stage::config() };
    let mut scene = Scene::set(Setting { config, ..Setting::plain() });
    let mut rng = Rng::new(seed(SEED));
    let parts: Vec<_> = deliveries.chunks(deliveries.len() / usize::try_from(rounds).unwrap() + 1).collect();
    let mut happened = Vec::new();
    for part in parts {
        let (before, during) = part.split_at(part.len() / 2);
        scene.publish(before);
        let wire = if rng.chance(2) { &scene.wire } else { &scene.uplink_wire }.clone();
        // Each way to fail once before any comes again.
        let what = happened.len() as u64 % 6;
        happened.push(what);
        fail(&wire, what, &mut rng);
        scene.publish(during);
        scene.cloud.receive_for(Duration::from_millis(rng.below(3_000)));
        wire.set_weather(Weather::Fair);
    }
    assert_nothing_lost(&mut scene, &deliveries);
    assert_same(&scene, &undisturbed(&deliveries));
    println!("figure torture.wires {rounds}");
}

fn fail(wire: &Proxy, what: u64, rng: &mut Rng) {
    match what {
        0 => wire.set_weather(Weather::Dark),
        1 => wire.set_weather(Weather::Slow(Duration::from_secs(2))),
        2 => wire.set_weather(Weather::Stalled),
        3 => wire.reset(),
        4 => wire.leave_half_open(),
        _ => {
            wire.set_deaf(rng.chance(2));
            wire.cut();
        }
    }
}

/// Kills the devices' broker again and again, in the middle of what it delivers.
fn a_forgetful_broker(lines: &[&str], name: &str) {
    let rounds = rounds(4, 20);
    let deliveries = scene::fleet(21, DEVICES, 20 * rounds);
    let devices = Broker::mosquitto(&[DEVICES_CONFIG, lines].concat());
    let config = Config { broker: WATCHFUL, stream: DEDUP, ..Config::default() };
    let mut scene = Scene::set(Setting { devices: Some(devices), config, ..Setting::plain() });
    scene.wire.tap().start();
    // In a connection that is listened to.
    let first = connections(&scene);
    scene.wire.cut();
    wait_for_connection(&scene, first);
    let mut rng = Rng::new(seed(SEED));
    let closing = deliveries.len() - DEVICES as usize;
    for part in deliveries[..closing].chunks(closing / usize::try_from(rounds).unwrap() + 1) {
        let (before, during) = part.split_at(usize::try_from(rng.below(part.len() as u64)).unwrap());
        scene.publish(before);
        // It dies with a backlog, or with acknowledgements that it did not hear, or drains.
        scene.wire.set_weather(match rng.below(4) {
            0 => Weather::Stalled,
            1 => Weather::Deaf,
            2 => Weather::Slow(Duration::from_millis(50)),
            _ => Weather::Fair,
        });
        scene.publish(during);
        scene.cloud.receive_for(Duration::from_millis(rng.below(100)));
        let before = connections(&scene);
        scene.devices_mut().kill();
        scene.wire.cut();
        scene.wire.set_weather(Weather::Fair);
        scene.devices_mut().restart();
        wait_for_connection(&scene, before);
    }
    scene.publish(&deliveries[closing..]);
    scene.cloud.wait_until("all devices have reported past the end", |_| {
        delivered(&scene.wire, &deliveries[closing..]).len() == DEVICES as usize
    });
    let delivered = delivered(&scene.wire, &deliveries);
    let unique = delivered.len() as u64;
    let agent = &scene.agent;
    scene.cloud.wait_until("everything that was delivered", |cloud| {
        agent.status().is_some_and(|status| ledger(&status, "accepted") >= unique && has_all(cloud, &status))
    });
    assert_received(&scene.cloud.receiver, &delivered);
    scene.cloud.assert_contract();
    assert_no_panic(&scene);
    let status = scene.agent.status().expect("the agent answers");
    assert_eq!(ledger(&status, "accepted"), unique, "each counts once: {status}");
    println!(
        "figure torture.devices_broker_killed_{name} {rounds} ({} published, {unique} delivered, {} came again)",
        deliveries.len(),
        ledger(&status, "duplicate") + ledger(&status, "redelivered")
    );
}

/// With the devices' broker, of this process.
fn connections(scene: &Scene) -> u64 {
    scene.agent.status().expect("the agent answers")["devices"]["connections"].as_u64().unwrap()
}

/// Until there is one more than `before`, and what devices send reaches the agent.
fn wait_for_connection(scene: &Scene, before: u64) {
    wait_until("the agent is connected again", || {
        scene.agent.status().is_some_and(|status| {
            let devices = &status["devices"];
            devices["connections"].as_u64() > Some(before) && devices["subscribed"] == true
        })
    });
}

/// Those of them that were written to the agent's socket, once each.
fn delivered(wire: &Proxy, deliveries: &[Delivery]) -> Vec<Delivery> {
    let payloads: BTreeSet<_> = wire.tap().heard().delivered.into_iter().collect();
    let came = |one: &&Delivery| payloads.contains(&(one.topic.clone(), one.payload.clone()));
    deliveries.iter().filter(came).cloned().collect()
}

#[test]
fn a_devices_broker_that_loses_its_memory_costs_what_it_had_not_delivered() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    a_forgetful_broker(&[], "without_persistence");
}

#[test]
fn a_devices_broker_that_wakes_up_in_its_past_costs_what_it_had_not_delivered() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let lines = ["persistence true", "persistence_location {dir}/", "autosave_on_changes true", "autosave_interval 50"];
    a_forgetful_broker(&lines, "with_persistence");
}

/// Kills the cloud's broker again and again, in the middle of a drain.
fn a_forgetful_cloud(lines: &[&str], name: &str) {
    let rounds = rounds(5, 20);
    let deliveries = fleet(22, DEVICES, 20 * rounds);
    let cloud = Broker::mosquitto(lines);
    let config = Config { broker: WATCHFUL, ..Config::default() };
    let mut scene = Scene::set(Setting { cloud, config, ..Setting::plain() });
    scene.uplink_wire.tap().start();
    scene.uplink_wire.cut();
    // Something is always on its way when it dies.
    scene.uplink_wire.set_weather(Weather::Slow(Duration::from_millis(50)));
    let mut rng = Rng::new(seed(SEED));
    for part in deliveries.chunks(deliveries.len() / usize::try_from(rounds).unwrap() + 1) {
        let (alive, dead) = part.split_at(part.len() / 2);
        scene.publish(alive);
        scene.cloud.receive_for(Duration::from_millis(rng.below(100)));
        scene.cloud_broker.kill();
        scene.publish(dead);
        wait_until("the agent has seen it go", || {
            scene.agent.status().is_some_and(|status| status["uplink"]["connected"] == false)
        });
        scene.cloud_broker.restart();
        if rng.chance(2) {
            wait_until("it drains", || {
                scene.agent.status().is_some_and(|status| status["uplink"]["connected"] == true)
            });
        }
    }
    scene.wait_for_received(deliveries.len());
    let agent = &scene.agent;
    wait_until("everything is acknowledged", || agent.status().is_some_and(|status| held(&status) == 0));
    let mut receiver = Receiver::new();
    for (topic, payload) in scene.uplink_wire.tap().heard().acked {
        if topic.contains("/data/") {
            receiver.handle_message(&payload).expect("the contract is kept");
        }
    }
    assert_received(&receiver, &deliveries);
    assert_contract(&receiver);
    assert_no_panic(&scene);
    println!(
        "figure torture.cloud_broker_killed_{name} {rounds} ({} records acknowledged, {} reached a subscriber)",
        receiver.records(),
        scene.cloud.receiver.records()
    );
}

#[test]
fn a_cloud_broker_that_loses_its_memory_has_acknowledged_everything_once_at_least() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    a_forgetful_cloud(&["max_queued_messages 100000"], "without_persistence");
}

#[test]
fn a_cloud_broker_that_wakes_up_in_its_past_has_acknowledged_everything_once_at_least() {
    if !has(&[Need::Mosquitto]) {
        return;
    }
    let lines = ["autosave_on_changes true", "autosave_interval 20"];
    a_forgetful_cloud(&[PERSISTENT, &lines].concat(), "with_persistence");
}
