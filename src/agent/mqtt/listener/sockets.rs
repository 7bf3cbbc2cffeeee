//! The sockets of the listener: bound again and again until that works, and each connection a
//! task of its own. A task that panics ends its connection and nothing else.
//!
//! Whatever a client comes through, behind it is a [`Socket`]: the program holds the code of a
//! connection once, not once for each kind of socket, which took 0.3 MiB of a board's 6.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info};

use crate::agent::clock::sleep;
use crate::agent::mqtt::tls::handshake_problem;
use crate::agent::unix_socket;
use crate::config::boot::{SocketAddress, SocketSpec};
use crate::model::time::Span;

use super::certificate::common_name;
use super::probe::Socket;
use super::server::{Peer, Server};
use super::server_tls::ServerTls;
use super::websocket;

/// Between two tries to listen on an address that is taken.
const BIND_AGAIN: Span = Span::from_secs(5);
/// After an accept that failed, mostly for want of file descriptors.
const ACCEPT_AGAIN: Span = Span::from_millis(100);

/// How often the TLS files are looked at, whoever connects.
const LOOK_AGAIN: Span = Span::from_secs(60);

/// Connections by address.
type Addresses = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// One more connection of an address, as long as it is there.
struct Counted {
    address: IpAddr,
    addresses: Addresses,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(&self.address);
            }
        }
    }
}

/// Listens on one socket until the stop; then until its connections have ended.
pub(super) async fn listen(spec: SocketSpec, server: Arc<Server>, mut stop: watch::Receiver<bool>) {
    let mut listening = stop.clone();
    let mut connections = JoinSet::new();
    let accepting = async {
        match &spec.address {
            SocketAddress::Tcp(address) => accept_tcp(&spec, *address, &server, &listening, &mut connections).await,
            SocketAddress::Unix(path) => accept_unix(&spec, path, &server, &listening, &mut connections).await,
        }
    };
    tokio::select! {
        () = accepting => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    let _ = listening.wait_for(|stop| *stop).await;
    while connections.join_next().await.is_some() {}
}

async fn accept_tcp(
    spec: &SocketSpec,
    address: SocketAddr,
    server: &Arc<Server>,
    stop: &watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) {
    let shown = shown(spec, &address.to_string());
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => not_listening(server, &shown, &error).await,
        }
    };
    let actual = listener.local_addr().map_or_else(|_| address.to_string(), |actual| actual.to_string());
    let shown = self::shown(spec, &actual);
    server.facts.handle_socket(&shown, "");
    info!(address = %shown, "clients can connect");
    let shown: Arc<str> = shown.into();
    let tls = spec.tls.clone().map(|tls| Arc::new(ServerTls::new(tls, Arc::clone(&shown), Arc::clone(server))));
    let addresses = Addresses::default();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // From the start on: who runs it is to know before the first client does.
            () = look_after(tls.as_deref()) => continue,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                not_accepted(server, &error).await;
                continue;
            }
        };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let is_loopback = from.ip().is_loopback();
        let peer = Peer { socket: Arc::clone(&shown), address: Some(from), is_loopback, certificate_name: None };
        let Some(counted) = admit(server, &peer, from.ip(), &addresses) else { continue };
        // Now: many may be accepted before the first of them gets its turn.
        let connected = server.facts.handle_connection();
        let _ = stream.set_nodelay(true);
        let (server, stop, tls, websocket) = (Arc::clone(server), stop.clone(), tls.clone(), spec.websocket);
        connections.spawn(async move {
            let _counted = (counted, connected);
            let within = Duration::from_millis(server.limits.connect_within.as_millis());
            match tls {
                None => serve(&server, Box::new(stream), peer, websocket, stop).await,
                // Boxed: what only some connections need takes no memory of the others.
                Some(tls) => {
                    Box::pin(async move {
                        match tokio::time::timeout(within, tls.accept(stream)).await {
                            Ok(Ok(stream)) => {
                                let certificates = stream.get_ref().1.peer_certificates();
                                let name = certificates.and_then(|chain| common_name(chain.first()?));
                                let peer = Peer { certificate_name: name, ..peer };
                                serve(&server, Box::new(stream), peer, websocket, stop).await;
                            }
                            Ok(Err(error)) => server.note_ended("tls", &peer, "", &handshake_problem(&error)),
                            Err(_elapsed) => server.note_ended("tls", &peer, "", &"TLS took too long"),
                        }
                    })
                    .await;
                }
            }
        });
    }
}

async fn accept_unix(
    spec: &SocketSpec,
    path: &Path,
    server: &Arc<Server>,
    stop: &watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) {
    let shown: Arc<str> = path.display().to_string().into();
    let listener = loop {
        match unix_socket::bind(path) {
            Ok(listener) => break listener,
            Err(error) => not_listening(server, &shown, &error).await,
        }
    };
    // Only what was made here goes at the stop.
    let _made = Made(path);
    server.facts.handle_socket(&shown, "");
    info!(address = %shown, "clients can connect");
    loop {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                not_accepted(server, &error).await;
                continue;
            }
        };
        let peer = Peer { socket: Arc::clone(&shown), address: None, is_loopback: true, certificate_name: None };
        if server.facts.connected() >= server.limits.connections {
            server.note_ended("too_many_connections", &peer, "", &"there are as many as there may be");
            continue;
        }
        let connected = server.facts.handle_connection();
        let (server, stop, websocket) = (Arc::clone(server), stop.clone(), spec.websocket);
        connections.spawn(async move {
            let _connected = connected;
            serve(&server, Box::new(stream), peer, websocket, stop).await;
        });
    }
}

async fn serve(
    server: &Arc<Server>,
    stream: Box<dyn Socket>,
    peer: Peer,
    websocket: bool,
    stop: watch::Receiver<bool>,
) {
    if !websocket {
        return server.serve(stream, peer, stop).await;
    }
    // Whatever its keep-alive will be: later it cannot be reached. Devices that turn their radio
    // off for long speak plain MQTT.
    stream.probe();
    let within = Duration::from_millis(server.limits.connect_within.as_millis());
    let accepting = tokio::time::timeout(within, websocket::accept(stream, server, peer.clone()));
    match Box::pin(accepting).await {
        Ok(Ok(stream)) => Box::pin(server.serve(Box::new(stream) as Box<dyn Socket>, peer, stop)).await,
        Ok(Err(error)) => server.note_ended("websocket", &peer, "", &format_args!("no WebSocket client: {error}")),
        Err(_elapsed) => server.note_ended("websocket", &peer, "", &"its WebSocket request took too long"),
    }
}

/// A connection more, where there is room for it.
fn admit(server: &Server, peer: &Peer, address: IpAddr, addresses: &Addresses) -> Option<Counted> {
    if server.facts.connected() >= server.limits.connections {
        server.note_ended("too_many_connections", peer, "", &"there are as many as there may be");
        return None;
    }
    let address = household(address);
    let mut known = addresses.lock().unwrap_or_else(PoisonError::into_inner);
    let count = known.entry(address).or_default();
    if *count >= server.limits.connections_per_address && !address.is_loopback() {
        let why = "there are as many of its address as there may be";
        server.note_ended("too_many_connections_of_an_address", peer, "", &why);
        return None;
    }
    *count += 1;
    Some(Counted { address, addresses: Arc::clone(addresses) })
}

/// Of IPv6, everybody has 2^64 addresses.
fn household(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

/// A socket in the file system, as long as it is listened on.
struct Made<'p>(&'p Path);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// Looks at the TLS files, if there are any, and again after a while.
async fn look_after(tls: Option<&ServerTls>) {
    match tls {
        Some(tls) => {
            tls.look();
            sleep(LOOK_AGAIN).await;
        }
        None => std::future::pending().await,
    }
}

fn shown(spec: &SocketSpec, address: &str) -> String {
    let scheme = match (spec.websocket, spec.tls.is_some()) {
        (false, false) => "mqtt",
        (false, true) => "mqtts",
        (true, false) => "ws",
        (true, true) => "wss",
    };
    format!("{scheme}://{address}")
}

async fn not_listening(server: &Server, shown: &str, error: &io::Error) {
    let hint = if error.kind() == io::ErrorKind::AddrInUse { " (another broker, or another agent?)" } else { "" };
    let trouble = format!("cannot listen: {error}{hint}");
    error!(address = shown, "{trouble}; trying again");
    server.facts.handle_socket(shown, &trouble);
    sleep(BIND_AGAIN).await;
}

async fn not_accepted(server: &Server, error: &io::Error) {
    if server.facts.handle_refused(server.clock.proc(), "accept_failed", "") {
        error!(%error, "a connection cannot be accepted: more file descriptors are needed (LimitNOFILE)?");
    }
    sleep(ACCEPT_AGAIN).await;
}
