//! Many publishers in one thread: non-blocking sockets behind one epoll, frames that are
//! patched instead of written, one read and one write per wake-up of a connection.
//!
//! It has to cost far less than what it measures, which `listener.load.ceiling…` proves.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::frame::{Publish, acks, connect};
use crate::process::{cpu_time, figure};

/// Nothing acknowledges for so long: the server hangs.
const STALL_MAX: Duration = Duration::from_mins(1);
/// Packet ids in use: more than any window, so that a slot's send time is its message's.
const SLOTS: u16 = 1_024;

/// What is sent.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) clients: usize,
    /// Unacknowledged messages of each.
    pub(crate) window: u16,
    /// Messages in all.
    pub(crate) messages: u64,
    /// Messages a second of all together, spread evenly over them; `None`: as fast as it goes.
    pub(crate) per_second: Option<u64>,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) took: Duration,
    pub(crate) messages: u64,
    /// Of the generator itself.
    pub(crate) cpu: Duration,
    /// From the write to the acknowledgement, sorted.
    latencies_us: Vec<u32>,
}

impl Outcome {
    pub(crate) fn per_second(&self) -> f64 {
        self.messages as f64 / self.took.as_secs_f64()
    }

    /// Milliseconds that so many hundredths of the messages took at most.
    pub(crate) fn latency_ms(&self, hundredths: usize) -> f64 {
        let at = (self.latencies_us.len() * hundredths / 100).min(self.latencies_us.len() - 1);
        f64::from(self.latencies_us[at]) / 1e3
    }
}

struct Connection {
    stream: TcpStream,
    publish: Publish,
    /// The next packet id, 1 to `SLOTS`.
    next_id: u16,
    unacknowledged: u16,
    /// Messages that it may still start.
    left: u64,
    /// When each id was written, in µs since the start.
    written_us: Vec<u32>,
    output: Vec<u8>,
    input: Vec<u8>,
}

/// Connections that are let in and quiet.
pub(crate) struct Load {
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
}

impl Load {
    /// Connects so many clients, one after the other.
    pub(crate) fn connect(port: u16, clients: usize) -> Load {
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let connections: Vec<Connection> = (0..clients).map(|number| Connection::open(port, number)).collect();
        for (number, connection) in connections.iter().enumerate() {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            epoll::add(&epoll, &connection.stream, EventData::new_u64(number as u64), flags).unwrap();
        }
        Load { epoll, connections }
    }

    /// Sends what the plan says and waits for the last acknowledgement.
    pub(crate) fn run(&mut self, plan: Plan) -> Outcome {
        let (began, cpu) = (Instant::now(), cpu_time());
        let (mut acknowledged, mut last) = (0, Instant::now());
        let mut latencies_us = Vec::with_capacity(usize::try_from(plan.messages).unwrap());
        let clients = self.connections.len();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.left = match plan.per_second {
                Some(_) => 0,
                None => plan.messages / clients as u64 + u64::from((number as u64) < plan.messages % clients as u64),
            };
            connection.fill(plan.window, micros(began));
            connection.flush();
        }
        let mut pace = Pace { due: 0, started: 0 };
        let mut events = Vec::with_capacity(1_024);
        while acknowledged < plan.messages {
            events.clear();
            let wait = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: if plan.per_second.is_some() { 500_000 } else { 100_000_000 },
            };
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait)).unwrap();
            let now_us = micros(began);
            for Event { data, flags } in events.iter().copied() {
                let connection = &mut self.connections[usize::try_from(data.u64()).unwrap()];
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    acknowledged += connection.receive(now_us, &mut latencies_us);
                    last = Instant::now();
                }
                connection.fill(plan.window, now_us);
                connection.flush();
            }
            if let Some(per_second) = plan.per_second {
                self.start_due(&mut pace, plan, per_second, now_us);
            }
            assert!(last.elapsed() < STALL_MAX, "{acknowledged} of {} are acknowledged", plan.messages);
        }
        latencies_us.sort_unstable();
        Outcome { took: began.elapsed(), messages: plan.messages, cpu: cpu_time().saturating_sub(cpu), latencies_us }
    }

    /// Paced: the messages that are due by now, of one client after the other.
    fn start_due(&mut self, pace: &mut Pace, plan: Plan, per_second: u64, now_us: u32) {
        pace.due = (u64::from(now_us) * per_second / 1_000_000).min(plan.messages);
        let clients = self.connections.len() as u64;
        while pace.started < pace.due {
            let connection = &mut self.connections[usize::try_from(pace.started % clients).unwrap()];
            connection.left += 1;
            pace.started += 1;
            connection.fill(plan.window, now_us);
            connection.flush();
        }
    }
}

/// How far a paced run is.
struct Pace {
    due: u64,
    started: u64,
}

impl Connection {
    fn open(port: u16, number: usize) -> Connection {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(STALL_MAX)).unwrap();
        stream.write_all(&connect(number)).unwrap();
        let mut connack = [0; 4];
        stream.read_exact(&mut connack).unwrap();
        assert_eq!(connack, [0x20, 2, 0, 0], "client {number} is let in");
        stream.set_nonblocking(true).unwrap();
        let written_us = vec![0; usize::from(SLOTS) + 1];
        let publish = Publish::new(number);
        Connection {
            stream,
            publish,
            next_id: 1,
            unacknowledged: 0,
            left: 0,
            written_us,
            output: Vec::new(),
            input: Vec::new(),
        }
    }

    /// Writes as many messages as the window has room for.
    fn fill(&mut self, window: u16, now_us: u32) {
        while self.left > 0 && self.unacknowledged < window {
            let id = self.next_id;
            self.publish.write(id, &mut self.output);
            self.written_us[usize::from(id)] = now_us;
            self.next_id = id % SLOTS + 1;
            self.unacknowledged += 1;
            self.left -= 1;
        }
    }

    /// Sends what the socket takes; the rest when it is writable again.
    fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(len) => drop(self.output.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("the server hangs up: {error}"),
            }
        }
    }

    /// Takes all acknowledgements that are there. Returns how many.
    fn receive(&mut self, now_us: u32, latencies_us: &mut Vec<u32>) -> u64 {
        let mut buffer = [0; 4_096];
        let mut count = 0;
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => panic!("the server hangs up"),
                Ok(len) => self.input.extend_from_slice(&buffer[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return count,
                Err(error) => panic!("the server hangs up: {error}"),
            }
            let written_us = &self.written_us;
            acks(&mut self.input, |id| {
                latencies_us.push(now_us.saturating_sub(written_us[usize::from(id)]));
                self.unacknowledged -= 1;
                count += 1;
            });
        }
    }
}

fn micros(began: Instant) -> u32 {
    u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX)
}

/// What the generator reaches where the other side does nothing but acknowledge.
pub(crate) fn measure_ceiling() {
    const MESSAGES: u64 = 500_000;
    for clients in [1, 10, 100] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::scope(|scope| {
            scope.spawn(move || acknowledge(&listener, clients));
            let plan = Plan { clients, window: 20, messages: MESSAGES, per_second: None };
            let before = thread_cpu();
            let mut load = Load::connect(port, plan.clients);
            let outcome = load.run(plan);
            let spent = thread_cpu().saturating_sub(before).as_secs_f64();
            figure(&format!("listener.load.ceiling.msgs_per_s.{clients}_clients"), outcome.per_second(), "1/s");
            figure(
                &format!("listener.load.ceiling.cpu_us_per_msg.{clients}_clients"),
                spent * 1e6 / MESSAGES as f64,
                "us",
            );
        });
    }
}

fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// A peer that lets everybody in and acknowledges each frame without looking at it.
fn acknowledge(listener: &TcpListener, clients: usize) {
    let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
    let mut peers: Vec<(TcpStream, Vec<u8>, usize)> = (0..clients)
        .map(|number| {
            let mut stream = listener.accept().unwrap().0;
            let mut packet = vec![0; connect(number).len()];
            stream.read_exact(&mut packet).unwrap();
            stream.write_all(&[0x20, 2, 0, 0]).unwrap();
            stream.set_nodelay(true).unwrap();
            epoll::add(&epoll, &stream, EventData::new_u64(number as u64), EventFlags::IN).unwrap();
            (stream, Vec::new(), Publish::new(number).len())
        })
        .collect();
    let (mut events, mut buffer) = (Vec::with_capacity(1_024), vec![0; 65_536]);
    let mut open = clients;
    while open > 0 {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        for Event { data, .. } in events.iter().copied() {
            let (stream, input, frame) = &mut peers[usize::try_from(data.u64()).unwrap()];
            let len = stream.read(&mut buffer).unwrap_or(0);
            if len == 0 {
                epoll::delete(&epoll, &*stream).unwrap();
                open -= 1;
                continue;
            }
            input.extend_from_slice(&buffer[..len]);
            let whole = input.len() / *frame * *frame;
            let answer: Vec<u8> =
                input[..whole].chunks_exact(*frame).flat_map(|one| [0x40, 2, one[12], one[13]]).collect();
            input.drain(..whole);
            // The generator may be gone with its last acknowledgement.
            let _ = stream.write_all(&answer);
        }
    }
}
