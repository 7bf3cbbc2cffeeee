//! Results for whoever listens on the devices' own broker: a display, a rule.
//!
//! A connection of its own: the one that takes messages in never publishes, so that nothing
//! can get between its acknowledgements. Best effort: the queue from the engine thread is short
//! and dies with the connection; what finds no room in it is dropped there and counted. With
//! `QoS` 1 the broker's answers are waited for, `WINDOW` at a time; what is not answered when
//! the connection ends is not sent again.

use bytes::Bytes;
use flume::Receiver;
use tokio::sync::watch;
use tracing::info;

use crate::agent::clock::{SystemClock, sleep};
use crate::agent::inbox::{Closed, InboxSender, Input};
use crate::config::boot::{BrokerSpec, LocalSpec};
use crate::engine::step::LocalRecord;
use crate::model::limits::LOCAL_LEN;
use crate::model::time::Span;

use super::connection::{Dialer, Link, LinkError, Purpose};
use super::in_flight::InFlight;
use super::keep_alive::{Due, KeepAlive};
use super::packet::{FromBroker, Outgoing, Properties, ToBroker};
use super::retry::Retry;

/// Publishes without an answer: what every broker takes.
const WINDOW: usize = 20;
/// As for the uplink.
const ANSWER_MAX: Span = Span::from_secs(30);

/// Where and how to publish.
#[derive(Clone, Debug)]
pub struct LocalTask {
    /// The devices' broker, under a client id of this connection's own.
    pub broker: BrokerSpec,
    /// How.
    pub spec: LocalSpec,
    /// The longest wait between two attempts.
    pub retry_max: Span,
}

/// Why one connection ended.
enum End {
    Lost(LinkError),
    /// Everything is published, or nobody is left who could want it.
    Over,
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        End::Lost(error)
    }
}

impl From<Closed> for End {
    fn from(Closed: Closed) -> End {
        End::Over
    }
}

/// Runs until the engine thread is gone, or `stop` turns true while there is no connection.
pub async fn run(task: LocalTask, inbox: InboxSender, clock: SystemClock, mut stop: watch::Receiver<bool>) {
    let mut dialer = Dialer::new(task.broker.clone(), Purpose::CleanSession { will: None });
    let mut retry = Retry::new(&task.broker, task.retry_max, "no results on the device broker");
    loop {
        let connected = tokio::select! {
            connected = connect(&task, &mut dialer, &inbox, clock, &mut retry) => connected,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let end = match connected {
            Ok(mut session) => session.run().await,
            Err(end) => end,
        };
        let End::Lost(error) = end else { return };
        let reason = error.to_string();
        let wait = retry.handle_down(clock.proc(), &reason);
        if inbox.send(Input::LocalDown { reason }).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn connect<'a>(
    task: &'a LocalTask,
    dialer: &mut Dialer,
    inbox: &InboxSender,
    clock: SystemClock,
    retry: &mut Retry,
) -> Result<Session<'a>, End> {
    let (link, _) = dialer.connect().await?;
    let now = clock.proc();
    retry.handle_up(now);
    info!(broker = %task.broker.host, port = task.broker.port, "results go to the device broker too");
    let (records_in, records) = flume::bounded(LOCAL_LEN);
    inbox.send(Input::LocalUp { records: records_in }).await?;
    let keep_alive = KeepAlive::new(now, task.broker.keep_alive);
    Ok(Session { spec: &task.spec, clock, link, records, keep_alive, in_flight: InFlight::new(WINDOW, ANSWER_MAX) })
}

/// One connection.
struct Session<'a> {
    spec: &'a LocalSpec,
    clock: SystemClock,
    link: Link,
    records: Receiver<LocalRecord>,
    keep_alive: KeepAlive,
    in_flight: InFlight<()>,
}

/// What woke the session.
enum Wake {
    Packet(FromBroker),
    Record(LocalRecord),
    /// The engine thread has nothing more.
    Over,
    Timer,
}

impl Session<'_> {
    async fn run(&mut self) -> End {
        loop {
            let turn = match self.wake().await {
                Ok(Wake::Packet(packet)) => self.handle_packets(packet),
                Ok(Wake::Record(first)) => self.publish(first).await,
                Ok(Wake::Over) => self.link.send([ToBroker::Disconnect]).await.map_err(End::Lost).and(Err(End::Over)),
                Ok(Wake::Timer) => self.handle_timers().await,
                Err(error) => Err(End::Lost(error)),
            };
            if let Err(end) = turn {
                return end;
            }
        }
    }

    /// Every future in here may be dropped half way: none holds anything.
    async fn wake(&mut self) -> Result<Wake, LinkError> {
        let timer = self.keep_alive.next_deadline().min(self.in_flight.deadline());
        let wait = timer.since(self.clock.proc());
        tokio::select! {
            packet = self.link.read() => Ok(Wake::Packet(packet?)),
            record = self.records.recv_async(), if self.in_flight.has_room() => {
                Ok(record.map_or(Wake::Over, Wake::Record))
            }
            () = sleep(wait) => Ok(Wake::Timer),
        }
    }

    fn handle_packets(&mut self, first: FromBroker) -> Result<(), End> {
        self.keep_alive.handle_received(self.clock.proc());
        let mut next = Some(first);
        while let Some(packet) = next {
            if let FromBroker::PubAck { packet, .. } = packet {
                self.in_flight.answer(packet);
            }
            next = self.link.read_ready()?;
        }
        Ok(())
    }

    /// Takes what else is waiting with it: one flush for all.
    async fn publish(&mut self, first: LocalRecord) -> Result<(), End> {
        let now = self.clock.proc();
        let mut packets = Vec::new();
        let mut next = Some(first);
        while let Some(LocalRecord { topic, payload }) = next {
            packets.push(ToBroker::Publish(Outgoing {
                topic,
                payload: Bytes::from(payload),
                retain: self.spec.retain,
                packet: self.spec.acknowledged.then(|| self.in_flight.insert(now, ())),
                exactly_once: false,
                dup: false,
                properties: Properties::default(),
            }));
            let more = self.in_flight.has_room() && packets.len() < LOCAL_LEN;
            next = if more { self.records.try_recv().ok() } else { None };
        }
        self.link.send(packets).await?;
        self.keep_alive.handle_sent(self.clock.proc());
        Ok(())
    }

    async fn handle_timers(&mut self) -> Result<(), End> {
        let now = self.clock.proc();
        if self.in_flight.deadline() <= now {
            return Err(End::Lost(LinkError::Unresponsive));
        }
        match self.keep_alive.poll(now, true) {
            Due::Nothing => Ok(()),
            Due::Ping => Ok(self.link.send([ToBroker::PingReq]).await?),
            Due::Dead => Err(End::Lost(LinkError::Unresponsive)),
        }
    }
}
