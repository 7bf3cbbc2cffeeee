//! How attackers send: raw, without waiting for anybody, until they are called back.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{RecvFlags, recv};

use crate::client::WAIT_MAX;

/// For a blocked attacker to see that it is called back.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Attackers, each in a thread of its own.
pub(crate) struct Attack {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    connections: AtomicUsize,
}

/// What an attacker has of it.
pub(crate) struct Orders(Arc<Shared>);

impl Attack {
    pub(crate) fn new() -> Attack {
        let shared = Shared { stop: AtomicBool::new(false), connections: AtomicUsize::new(0) };
        Attack { shared: Arc::new(shared), threads: Vec::new() }
    }

    /// One more attacker.
    pub(crate) fn add(&mut self, work: impl FnOnce(&Orders) + Send + 'static) {
        let orders = Orders(Arc::clone(&self.shared));
        self.threads.push(std::thread::spawn(move || work(&orders)));
    }

    /// One that says this on each of its connections, again and again the second, and opens a
    /// new one when the server ends it. `reads`: what it is sent; else that stays in the socket.
    pub(crate) fn flood(&mut self, port: u16, hello: Vec<u8>, again: Vec<u8>, reads: bool) {
        self.add(move |orders| {
            while orders.go_on() {
                let Some(mut raw) = Raw::open(port, orders) else { continue };
                if raw.pour(&hello, orders) {
                    while raw.pour(&again, orders) {
                        if reads {
                            raw.drain();
                        }
                    }
                }
            }
        });
    }

    /// Waits until all of them have done what they came for.
    pub(crate) fn finish(self) -> usize {
        for thread in self.threads {
            thread.join().expect("an attacker only stops");
        }
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Calls all of them back. Returns how many connections they have had.
    pub(crate) fn end(self) -> usize {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.finish()
    }
}

impl Orders {
    pub(crate) fn go_on(&self) -> bool {
        !self.0.stop.load(Ordering::Relaxed)
    }
}

/// A connection without any manners.
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    /// `None`: the server does not take it now.
    pub(crate) fn open(port: u16, orders: &Orders) -> Option<Raw> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        stream.set_write_timeout(Some(LOOK_UP)).ok()?;
        orders.0.connections.fetch_add(1, Ordering::Relaxed);
        Some(Raw(stream))
    }

    /// All of it. False: it was called back, or the server has ended the connection.
    pub(crate) fn pour(&mut self, mut bytes: &[u8], orders: &Orders) -> bool {
        while !bytes.is_empty() {
            if !orders.go_on() {
                return false;
            }
            match self.0.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes what has come, and waits for nothing.
    pub(crate) fn drain(&mut self) {
        let mut buffer = [0; 16 * 1_024];
        while let Ok((1.., _)) = recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {}
    }
}

/// A connection that has said this, and no more; `None`: it was refused at once.
pub(crate) fn say(port: u16, bytes: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
    stream.write_all(bytes).ok()?;
    Some(stream)
}

/// The server ends the connection, whatever it says before. Fails when it does not.
pub(crate) fn ends(stream: &mut TcpStream) {
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection is not ended within {WAIT_MAX:?}")
            }
            // A reset.
            Err(_) => return,
        }
    }
}
