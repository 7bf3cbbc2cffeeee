//! Messages from the device broker to the engine, acknowledgements back.
//!
//! A persistent session under a stable client id: what we have not
//! acknowledged, the broker sends again, on this connection's successor or to
//! the next process. Nothing is acknowledged here; the engine thread says when.
//!
//! * **Full inbox**: the socket is not read. Acknowledgements and pings go on,
//!   so the engine can always get rid of its acknowledgements and the broker
//!   does not give us up. The engine thread never waits for this task.
//! * **Acknowledgements** carry no connection: their channel belongs to one
//!   connection and dies with it, so a late one cannot hit another message
//!   with the same packet id.
//! * **Commands** to devices go out by the same connection at `QoS` 0, behind the
//!   acknowledgements, and die with it.
//! * **Subscriptions** are made anew when the broker has no session of ours,
//!   on the first connection of a process (the filters may have changed), and
//!   as long as one was refused, also every 60 s while connected. Not on every
//!   reconnect: each SUBSCRIBE makes the broker repeat all retained messages.
//!   Filters that change while the agent runs are subscribed anew, all of them, and those that are gone no more.
//! * **`QoS` 2** is never asked for; a session left by another program may
//!   hold some. It is taken through its handshake, never counted unsolicited.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use flume::Receiver;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::agent::changes::changed;
use crate::agent::clock::{SystemClock, sleep};
use crate::agent::inbox::{Arrival, Burst, Closed, InboxSender, Input};
use crate::config::boot::BrokerSpec;
use crate::engine::step::Command;
use crate::model::limits::{BURST_LEN, COMMANDS_LEN};
use crate::model::time::{ProcTime, Span};

use super::connection::{Dialer, Link, LinkError, Purpose};
use super::keep_alive::{Due, KeepAlive};
use super::packet::{Arrived, FromBroker, Grant, Outgoing, Properties, ToBroker};
use super::retry::Retry;

/// Every packet id once, and SUBSCRIBE.
const ACKS_LEN: usize = u16::MAX as usize;
/// Acknowledgements per flush.
const ACKS_PER_SEND: usize = 1_024;
/// How often a refused filter is tried again on a living connection.
const RESUBSCRIBE: Span = Span::from_secs(60);

/// What to listen to.
#[derive(Clone, Debug)]
pub struct IngestSpec {
    /// The broker.
    pub broker: BrokerSpec,
    /// Topic filters, each once.
    pub filters: Vec<String>,
    /// The longest wait between two attempts.
    pub retry_max: Span,
}

/// Why one connection ended.
enum End {
    /// A new one is made after a wait.
    Lost(LinkError),
    /// The agent stops; everything owed was sent.
    Stopped,
    /// The engine thread is gone.
    Closed,
}

impl From<LinkError> for End {
    fn from(error: LinkError) -> End {
        End::Lost(error)
    }
}

impl From<Closed> for End {
    fn from(Closed: Closed) -> End {
        End::Closed
    }
}

/// Runs until `stop` turns true or the engine thread is gone. Network trouble
/// never ends it.
///
/// At a stop it reads no more, sends the acknowledgements that the engine
/// thread still hands over, and disconnects when that drops its end.
pub async fn run(spec: IngestSpec, inbox: InboxSender, clock: SystemClock, stop: watch::Receiver<bool>) {
    let (_stay, filters) = watch::channel(spec.filters.clone());
    run_following(spec, filters, inbox, clock, stop).await;
}

/// As [`run`], with whichever filters are in `filters`.
pub async fn run_following(
    spec: IngestSpec,
    mut filters: watch::Receiver<Vec<String>>,
    inbox: InboxSender,
    clock: SystemClock,
    mut stop: watch::Receiver<bool>,
) {
    let mut dialer = Dialer::new(spec.broker.clone(), Purpose::PersistentSession);
    let mut retry = Retry::new(&spec.broker, spec.retry_max, "no connection to the device broker");
    let mut connection = 0_u32;
    let mut all_granted = false;
    loop {
        connection += 1;
        // What changed while there was no connection.
        all_granted &= !filters.has_changed().unwrap_or(false);
        let wanted = filters.borrow_and_update().clone();
        let end = tokio::select! {
            end = connect(&spec, wanted, &mut dialer, &inbox, clock, connection, all_granted, &mut retry) => end,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let end = match end {
            Ok(mut session) => {
                info!(broker = %spec.broker.host, port = spec.broker.port, connection, "device broker connected");
                let end = session.run(&mut filters, &mut stop).await;
                all_granted = session.all_granted;
                end
            }
            Err(end) => end,
        };
        let End::Lost(error) = end else { return };
        let reason = error.to_string();
        let wait = retry.handle_down(clock.proc(), &reason);
        if inbox.send(Input::DevicesDown { reason }).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(wait) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "what a connection is made of")]
async fn connect<'a>(
    spec: &'a IngestSpec,
    filters: Vec<String>,
    dialer: &mut Dialer,
    inbox: &'a InboxSender,
    clock: SystemClock,
    connection: u32,
    all_granted: bool,
    retry: &mut Retry,
) -> Result<Session<'a>, End> {
    let (link, connack) = dialer.connect().await?;
    let resumed = connack.resumed;
    let now = clock.proc();
    retry.handle_up(now);
    let (acks_in, acks) = flume::bounded(ACKS_LEN);
    let (commands_in, commands) = flume::bounded(COMMANDS_LEN);
    let notice = dialer.notice();
    inbox.send(Input::DevicesUp { connection, resumed, acks: acks_in, commands: commands_in, notice }).await?;
    let mut session = Session {
        inbox,
        clock,
        connection,
        link,
        acks,
        commands: Some(commands),
        keep_alive: KeepAlive::new(now, spec.broker.keep_alive),
        waiting: None,
        exactly_once: BTreeSet::new(),
        all_granted: resumed && all_granted,
        resubscribe_at: None,
        filters,
        asked: 0,
    };
    if session.all_granted {
        inbox.send(Input::DevicesSubscribed { refused: Vec::new() }).await?;
    } else {
        session.subscribe().await?;
    }
    Ok(session)
}

/// One connection.
struct Session<'a> {
    inbox: &'a InboxSender,
    clock: SystemClock,
    connection: u32,
    link: Link,
    acks: Receiver<u16>,
    /// `None`: the engine thread has no more of them.
    commands: Option<Receiver<Command>>,
    keep_alive: KeepAlive,
    /// A burst that found no room. While it waits the socket is not read.
    waiting: Option<Waiting<'a>>,
    /// Packet ids that arrived at `QoS` 2 and are not acknowledged; at most all.
    exactly_once: BTreeSet<u16>,
    all_granted: bool,
    resubscribe_at: Option<ProcTime>,
    /// What was asked for last.
    filters: Vec<String>,
    /// How often that was not answered yet.
    asked: usize,
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<(), Closed>> + Send + 'a>>;

/// What woke the session.
enum Wake {
    Packet(FromBroker),
    Ack(u16),
    /// The engine thread dropped its end: it owes no more acknowledgements.
    AcksDone,
    Command(Command),
    CommandsDone,
    Room,
    Timer,
    Filters(Vec<String>),
    Stop,
}

impl Session<'_> {
    async fn run(&mut self, filters: &mut watch::Receiver<Vec<String>>, stop: &mut watch::Receiver<bool>) -> End {
        loop {
            let stopping = *stop.borrow() || stop.has_changed().is_err();
            let turn = match self.wake(filters, stop, stopping).await {
                Ok(Wake::Packet(packet)) => self.handle_packets(packet).await,
                Ok(Wake::Ack(first)) => self.send_acks(first).await,
                Ok(Wake::AcksDone) => return self.finish(stopping).await,
                Ok(Wake::Command(command)) => self.send_command(command).await,
                Ok(Wake::CommandsDone) => {
                    self.commands = None;
                    Ok(())
                }
                Ok(Wake::Room) => {
                    self.waiting = None;
                    Ok(())
                }
                Ok(Wake::Timer) => self.handle_timers(stopping).await,
                Ok(Wake::Filters(filters)) => self.change_filters(filters).await,
                Ok(Wake::Stop) => Ok(()),
                Err(end) => Err(end),
            };
            if let Err(end) = turn {
                return end;
            }
        }
    }

    /// Every future in here may be dropped half way: none holds anything.
    async fn wake(
        &mut self,
        filters: &mut watch::Receiver<Vec<String>>,
        stop: &mut watch::Receiver<bool>,
        stopping: bool,
    ) -> Result<Wake, End> {
        let reading = self.waiting.is_none() && !stopping;
        let timer = self.keep_alive.next_deadline().min(self.resubscribe_at.unwrap_or(ProcTime::from_millis(u64::MAX)));
        let wait = timer.since(self.clock.proc());
        tokio::select! {
            // Acknowledgements first: they make room everywhere else.
            biased;
            ack = self.acks.recv_async() => Ok(ack.map_or(Wake::AcksDone, Wake::Ack)),
            command = async { self.commands.as_ref().expect("guarded").recv_async().await }, if self.commands.is_some() => {
                Ok(command.map_or(Wake::CommandsDone, Wake::Command))
            }
            room = async { self.waiting.as_mut().expect("guarded").await }, if self.waiting.is_some() => {
                room?;
                Ok(Wake::Room)
            }
            packet = self.link.read(), if reading => Ok(Wake::Packet(packet?)),
            () = sleep(wait) => Ok(Wake::Timer),
            () = changed(filters), if !stopping => Ok(Wake::Filters(filters.borrow_and_update().clone())),
            _ = stop.wait_for(|stop| *stop), if !stopping => Ok(Wake::Stop),
        }
    }

    /// Takes what is in the read buffer with it, as one burst.
    #[expect(clippy::wildcard_enum_match_arm, reason = "publishes apart from all the rest")]
    async fn handle_packets(&mut self, first: FromBroker) -> Result<(), End> {
        self.keep_alive.handle_received(self.clock.proc());
        let mut messages = Vec::new();
        let mut next = Some(first);
        let mut ended = Ok(());
        while let Some(packet) = next.take() {
            match packet {
                FromBroker::Publish(message) => messages.push(self.arrival(message)),
                control => self.handle_control(control).await?,
            }
            if messages.len() == BURST_LEN {
                break;
            }
            match self.link.read_ready() {
                Ok(packet) => next = packet,
                // What arrived before the end still counts.
                Err(error) => ended = Err(End::Lost(error)),
            }
        }
        if !messages.is_empty() {
            let burst = Input::Messages(Burst { connection: self.connection, messages });
            if let Err(burst) = self.inbox.send_ready(burst) {
                self.waiting = Some(Box::pin(self.inbox.send(burst)));
            }
        }
        ended
    }

    fn arrival(&mut self, message: Arrived) -> Arrival {
        let Arrived { topic, payload, retain, dup, packet, exactly_once, answer_to: _ } = message;
        if let Some(packet) = packet.filter(|_| exactly_once) {
            self.exactly_once.insert(packet);
        }
        Arrival { topic, payload, retain, dup, packet }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "what a server never sends, or needs no answer")]
    async fn handle_control(&mut self, packet: FromBroker) -> Result<(), End> {
        match packet {
            FromBroker::SubAck(grants) => self.handle_suback(&grants).await,
            FromBroker::PubRel(packet) => self.send([ToBroker::PubComp(packet)]).await,
            FromBroker::PingResp => Ok(()),
            other => {
                debug!(?other, "unexpected packet ignored");
                Ok(())
            }
        }
    }

    async fn handle_suback(&mut self, grants: &[Grant]) -> Result<(), End> {
        self.asked = self.asked.saturating_sub(1);
        if self.asked > 0 {
            // Of what is asked for no more.
            return Ok(());
        }
        let mut refused = Vec::new();
        for (filter, grant) in self.filters.iter().zip(grants) {
            match grant {
                Grant::Acknowledged => {}
                Grant::Unacknowledged => {
                    warn!(%filter, "the device broker grants QoS 0 only: nothing can be promised for it");
                }
                Grant::Refused => {
                    warn!(%filter, "the device broker refuses the subscription: check its access rules");
                    refused.push(filter.clone());
                }
            }
        }
        self.all_granted = refused.is_empty();
        self.resubscribe_at = (!self.all_granted).then(|| self.clock.proc() + RESUBSCRIBE);
        Ok(self.inbox.send(Input::DevicesSubscribed { refused }).await?)
    }

    async fn subscribe(&mut self) -> Result<(), End> {
        self.resubscribe_at = None;
        if self.filters.is_empty() {
            self.all_granted = true;
            return Ok(self.inbox.send(Input::DevicesSubscribed { refused: Vec::new() }).await?);
        }
        self.asked += 1;
        // Packet ids that are ours on this connection: 1, and 2 for what goes.
        self.send([ToBroker::Subscribe { packet: 1, filters: self.filters.clone() }]).await
    }

    /// Those that stay are asked for too: it makes the broker repeat what is retained, which a new stream may
    /// want to see of a filter that an old one had.
    async fn change_filters(&mut self, filters: Vec<String>) -> Result<(), End> {
        let gone: Vec<String> = self.filters.iter().filter(|filter| !filters.contains(filter)).cloned().collect();
        self.filters = filters;
        if !gone.is_empty() {
            self.send([ToBroker::Unsubscribe { packet: 2, filters: gone }]).await?;
        }
        self.subscribe().await
    }

    async fn send_acks(&mut self, first: u16) -> Result<(), End> {
        let mut acks = Vec::with_capacity(self.acks.len().min(ACKS_PER_SEND) + 1);
        acks.push(first);
        acks.extend(self.acks.try_iter().take(ACKS_PER_SEND));
        let packets: Vec<ToBroker> = acks.into_iter().map(|packet| self.ack(packet)).collect();
        self.send(packets).await
    }

    fn ack(&mut self, packet: u16) -> ToBroker {
        if self.exactly_once.remove(&packet) { ToBroker::PubRec(packet) } else { ToBroker::PubAck(packet) }
    }

    async fn send_command(&mut self, command: Command) -> Result<(), End> {
        let Command { topic, payload } = command;
        let payload = Bytes::from(payload);
        let properties = Properties::default();
        let publish =
            Outgoing { topic, payload, retain: false, packet: None, exactly_once: false, dup: false, properties };
        self.send([ToBroker::Publish(publish)]).await
    }

    async fn handle_timers(&mut self, stopping: bool) -> Result<(), End> {
        let now = self.clock.proc();
        if self.resubscribe_at.is_some_and(|at| at <= now) {
            self.subscribe().await?;
        }
        match self.keep_alive.poll(now, self.waiting.is_none() && !stopping) {
            Due::Nothing => Ok(()),
            Due::Ping => self.send([ToBroker::PingReq]).await,
            Due::Dead => Err(End::Lost(LinkError::Unresponsive)),
        }
    }

    async fn send(&mut self, packets: impl IntoIterator<Item = ToBroker>) -> Result<(), End> {
        self.link.send(packets).await?;
        self.keep_alive.handle_sent(self.clock.proc());
        Ok(())
    }

    /// The engine thread hands over no more acknowledgements: it stopped, or it
    /// gave this connection up because the acknowledgements found no room.
    async fn finish(&mut self, stopping: bool) -> End {
        if !stopping {
            return End::Lost(LinkError::Broken("the broker uses packet ids twice".into()));
        }
        match self.send([ToBroker::Disconnect]).await {
            Ok(()) => End::Stopped,
            Err(end) => end,
        }
    }
}
