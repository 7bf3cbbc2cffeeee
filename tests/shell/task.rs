//! One task of the shell on a runtime of its own, and the engine thread's end
//! of the inbox in the hands of the test.

use std::cell::RefCell;
use std::future::Future;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flume::Sender;
use tidegate::agent::clock::SystemClock;
use tidegate::agent::inbox::{Arrival, Inbox, InboxSender, Input, Outbound, inbox};
use tidegate::agent::mqtt::ingest::{self, IngestSpec};
use tidegate::agent::mqtt::local::{self, LocalTask};
use tidegate::agent::uplink::mqtt::{self as uplink, ACK_MAX, UplinkSpec};
use tidegate::config::boot::{BrokerSpec, LocalSpec, Protocol};
use tidegate::engine::step::{BatchId, Command, LocalRecord, Refusal, UplinkTerms};
use tidegate::model::time::Span;
use tokio::sync::watch;

/// Generous: two cores are shared with compilers.
const PATIENCE: Span = Span::from_secs(30);

/// Shorter than in the field, so that many connections fit into a test.
pub(crate) const RETRY_MAX: Span = Span::from_millis(60);

/// A running task.
pub(crate) struct Task {
    pub(crate) inbox: Inbox,
    /// Dropping the last sender of acknowledgements ends a connection, so one is kept.
    acks: RefCell<Option<Sender<u16>>>,
    commands: RefCell<Option<Sender<Command>>>,
    stop: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

/// A plain connection to loopback.
pub(crate) fn broker_spec(port: u16, client_id: &str) -> BrokerSpec {
    BrokerSpec {
        host: "127.0.0.1".into(),
        port,
        tls: None,
        protocol: Protocol::V311,
        proxy: None,
        client_id: client_id.into(),
        username: None,
        password: None,
        password_file: None,
        keep_alive: Span::from_secs(60),
    }
}

impl Task {
    pub(crate) fn ingest(broker: BrokerSpec, filters: &[&str]) -> Task {
        let filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
        let spec = IngestSpec { broker, filters, retry_max: RETRY_MAX };
        Task::start(|inbox, stop| ingest::run(spec, inbox, SystemClock::start(), stop))
    }

    pub(crate) fn uplink(broker: BrokerSpec) -> Task {
        Task::uplink_with(broker, ACK_MAX)
    }

    /// With another limit for how long a publish may be unacknowledged.
    pub(crate) fn uplink_with(broker: BrokerSpec, ack_max: Span) -> Task {
        let spec = UplinkSpec {
            acked: None,
            broker,
            status_topic: "t/gw/status".into(),
            will: b"offline".to_vec(),
            retry_max: RETRY_MAX,
            ack_max,
        };
        Task::start(|inbox, stop| uplink::run(spec, inbox, SystemClock::start(), stop))
    }

    pub(crate) fn local(broker: BrokerSpec, spec: LocalSpec) -> Task {
        let task = LocalTask { broker, spec, retry_max: RETRY_MAX };
        Task::start(|inbox, stop| local::run(task, inbox, SystemClock::start(), stop))
    }

    fn start<F: Future<Output = ()>>(
        task: impl FnOnce(InboxSender, watch::Receiver<bool>) -> F + Send + 'static,
    ) -> Task {
        let (sender, inbox) = inbox();
        let (stop, stopping) = watch::channel(false);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(task(sender, stopping));
        });
        Task { inbox, acks: RefCell::new(None), commands: RefCell::new(None), stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn next(&self) -> Input {
        self.inbox.recv(PATIENCE).expect("the task runs").expect("an input comes in time")
    }

    fn next_but_notices(&self) -> Input {
        loop {
            match self.next() {
                Input::UplinkNotice(_) => {}
                other => return other,
            }
        }
    }

    /// What the connection begins or ceases to complain about.
    pub(crate) fn notice(&self) -> String {
        match self.next() {
            Input::UplinkNotice(notice) => notice,
            other => panic!("UplinkNotice expected, got {}", name(&other)),
        }
    }

    /// The connection's number and its acknowledgements; skips failed attempts.
    pub(crate) fn devices_up(&self, resumed_wanted: bool) -> (u32, Sender<u16>) {
        loop {
            match self.next() {
                Input::DevicesUp { connection, resumed, acks, commands, .. } => {
                    assert_eq!(resumed, resumed_wanted, "session present");
                    self.acks.replace(Some(acks.clone()));
                    self.commands.replace(Some(commands));
                    return (connection, acks);
                }
                Input::DevicesDown { .. } => {}
                other => panic!("DevicesUp expected, got {}", name(&other)),
            }
        }
    }

    /// What takes commands for the devices, once; without it there will be no more of them.
    pub(crate) fn commands(&self) -> Sender<Command> {
        self.commands.take().expect("connected")
    }

    /// Connected and subscribed.
    pub(crate) fn subscribed(&self, resumed_wanted: bool) -> (u32, Sender<u16>) {
        let up = self.devices_up(resumed_wanted);
        assert_eq!(self.refused(), Vec::<String>::new());
        up
    }

    pub(crate) fn refused(&self) -> Vec<String> {
        match self.next() {
            Input::DevicesSubscribed { refused } => refused,
            other => panic!("DevicesSubscribed expected, got {}", name(&other)),
        }
    }

    /// At least `count` messages, in order; other inputs fail the test.
    pub(crate) fn messages(&self, count: usize) -> Vec<Arrival> {
        let mut messages = Vec::new();
        while messages.len() < count {
            match self.next() {
                Input::Messages(mut burst) => {
                    // The room is given back by what the burst holds.
                    let taken = std::mem::take(&mut burst.messages);
                    burst.messages = taken.iter().map(copy).collect();
                    self.inbox.release(burst);
                    messages.extend(taken);
                }
                other => panic!("messages expected, got {}", name(&other)),
            }
        }
        messages
    }

    pub(crate) fn uplink_up(&self) -> Sender<Outbound> {
        self.uplink_up_on_terms().0
    }

    pub(crate) fn uplink_up_on_terms(&self) -> (Sender<Outbound>, Option<UplinkTerms>) {
        loop {
            match self.next() {
                Input::UplinkUp { outbound, terms, .. } => return (outbound, terms),
                Input::UplinkDown { .. } => {}
                other => panic!("UplinkUp expected, got {}", name(&other)),
            }
        }
    }

    /// What a connection that stands has to complain about.
    pub(crate) fn uplink_notice(&self) -> String {
        loop {
            match self.next() {
                Input::UplinkUp { notice, .. } => return notice,
                Input::UplinkDown { .. } => {}
                other => panic!("UplinkUp expected, got {}", name(&other)),
            }
        }
    }

    pub(crate) fn local_up(&self) -> Sender<LocalRecord> {
        loop {
            match self.next() {
                Input::LocalUp { records } => return records,
                Input::LocalDown { .. } => {}
                other => panic!("LocalUp expected, got {}", name(&other)),
            }
        }
    }

    pub(crate) fn down(&self) -> String {
        match self.next() {
            Input::DevicesDown { reason } | Input::UplinkDown { reason, .. } | Input::LocalDown { reason } => reason,
            other => panic!("a disconnect expected, got {}", name(&other)),
        }
    }

    /// The reason, and whether a batch may be to blame.
    pub(crate) fn blamed(&self) -> (String, bool) {
        match self.next_but_notices() {
            Input::UplinkDown { reason, blames_a_batch } => (reason, blames_a_batch),
            other => panic!("UplinkDown expected, got {}", name(&other)),
        }
    }

    pub(crate) fn refused_batch(&self) -> (BatchId, Refusal) {
        match self.next_but_notices() {
            Input::UplinkRefused(batch, refusal) => (batch, refusal),
            other => panic!("UplinkRefused expected, got {}", name(&other)),
        }
    }

    pub(crate) fn acked(&self) -> BatchId {
        match self.next_but_notices() {
            Input::UplinkAcked(batch) => batch,
            other => panic!("UplinkAcked expected, got {}", name(&other)),
        }
    }

    /// Tells the task to stop; it ends when it owes nothing more.
    pub(crate) fn stop(&mut self) {
        self.acks.replace(None);
        if let Some(stop) = self.stop.take() {
            stop.send_replace(true);
        }
    }

    /// Waits until the task has ended.
    pub(crate) fn join(mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the task does not panic");
        }
    }
}

fn copy(arrival: &Arrival) -> Arrival {
    Arrival {
        topic: arrival.topic.clone(),
        payload: arrival.payload.clone(),
        retain: arrival.retain,
        dup: arrival.dup,
        packet: arrival.packet,
    }
}

fn name(input: &Input) -> &'static str {
    match input {
        Input::Messages(_) => "Messages",
        Input::DevicesUp { .. } => "DevicesUp",
        Input::DevicesSubscribed { .. } => "DevicesSubscribed",
        Input::DevicesDown { .. } => "DevicesDown",
        Input::UplinkUp { .. } => "UplinkUp",
        Input::UplinkAcked(_) => "UplinkAcked",
        Input::UplinkRefused(..) => "UplinkRefused",
        Input::UplinkNotice(_) => "UplinkNotice",
        Input::UplinkDown { .. } => "UplinkDown",
        Input::LocalUp { .. } => "LocalUp",
        Input::LocalDown { .. } => "LocalDown",
        Input::ClientUp { .. } => "ClientUp",
        Input::FromClient(_) => "FromClient",
        Input::ClientDown { .. } => "ClientDown",
        Input::Query(_) => "Query",
        Input::Look(_) => "Look",
        Input::Replay { .. } => "Replay",
        Input::Reconfigure(_) => "Reconfigure",
        Input::Order(_) => "Order",
        Input::ConfigNotice(_) => "ConfigNotice",
        Input::Pulse => "Pulse",
        Input::Stop { .. } => "Stop",
    }
}

/// Waits for something that nothing signals.
#[expect(clippy::disallowed_methods, reason = "a deadline of the test itself")]
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_millis(PATIENCE.as_millis());
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::yield_now();
    }
}
