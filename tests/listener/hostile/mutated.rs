//! Packets of both versions, mutated and cut at random, over sockets.

use std::io::Write as _;
use std::net::Shutdown;

use super::attack::{Attack, Raw, ends};
use super::{Siege, scaled};
use crate::client::WAIT_MAX;
pub(super) use crate::streams::Dice;
use crate::streams::stream;

const ATTACKERS: u64 = 8;
/// Of each attacker.
const STREAMS: usize = 150;

#[test]
fn mutated_streams_end_their_own_connection_and_nothing_else() {
    let siege = Siege::begin("mutated streams", "connect_within = '1s'\n");
    let mut attack = Attack::new();
    for number in 0..ATTACKERS {
        let port = siege.server.port;
        attack.add(move |orders| {
            let mut dice = Dice::numbered(number);
            for _ in 0..scaled(STREAMS) {
                let stream = stream(&mut dice);
                let Some(Raw(mut raw)) = Raw::open(port, orders) else { continue };
                raw.set_read_timeout(Some(WAIT_MAX)).unwrap();
                raw.set_write_timeout(Some(WAIT_MAX)).unwrap();
                // In pieces: what comes at once is decoded at once.
                for piece in stream.chunks(1 + dice.below(400)) {
                    if raw.write_all(piece).is_err() {
                        break;
                    }
                }
                let _ = raw.shutdown(Shutdown::Write);
                ends(&mut raw);
            }
        });
    }
    siege.endure();
    let streams = attack.finish();
    let figures = siege.end();
    println!("{streams} streams");
    for reason in ["malformed", "protocol", "not_mqtt", "topic"] {
        assert!(figures.refused(reason) > 0, "none was {reason}");
    }
}
