//! What one packet can set off.

use super::Siege;
use super::attack::Attack;
use crate::client::Connect;
use crate::wire::{Version, publish, subscribe};

fn hello(id: &str) -> Vec<u8> {
    Connect::new(Version::V5, id).bytes()
}

#[test]
fn a_subscription_named_a_thousand_times_is_one() {
    let siege = Siege::begin("one filter a thousand times, 2,000 retained", "");
    let mut device = Connect::new(Version::V5, "device").open(&siege.server);
    for number in 0..2_000 {
        device.send(&publish(Version::V5, 0x01, &format!("kept/{number}"), 0, &[], b"kept"));
    }
    device.ping();
    let again = subscribe(Version::V5, 1, &[], &[("kept/#", 0); 1_000]);
    let mut attack = Attack::new();
    for number in 0..3 {
        attack.flood(siege.server.port, hello(&format!("flood-{number}")), again.clone(), true);
    }
    siege.endure();
    attack.end();
    siege.end();
}

#[test]
fn a_burst_to_many_readers_is_passed_on_in_pieces() {
    let siege = Siege::begin("small messages to 1,000 readers", "");
    let port = siege.server.port;
    let readers: Vec<_> = (0..1_000)
        .map(|number| {
            let hello = [hello(&format!("lazy-{number}")), subscribe(Version::V5, 1, &[], &[("f", 0)])];
            super::attack::say(port, &hello.concat()).expect("there is room")
        })
        .collect();
    let mut attack = Attack::new();
    attack.flood(port, hello("flood"), publish(Version::V5, 0, "f", 1, &[], b"").repeat(6_000), true);
    siege.endure();
    attack.end();
    drop(readers);
    siege.end();
}
