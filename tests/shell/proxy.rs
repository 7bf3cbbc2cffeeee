//! A TCP proxy that tears connections after a number of bytes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Between a client and a broker. Its threads end with the test program.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    connections: Arc<AtomicU32>,
    calm: Arc<AtomicU64>,
}

impl Proxy {
    /// Tears each connection after 200 to `bytes_max` bytes, both directions
    /// together, in the middle of whatever packet that is.
    pub(crate) fn start(broker: u16, seed: u64, bytes_max: u64) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
        let port = listener.local_addr().expect("an address").port();
        let connections = Arc::new(AtomicU32::new(0));
        let calm = Arc::new(AtomicU64::new(0));
        let (counter, calmness) = (Arc::clone(&connections), Arc::clone(&calm));
        thread::spawn(move || {
            let mut state = seed;
            for client in listener.incoming().map_while(Result::ok) {
                counter.fetch_add(1, Ordering::Relaxed);
                // Knuth's MMIX generator; the upper bits are good enough to tear cables.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let budget = (200 + (state >> 33) % bytes_max) | calmness.load(Ordering::Relaxed);
                // A broker that is down: the client sees a connection that ends.
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, broker)) {
                    join(&client, &server, budget);
                }
            }
        });
        Proxy { port, connections, calm }
    }

    /// From now on new connections hold.
    pub(crate) fn calm_down(&self) {
        self.calm.store(u64::MAX, Ordering::Relaxed);
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::Relaxed)
    }
}

fn join(client: &TcpStream, server: &TcpStream, budget: u64) {
    let left = Arc::new(Mutex::new(budget));
    for (from, to) in [(client, server), (server, client)] {
        let (from, to) = (from.try_clone().expect("cloned"), to.try_clone().expect("cloned"));
        from.set_nodelay(true).expect("set");
        let left = Arc::clone(&left);
        thread::spawn(move || {
            pump(&from, &to, &left);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
}

fn pump(mut from: &TcpStream, mut to: &TcpStream, left: &Mutex<u64>) {
    let mut bytes = [0; 4_096];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        let allowed = {
            let mut left = left.lock().expect("no panic");
            let allowed = usize::try_from(*left).unwrap_or(usize::MAX).min(len);
            *left -= allowed as u64;
            allowed
        };
        if to.write_all(&bytes[..allowed]).is_err() || allowed < len {
            return;
        }
    }
}
