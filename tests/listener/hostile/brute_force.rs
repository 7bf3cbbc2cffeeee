//! Passwords that are guessed.

use super::Siege;
use super::attack::{Attack, Raw};
use crate::client::{Connect, WAIT_MAX};
use crate::server::tidegate;
use crate::wire::Version;

const GUESSERS: usize = 50;

fn set_password(dir: &std::path::Path, user: &str, password: &str) {
    let done = tidegate(&["password", "set", dir.join("passwords").to_str().unwrap(), user], password);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn guessing_keeps_no_honest_client_out() {
    let section = |dir: &std::path::Path, port: u16| {
        for user in ["anna", "bert", "carl"] {
            set_password(dir, user, &format!("{user}'s password"));
        }
        format!("tcp = '127.0.0.1:{port}'\nack_within = '10ms'\npassword_file = '{}/passwords'\n", dir.display())
    };
    let login = |version, user: &str| Connect::new(version, user).login(user, &format!("{user}'s password"));
    let siege = Siege::configured("guessing", &section, &login(Version::V311, "anna"), &login(Version::V5, "bert"));
    let mut attack = Attack::new();
    for number in 0..GUESSERS {
        let port = siege.server.port;
        attack.add(move |orders| {
            let mut guess = 0;
            while orders.go_on() {
                guess += 1;
                let user = ["anna", "carl", "nobody"][guess % 3];
                let hello = Connect::new(Version::V5, "guess").login(user, &format!("{number}-{guess}"));
                let Some(mut raw) = Raw::open(port, orders) else { continue };
                raw.0.set_read_timeout(Some(WAIT_MAX)).unwrap();
                if raw.pour(&hello.bytes(), orders) {
                    super::attack::ends(&mut raw.0);
                }
            }
        });
    }
    siege.endure();
    // Never seen before, and one that is known.
    login(Version::V5, "carl").open(&siege.server).ping();
    let began = std::time::Instant::now();
    login(Version::V5, "carl").open(&siege.server).ping();
    println!("a known password under attack: {:?}", began.elapsed());
    let guesses = attack.end();
    let figures = siege.end_without_newcomers(super::CAP_KIB);
    println!("{guesses} guesses");
    assert!(figures.refused("bad_credentials") > 0);
}
