//! Devices that connect to the agent itself, over kills and power cuts: what they were told
//! is on disk, is.
//!
//! Each device goes on by itself: it sends in a session that the agent keeps, and what was not
//! acknowledged, again, marked, under its packet id. At the instant of a cut both wires go
//! dark. So nothing that the dying agent said after it is heard, and every acknowledgement
//! that was heard is of before. The end state is that of a run that nobody disturbed: every
//! message is in its windows, once.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate::agent::mqtt::client::{ClientSpec, Publisher};
use tidegate::fleet::Delivery;
use tidegate::model::rng::Rng;

use crate::card::Kept;
use crate::cloud::WAIT_MAX;
use crate::mounted::{Volume, is_possible};
use crate::proxy::Weather;
use crate::scale::rounds;
use crate::scene::{Scene, Setting, seed, wait_until};
use crate::stage::{assert_nothing_lost, assert_same, config, fleet, undisturbed};

/// Names the moments; `E2E_SEED` names other ones.
const SEED: u64 = 20_261_203;
const DEVICES: u32 = 40;
/// Connections, each with some of the devices.
const CONNECTIONS: usize = 8;
const REQUESTS: u64 = 60;

/// Devices that nobody waits for.
struct Fleet {
    chunks: Vec<Sender<Vec<Delivery>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Fleet {
    fn start(port: u16) -> Fleet {
        let (chunks, threads) = (0..CONNECTIONS)
            .map(|number| {
                let (sender, receiver) = channel();
                (sender, thread::spawn(move || publish(port, number, &receiver)))
            })
            .unzip();
        Fleet { chunks, threads }
    }

    /// They begin to send these, each device in its order, once they have sent what came before.
    fn send(&self, deliveries: &[Delivery]) {
        let mut shares: BTreeMap<usize, Vec<Delivery>> = BTreeMap::new();
        for delivery in deliveries {
            let digits = delivery.device.bytes().filter(u8::is_ascii_digit);
            let number = digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
            shares.entry(number % CONNECTIONS).or_default().push(delivery.clone());
        }
        for (place, share) in shares {
            self.chunks[place].send(share).expect("the device goes on");
        }
    }

    /// Until all is acknowledged.
    fn finish(self) {
        drop(self.chunks);
        self.threads.into_iter().for_each(|thread| thread.join().expect("the device has sent everything"));
    }
}

fn publish(port: u16, number: usize, chunks: &Receiver<Vec<Delivery>>) {
    let client_id = format!("device-{number}");
    let mut publisher = Publisher::new(ClientSpec { host: "127.0.0.1".into(), port, client_id, clean: false });
    for chunk in chunks {
        for delivery in chunk {
            publisher.publish(&delivery.topic, &delivery.payload, WAIT_MAX).expect("the agent comes back");
        }
        publisher.flush(WAIT_MAX).expect("the agent comes back");
    }
}

fn direct(dir: Option<&std::path::Path>) -> Scene {
    Scene::set(Setting { config: config(), dir, ..Setting::direct() })
}

/// The wires carry again, to connections that begin now.
fn mend(scene: &Scene) {
    for wire in [&scene.wire, &scene.uplink_wire] {
        wire.cut();
        wire.set_weather(Weather::Fair);
    }
}

#[test]
fn power_cuts_lose_nothing_that_a_device_was_told_is_on_disk() {
    if !is_possible() {
        return;
    }
    let cuts = rounds(8, 200);
    let deliveries = fleet(5, DEVICES, 6 * cuts + 60);
    let undisturbed = undisturbed(&deliveries);

    let dir = tempfile::tempdir().unwrap();
    let mut volume = Volume::new(&dir.path().join("state"));
    let mut scene = direct(Some(dir.path()));
    let epoch = scene.agent.status().expect("it listens")["engine"]["epoch"].clone();
    let devices = Fleet::start(scene.wire.port);
    let mut rng = Rng::new(seed(SEED));
    let mut left = deliveries.as_slice();
    let mut planned = 0;
    for cut in 0..cuts {
        let share = left.len() as u64 / (cuts - cut);
        let (now, rest) = left.split_at(usize::try_from(rng.between(0, share * 2)).unwrap().min(left.len()));
        left = rest;
        let wires = [scene.wire.clone(), scene.uplink_wire.clone()];
        volume.card().plan_cut(rng.below(REQUESTS), Kept::any(&mut rng), Rng::fork(SEED, cut), move || {
            for wire in &wires {
                wire.set_weather(Weather::Dark);
            }
        });
        if cut > 0 {
            scene.agent.start();
            wait_until("the agent starts again", || scene.agent.status().is_some());
            let status = scene.agent.status().expect("it has just answered");
            assert_eq!(status["engine"]["epoch"], epoch, "before cut {cut}: a cut is no damage: {status}");
        }
        devices.send(now);
        for _ in 0..rng.below(30) {
            if volume.card().is_cut() {
                break;
            }
            scene.cloud.receive_for(Duration::from_millis(10));
        }
        planned += u64::from(volume.card().is_cut());
        let image = volume.card().cut();
        scene.agent.kill();
        volume.replace(image);
        mend(&scene);
    }
    scene.agent.start();
    devices.send(left);
    devices.finish();

    assert_nothing_lost(&mut scene, &deliveries);
    assert_same(&scene, &undisturbed);
    let again = redelivered(&scene);
    println!("figure torture.listener_power_cuts {cuts} ({planned} while writing, {again} messages came again)");
}

#[test]
fn kills_change_nothing_for_devices_that_connect_to_the_agent() {
    let kills = rounds(15, 300);
    let deliveries = fleet(6, DEVICES, 4 * kills + 30);
    let undisturbed = undisturbed(&deliveries);

    let mut scene = direct(None);
    let devices = Fleet::start(scene.wire.port);
    let mut rng = Rng::new(seed(SEED));
    let mut left = deliveries.as_slice();
    for kill in 0..kills {
        let share = left.len() as u64 / (kills - kill);
        let (now, rest) = left.split_at(usize::try_from(rng.between(0, share * 2)).unwrap().min(left.len()));
        left = rest;
        devices.send(now);
        let longest = if rng.chance(5) { 40 } else { 350 };
        scene.cloud.receive_for(Duration::from_millis(rng.below(longest)));
        // One in two lives ends with acknowledgements that are never heard.
        if rng.chance(2) {
            scene.wire.set_weather(Weather::Dark);
            scene.cloud.receive_for(Duration::from_millis(rng.below(60)));
        }
        scene.agent.kill();
        mend(&scene);
        scene.agent.start();
    }
    devices.send(left);
    devices.finish();

    assert_nothing_lost(&mut scene, &deliveries);
    assert_same(&scene, &undisturbed);
    println!("figure torture.listener_kills {kills} ({} messages came again)", redelivered(&scene));
}

fn redelivered(scene: &Scene) -> u64 {
    crate::agent::ledger(&scene.agent.status().expect("the agent answers"), "redelivered")
}
