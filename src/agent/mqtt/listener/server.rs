//! What all connections of the listener share, and how a client is let in.

use core::fmt;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::sync::{Semaphore, watch};
use tokio::time::error::Elapsed;
use tracing::{debug, info, warn};

use crate::agent::clock::{SystemClock, entropy};
use crate::agent::inbox::{InboxSender, Input};
use crate::config::boot::ConnectionLimits;
use crate::engine::broker::packet::{Connect, Farewell, ToClient};
use crate::engine::step::DeliveryTag;

use super::access::{Access, Attempt, Denied, Identity};
use super::connection::{Connection, SMALL_BYTES};
use super::end::End;
use super::exchange::Exchange;
use super::facts::ListenerFacts;
use super::hand_over::poll_read_into;
use super::outbox::{Outgoing, ToSocket, outbox};
use super::packet::Hello;
use super::probe::Socket;
use super::proto::{Accepted, ProtoLimits, Read};
use super::reply::{Goodbye, Refusal};

/// Shared by all connections.
pub(super) struct Server {
    pub(super) access: Access,
    pub(super) limits: ConnectionLimits,
    pub(super) proto_limits: ProtoLimits,
    pub(super) inbox: InboxSender,
    pub(super) clock: SystemClock,
    pub(super) facts: Arc<ListenerFacts>,
    /// What the engine thread says to connections.
    pub(super) exchange: Arc<Exchange>,
    /// Bytes of packets that have not arrived whole, of all clients.
    pub(super) half_read: AtomicUsize,
    /// Bytes of output that is encoded and not sent, of all clients that have more than a little.
    pub(super) encoded: AtomicUsize,
    /// One password is hashed at a time: it takes a core.
    pub(super) hashing: Semaphore,
    /// Connections so far.
    pub(super) next: AtomicU32,
}

/// Who is on the other side of a socket.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    /// The socket, as it is shown.
    pub(super) socket: Arc<str>,
    /// Of TCP.
    pub(super) address: Option<SocketAddr>,
    /// It is on this machine.
    pub(super) is_loopback: bool,
    /// The common name of its certificate, which was checked.
    pub(super) certificate_name: Option<String>,
}

impl Peer {
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.address.map(|address| address.ip())
    }
}

/// For the log: `192.168.1.20:50312 at mqtts://0.0.0.0:8883`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address} at {}", self.socket),
            None => write!(f, "at {}", self.socket),
        }
    }
}

/// What a client is granted.
struct Granted {
    assigned_client_id: Option<String>,
    session_expiry_secs: u32,
}

/// Tells the engine thread that a connection is over, however that comes about.
struct Gone {
    connection: u32,
    inbox: InboxSender,
}

impl Drop for Gone {
    fn drop(&mut self) {
        let connection = self.connection;
        if let Err(input) = self.inbox.send_ready(Input::ClientDown { connection }) {
            let inbox = self.inbox.clone();
            // Closed: nobody is left who wants to know.
            tokio::spawn(async move { inbox.send(input).await });
        }
    }
}

impl Server {
    /// The number of a new connection. Numbers are used once: an acknowledgement of an older
    /// connection can never reach a new one.
    fn number(&self) -> u32 {
        DeliveryTag::CLIENTS | (self.next.fetch_add(1, Ordering::Relaxed) & !DeliveryTag::CLIENTS)
    }

    /// Counts, and logs the first of each kind and user in an hour: a client that tries again and
    /// again fills no log.
    pub(super) fn note_refused(&self, reason: &'static str, who: &Identity, peer: &Peer, what: &str) {
        let user = who.username.as_deref().unwrap_or("");
        if self.facts.handle_refused(self.clock.proc(), reason, user) {
            warn!(reason, client = who.client_id, user, %peer, what, "refused; more of it is counted");
        } else {
            debug!(reason, client = who.client_id, user, %peer, what, "refused");
        }
    }

    /// The same for a connection, of whom nothing may be known.
    pub(super) fn note_ended(&self, reason: &'static str, peer: &Peer, client: &str, why: &dyn fmt::Display) {
        let address = peer.ip().map(|ip| ip.to_string()).unwrap_or_default();
        if self.facts.handle_refused(self.clock.proc(), reason, &address) {
            warn!(reason, %peer, client, "a connection was ended: {why}; more of it is counted");
        } else {
            debug!(reason, %peer, client, "a connection was ended: {why}");
        }
    }

    /// Serves a socket until its end.
    pub(super) async fn serve<S: Socket>(&self, stream: S, peer: Peer, mut stop: watch::Receiver<bool>) {
        let mut connection = Connection::new(self.number(), self, peer, stream);
        let end = self.admit_and_serve(&mut connection, &mut stop).await;
        let Connection { peer, client, .. } = &connection;
        if let Some(reason) = end.name() {
            self.note_ended(reason, peer, client, &end);
        } else {
            debug!(client, %peer, "a connection ends: {end}");
        }
        Box::pin(connection.close()).await;
    }

    async fn admit_and_serve<S: Socket>(
        &self,
        connection: &mut Connection<'_, S>,
        stop: &mut watch::Receiver<bool>,
    ) -> End {
        let hello = match self.hear(connection, stop).await {
            Ok(hello) => hello,
            Err(end) => return end,
        };
        connection.client.clone_from(&hello.connect.client_id);
        if hello.authentication_method.is_some() {
            connection.proto.refuse(Refusal::BadAuthenticationMethod);
            return End::Refused("authentication_method");
        }
        let who = match self.authenticate(&connection.peer.clone(), &hello).await {
            Ok(who) => who,
            Err(denied) => {
                connection.proto.refuse(refusal(denied));
                return End::Denied(denied, hello.username);
            }
        };
        if let Some(will) = &hello.connect.will
            && !self.access.may_publish(&who, &will.message.topic)
        {
            connection.proto.refuse(Refusal::NotAuthorized);
            self.note_refused("will_not_allowed", &who, &connection.peer, &will.message.topic);
            return End::Closed;
        }
        let windows = usize::from(self.proto_limits.in_flight) * 2;
        let (outbox, outgoing) = outbox(connection.number, windows, &self.exchange);
        let mqtt = if hello.connect.is_v5 { "5" } else { "3.1.1" };
        let (connect, accepted) = self.session(*hello, &who);
        let _gone = Gone { connection: connection.number, inbox: self.inbox.clone() };
        let up = Input::ClientUp { connection: connection.number, connect: Box::new(connect), outbox };
        if self.inbox.send(up).await.is_err() {
            return End::Stopping;
        }
        match self.await_session(connection, &outgoing, &accepted).await {
            Ok(()) => {
                if let Some(assigned) = accepted.assigned_client_id {
                    connection.client = assigned;
                }
                let Connection { client, peer, .. } = &*connection;
                debug!(client, %mqtt, user = who.username, %peer, "let in");
                if !connection.proto.has_keep_alive() {
                    connection.stream.probe();
                }
                connection.serve(&who, &outgoing, stop).await
            }
            Err(end) => end,
        }
    }

    /// Until the CONNECT has arrived.
    async fn hear<S: Socket>(
        &self,
        connection: &mut Connection<'_, S>,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Box<Hello>, End> {
        let listening = async {
            loop {
                let Connection { stream, proto, read, .. } = &mut *connection;
                let now = || self.clock.proc();
                let fed = poll_fn(|context| poll_read_into(context, Pin::new(&mut *stream), proto, read, now())).await;
                if let Some(Read::Hello(_)) = read.first()
                    && let Read::Hello(hello) = read.remove(0)
                {
                    return Ok(hello);
                }
                fed?;
            }
        };
        let within = std::time::Duration::from_millis(self.limits.connect_within.as_millis());
        tokio::select! {
            heard = tokio::time::timeout(within, listening) => match heard {
                Ok(heard) => heard,
                Err(Elapsed { .. }) => Err(End::Refused("no_connect")),
            },
            _ = stop.wait_for(|stop| *stop) => Err(End::Stopping),
        }
    }

    async fn authenticate(&self, peer: &Peer, hello: &Hello) -> Result<Identity, Denied> {
        let attempt = Attempt {
            client_id: &hello.connect.client_id,
            username: hello.username.as_deref(),
            password: hello.password.as_deref(),
            certificate_name: peer.certificate_name.as_deref(),
            is_loopback: peer.is_loopback,
            address: peer.ip(),
        };
        let now = self.clock.proc();
        let answer = if self.access.needs_hashing(&attempt, now) {
            let _turn = self.hashing.acquire().await;
            let (access, hello, peer) = (self.access.clone(), hello.clone(), peer.clone());
            let hash = move || {
                let attempt = Attempt {
                    client_id: &hello.connect.client_id,
                    username: hello.username.as_deref(),
                    password: hello.password.as_deref(),
                    certificate_name: peer.certificate_name.as_deref(),
                    is_loopback: peer.is_loopback,
                    address: peer.ip(),
                };
                access.authenticate(&attempt, now)
            };
            tokio::task::spawn_blocking(hash).await.unwrap_or(Err(Denied::BadCredentials))
        } else {
            self.access.authenticate(&attempt, now)
        };
        if let Some(notice) = self.access.notice()
            && self.facts.set_notice("password file", &notice)
            && !notice.is_empty()
        {
            warn!(%notice, "password file");
        }
        answer
    }

    /// What the broker is told of a client, and what the client is told of it.
    fn session(&self, hello: Hello, who: &Identity) -> (Connect, Granted) {
        let mut connect = hello.connect;
        let assigned = connect.client_id.is_empty().then(|| format!("auto-{:016x}", entropy()));
        if let Some(assigned) = &assigned {
            connect.client_id.clone_from(assigned);
        }
        if let Some(user) = &who.username {
            // Each user has client ids of its own: nobody takes over the session of another one.
            connect.client_id = format!("{user}\n{}", connect.client_id);
        }
        let session_expiry_secs = connect.session_expiry_secs.min(self.proto_limits.session_expiry_max_secs);
        connect.session_expiry_secs = session_expiry_secs;
        (connect, Granted { assigned_client_id: assigned, session_expiry_secs })
    }

    /// Until the broker has the session, and where that is durable, until it is.
    async fn await_session<S: Socket>(
        &self,
        connection: &mut Connection<'_, S>,
        outgoing: &Outgoing,
        granted: &Granted,
    ) -> Result<(), End> {
        let told = tokio::select! {
            biased;
            told = outgoing.recv() => told,
            end = hear_on(self, connection) => return Err(end),
        };
        match told {
            Some(ToSocket::Tell(ToClient::ConnAck { session_present })) => {
                let accepted = Accepted {
                    assigned_client_id: granted.assigned_client_id.as_deref(),
                    session_expiry_secs: granted.session_expiry_secs,
                };
                connection.proto.accept(session_present, &accepted, self.clock.proc());
                Ok(())
            }
            Some(ToSocket::Tell(ToClient::NoRoom)) => {
                connection.proto.refuse(Refusal::QuotaExceeded);
                Err(End::Refused("no_room_for_a_session"))
            }
            // Another connection with this client id came while this one waited.
            Some(ToSocket::Tell(ToClient::Disconnect(why))) => {
                connection.proto.refuse(Refusal::ServerBusy);
                Err(End::SentAway(why))
            }
            Some(ToSocket::Tell(_) | ToSocket::Ack(_)) => {
                info!("a connection was told something before it was let in");
                Err(End::SentAway(Farewell::ProtocolError))
            }
            None => {
                connection.proto.goodbye(Goodbye::Broker(Farewell::ShuttingDown));
                Err(End::Stopping)
            }
        }
    }
}

/// While a client waits to be let in, which takes as long as the card does: what it says meanwhile
/// is kept, up to a little. Until it gives up; unless it has said all that it wanted to.
async fn hear_on<S: Socket>(server: &Server, connection: &mut Connection<'_, S>) -> End {
    while connection.proto.pending_bytes() < SMALL_BYTES {
        let Connection { stream, proto, read, .. } = &mut *connection;
        let now = || server.clock.proc();
        let fed = poll_fn(|context| poll_read_into(context, Pin::new(&mut *stream), proto, read, now())).await;
        match fed.and_then(|()| connection.count_half_read()) {
            Ok(()) => {}
            Err(End::Closed) if connection.proto.pending_bytes() > 0 => break,
            Err(end) => return end,
        }
    }
    std::future::pending().await
}

fn refusal(denied: Denied) -> Refusal {
    match denied {
        Denied::BadCredentials | Denied::CertificateMismatch => Refusal::BadCredentials,
        Denied::NotAuthorized => Refusal::NotAuthorized,
        Denied::TooManyAttempts { .. } => Refusal::TooManyAttempts,
    }
}

#[cfg(test)]
mod tests;
