//! A wire between the agent and a broker that can lose what the agent says.
//!
//! A commit and the acknowledgement behind it are less than a millisecond
//! apart, so a kill hardly ever falls between them. Here the acknowledgements
//! get lost instead: the agent has sent them, the broker never hears them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards connections to one port for as long as the process lives.
pub(crate) struct Proxy {
    /// Where to connect instead.
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    deaf: AtomicBool,
    lost: AtomicUsize,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// In front of a broker, which may come and go.
    pub(crate) fn start(broker: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // The broker is down: the client sees its connection end.
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, broker)) else { continue };
                shared.open.lock().unwrap().push(server.try_clone().unwrap());
                connect(client, server, &shared);
            }
        });
        Proxy { port, state }
    }

    /// Whether the broker hears what the agent says. It can always speak.
    /// Counts what is lost from now on.
    pub(crate) fn set_deaf(&self, deaf: bool) {
        self.state.lost.store(0, Ordering::SeqCst);
        self.state.deaf.store(deaf, Ordering::SeqCst);
    }

    /// Bytes that the broker did not hear.
    pub(crate) fn lost(&self) -> usize {
        self.state.lost.load(Ordering::SeqCst)
    }

    /// Ends all connections, without a word to either end.
    pub(crate) fn cut(&self) {
        for stream in self.state.open.lock().unwrap().drain(..) {
            // It may have ended before.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (client_out, server_out) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let state = Arc::clone(state);
    thread::spawn(move || {
        forward(client, server_out, |len| {
            let lost = state.deaf.load(Ordering::SeqCst);
            state.lost.fetch_add(if lost { len } else { 0 }, Ordering::SeqCst);
            lost
        });
    });
    thread::spawn(move || forward(server, client_out, |_| false));
}

/// Until either end is gone; then both are.
fn forward(mut from: TcpStream, mut to: TcpStream, is_lost: impl Fn(usize) -> bool) {
    let mut chunk = [0; 16 * 1024];
    while let Ok(len) = from.read(&mut chunk) {
        if len == 0 || (!is_lost(len) && to.write_all(&chunk[..len]).is_err()) {
            break;
        }
    }
    for stream in [from, to] {
        // The other direction may have done it.
        let _ = stream.shutdown(Shutdown::Both);
    }
}
