//! A wire between the agent and a broker that does what wires do: it loses what the
//! agent says, goes dark without a word, takes two seconds, takes nothing any more, is
//! torn, is reset, or ends at one side only.
//!
//! A commit and the acknowledgement behind it are less than a millisecond
//! apart, so a kill hardly ever falls between them. Here the acknowledgements
//! get lost instead: the agent has sent them, the broker never hears them.
//!
//! Bytes are judged when they are read: what was read in fair weather arrives, what is
//! read after a change does not, so a change is one instant for both directions.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

use crate::tap::Tap;

/// Between two looks at the weather while nothing comes.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Pieces of up to 16 KiB on their way; beyond that the sender waits, as with TCP.
const ON_THE_WAY_MAX: usize = 256;

/// What becomes of bytes, in new connections too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// They arrive.
    Fair,
    /// What the agent says is lost; the broker can speak.
    Deaf,
    /// Both directions are lost, and neither end is told: a cable was pulled. Connections
    /// that lost something stay dark: their ends have to find out.
    Dark,
    /// They arrive this much later.
    Slow(Duration),
    /// Nobody takes them: the senders' buffers fill up.
    Stalled,
}

/// How one connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    /// Both ends see it end, and nothing that is on its way arrives.
    Cut,
    /// Both ends see it reset.
    Reset,
    /// The broker sees it end. The agent does not: what it says is lost.
    HalfOpen,
    /// Neither end sees it end: what both say is lost.
    Dark,
}

/// Forwards connections to one port for as long as the process lives.
#[derive(Clone)]
pub(crate) struct Proxy {
    /// Where to connect instead.
    pub(crate) port: u16,
    state: Arc<State>,
}

struct State {
    weather: Mutex<Weather>,
    lost: AtomicUsize,
    open: Mutex<Vec<Arc<Mutex<Fate>>>>,
    tap: Arc<Tap>,
}

impl Proxy {
    /// In front of a broker, which may come and go.
    pub(crate) fn start(broker: u16) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            weather: Mutex::new(Weather::Fair),
            lost: AtomicUsize::new(0),
            open: Mutex::default(),
            tap: Arc::default(),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // The broker is down: the client sees its connection end.
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, broker)) else { continue };
                connect(&client, &server, &shared);
            }
        });
        Proxy { port, state }
    }

    /// What the bytes on it said.
    pub(crate) fn tap(&self) -> &Tap {
        &self.state.tap
    }

    /// From now on. Counts what is lost from now on.
    pub(crate) fn set_weather(&self, weather: Weather) {
        self.state.lost.store(0, Ordering::SeqCst);
        *self.state.weather.lock().unwrap() = weather;
    }

    /// Whether the broker hears what the agent says. It can always speak.
    pub(crate) fn set_deaf(&self, deaf: bool) {
        self.set_weather(if deaf { Weather::Deaf } else { Weather::Fair });
    }

    /// Bytes of the agent that the broker did not hear.
    pub(crate) fn lost(&self) -> usize {
        self.state.lost.load(Ordering::SeqCst)
    }

    /// Ends all connections, without a word of MQTT to either end.
    pub(crate) fn cut(&self) {
        self.end(Fate::Cut);
    }

    /// As [`Proxy::cut`], but with a reset instead of an end.
    pub(crate) fn reset(&self) {
        self.end(Fate::Reset);
    }

    /// Ends all connections for the broker alone.
    pub(crate) fn leave_half_open(&self) {
        self.end(Fate::HalfOpen);
    }

    fn end(&self, how: Fate) {
        for fate in self.state.open.lock().unwrap().drain(..) {
            *fate.lock().unwrap() = how;
        }
    }
}

fn connect(client: &TcpStream, server: &TcpStream, state: &Arc<State>) {
    let fate = Arc::new(Mutex::new(Fate::Open));
    state.open.lock().unwrap().push(Arc::clone(&fate));
    for stream in [client, server] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(LOOK_AGAIN)).unwrap();
    }
    let listener = state.tap.listen();
    for (from, to, by_agent) in [(client, server, true), (server, client, false)] {
        let (sender, receiver) = mpsc::sync_channel(ON_THE_WAY_MAX);
        let way = Way { by_agent, fate: Arc::clone(&fate), state: Arc::clone(state) };
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        let (taking, mut listener) = (way.clone(), listener.clone());
        thread::spawn(move || taking.take(&from, &sender));
        thread::spawn(move || way.give(&to, &receiver, |bytes| listener.hear(by_agent, bytes)));
    }
}

type Piece = (Instant, Vec<u8>);

/// One direction of one connection.
#[derive(Clone)]
struct Way {
    by_agent: bool,
    fate: Arc<Mutex<Fate>>,
    state: Arc<State>,
}

impl Way {
    fn fate(&self) -> Fate {
        *self.fate.lock().unwrap()
    }

    /// Reads until either end is gone; then both are.
    fn take(&self, mut from: &TcpStream, on_the_way: &SyncSender<Piece>) {
        let mut chunk = [0; 16 * 1024];
        loop {
            let weather = *self.state.weather.lock().unwrap();
            let fate = self.fate();
            match fate {
                Fate::Open | Fate::HalfOpen if weather == Weather::Stalled && fate == Fate::Open => {
                    thread::park_timeout(LOOK_AGAIN);
                    continue;
                }
                Fate::Open | Fate::Dark => {}
                Fate::HalfOpen if self.by_agent => {}
                Fate::Cut | Fate::HalfOpen => return end(from),
                // The last handle that is dropped sends the reset.
                Fate::Reset => return set_socket_linger(from, Some(Duration::ZERO)).unwrap(),
            }
            match from.read(&mut chunk) {
                Ok(len) if len > 0 => self.judge(&chunk[..len], on_the_way),
                Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
                // One end gave up; in the dark the other does not hear of it.
                _ if self.fate() == Fate::Dark => return,
                _ => return end(from),
            }
        }
    }

    fn judge(&self, bytes: &[u8], on_the_way: &SyncSender<Piece>) {
        let weather = *self.state.weather.lock().unwrap();
        let mut fate = self.fate.lock().unwrap();
        if *fate == Fate::Open && weather == Weather::Dark {
            *fate = Fate::Dark;
        }
        let delay = match weather {
            _ if *fate != Fate::Open => None,
            Weather::Fair | Weather::Stalled => Some(Duration::ZERO),
            Weather::Slow(delay) => Some(delay),
            Weather::Deaf => (!self.by_agent).then_some(Duration::ZERO),
            Weather::Dark => None,
        };
        drop(fate);
        if let Some(delay) = delay {
            // The other end is gone: so is this one soon.
            let _ = on_the_way.send((Instant::now() + delay, bytes.to_vec()));
        } else if self.by_agent {
            self.state.lost.fetch_add(bytes.len(), Ordering::SeqCst);
        }
    }

    /// Writes what arrives, when it does.
    fn give(&self, mut to: &TcpStream, on_the_way: &Receiver<Piece>, mut hear: impl FnMut(&[u8])) {
        while let Ok((due, bytes)) = on_the_way.recv() {
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                if self.fate() != Fate::Open {
                    break;
                }
                thread::park_timeout(left.min(LOOK_AGAIN));
            }
            if self.fate() != Fate::Open {
                break;
            }
            hear(&bytes);
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        match self.fate() {
            Fate::Reset => set_socket_linger(to, Some(Duration::ZERO)).unwrap(),
            Fate::Dark => {}
            Fate::HalfOpen if !self.by_agent => {}
            Fate::Open | Fate::Cut | Fate::HalfOpen => end(to),
        }
    }
}

fn end(stream: &TcpStream) {
    // The other direction may have done it.
    let _ = stream.shutdown(Shutdown::Both);
}
