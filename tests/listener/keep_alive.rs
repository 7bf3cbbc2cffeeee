//! Silence: what the server ends, and what it does not.

use crate::client::Connect;
use crate::server::Server;
use crate::wire::{BOTH, Version};

#[test]
fn a_silent_client_is_cut_off_after_its_keep_alive() {
    for version in BOTH {
        let server = Server::start();
        let mut silent = Connect::new(version, "silent").keep_alive(1).open(&server);
        let reason = silent.ends();
        if version == Version::V5 && server.is_ours() {
            assert_eq!(reason, Some(0x8D), "keep alive timeout");
        }
    }
}

#[test]
fn a_client_without_keep_alive_and_one_that_pings_stay() {
    for version in BOTH {
        let server = Server::start();
        let mut quiet = Connect::new(version, "quiet").open(&server);
        let mut lively = Connect::new(version, "lively").keep_alive(1).open(&server);
        let mut silent = Connect::new(version, "silent").keep_alive(3).open(&server);
        // The silent one measures the time: four and a half seconds of the server's clock.
        let (done, end) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while end.try_recv().is_err_and(|error| error == std::sync::mpsc::TryRecvError::Empty) {
                    lively.ping();
                    // Not sleeping: a pause that ends early when the test does.
                    if end.recv_timeout(std::time::Duration::from_millis(200)).is_ok() {
                        break;
                    }
                }
                lively.ping();
            });
            silent.ends();
            drop(done);
        });
        quiet.ping();
    }
}
