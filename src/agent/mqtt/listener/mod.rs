//! The listener: an MQTT server whose PUBACK means "on disk".
//!
//! ```text
//! TCP, TLS, WebSocket, Unix ─▶ sockets ─▶ server: who is it? ─▶ connection ─▶ inbox ─▶ engine
//!                                           │ access              │ proto       ◀─ outbox ◀─┘
//! ```
//!
//! Sessions, subscriptions and retained messages are the engine's
//! ([`crate::engine::broker`]): what a client is promised is in the same commit as what its
//! messages did to the windows. Here are bytes, sockets, and who may do what.

pub mod access;
mod alias;
mod certificate;
mod connect;
mod connection;
mod end;
pub mod exchange;
pub mod facts;
pub mod fault;
mod frame;
mod gate;
mod hand_over;
pub mod outbox;
mod output;
pub mod packet;
mod probe;
mod properties;
pub mod proto;
mod read;
pub mod reply;
mod server;
mod server_tls;
mod sockets;
mod websocket;
mod window;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{error, info};

use crate::agent::clock::{SystemClock, sleep};
use crate::agent::inbox::InboxSender;
use crate::config::boot::{AccessSpec, ListenerSpec};
use crate::engine::broker::limits::BrokerLimits;
use crate::model::time::Span;

use access::Access;
use exchange::Exchange;
use facts::ListenerFacts;
use proto::ProtoLimits;
use server::Server;

/// Between two looks at a password file that cannot be used.
const ACCESS_AGAIN: Span = Span::from_secs(1);
/// Topic aliases that a client may use.
const TOPIC_ALIASES: u16 = 32;

/// Serves clients until the stop, and until they have been told.
pub async fn run(
    spec: ListenerSpec,
    broker: BrokerLimits,
    facts: Arc<ListenerFacts>,
    inbox: InboxSender,
    clock: SystemClock,
    mut stop: watch::Receiver<bool>,
) {
    raise_open_files();
    let access = tokio::select! {
        access = usable_access(&spec.access, &facts) => access,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    let seconds = u32::try_from(broker.session_expiry_max.as_millis() / 1_000).unwrap_or(u32::MAX);
    let proto_limits = ProtoLimits {
        packet_bytes: spec.limits.packet_bytes,
        connect_bytes: spec.limits.connect_bytes,
        in_flight: broker.in_flight,
        keep_alive_max: spec.limits.keep_alive_max,
        topic_alias_max: TOPIC_ALIASES,
        connect_within: spec.limits.connect_within,
        session_expiry_max_secs: seconds,
    };
    let server = Arc::new(Server {
        access,
        proto_limits,
        inbox,
        clock,
        facts,
        exchange: Exchange::new(spec.limits.memory_bytes),
        half_read: AtomicUsize::new(0),
        encoded: AtomicUsize::new(0),
        hashing: Semaphore::new(1),
        next: AtomicU32::new(1),
        limits: spec.limits,
    });
    let exchange = Arc::clone(&server.exchange);
    let mut sockets = JoinSet::new();
    for socket in spec.sockets {
        sockets.spawn(sockets::listen(socket, Arc::clone(&server), stop.clone()));
    }
    let serving = async { while sockets.join_next().await.is_some() {} };
    tokio::select! {
        () = exchange.deal() => {}
        () = serving => {}
    }
}

/// Nobody is let in by a list that cannot be read. The rest of the agent works on meanwhile.
async fn usable_access(spec: &AccessSpec, facts: &ListenerFacts) -> Access {
    loop {
        match Access::new(spec) {
            Ok(access) => {
                if facts.set_notice("no client can connect", "") {
                    info!("the password file can be used");
                }
                return access;
            }
            Err(error) => {
                if facts.set_notice("no client can connect", &error.to_string()) {
                    error!(%error, "no client can connect; trying again");
                }
                sleep(ACCESS_AGAIN).await;
            }
        }
    }
}

/// Each client takes a file descriptor. What the system allows a process is more than what it
/// gives it at the start.
fn raise_open_files() {
    let limits = getrlimit(Resource::Nofile);
    if limits.current < limits.maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
    }
}
