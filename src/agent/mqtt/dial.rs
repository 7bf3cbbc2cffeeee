//! The way to a broker: addresses, a TCP connection, a proxy, TLS. Each step may
//! take [`STEP_SECS_MAX`]: a link with seconds of delay gets through all of them,
//! and the message names the one that did not answer.

use std::future::Future;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_user_timeout;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::config::boot::{BrokerSpec, TlsSpec};

use super::connection::LinkError;
use super::proxy;
use super::tls::{TlsFiles, verdict};

/// Each step of connecting.
pub const STEP_SECS_MAX: u64 = 10;
/// What we sent and the peer's kernel has not confirmed for this long: the peer is gone. Notices
/// a cut cable also while the inbox is full and nothing is read.
const UNCONFIRMED_MILLIS_MAX: u32 = 30_000;

/// What bytes go through.
pub trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// Makes a connection, up to the point where MQTT begins.
///
/// # Errors
/// [`LinkError`].
pub async fn dial(spec: &BrokerSpec, files: &mut TlsFiles) -> Result<Box<dyn Pipe>, LinkError> {
    // First: files that cannot be used cost no connection.
    let tls = spec.tls.as_ref().map(|tls| Ok::<_, LinkError>((tls, files.config(tls)?))).transpose()?;
    let mut stream = match &spec.proxy {
        None => tcp("", &spec.host, spec.port).await?,
        Some(proxy) => tcp("the proxy ", &proxy.host, proxy.port).await?,
    };
    if let Some(proxy) = &spec.proxy {
        let what = format!("no answer from the proxy {}", authority(&proxy.host, proxy.port));
        step(what, proxy::ask(&mut stream, proxy, &authority(&spec.host, spec.port))).await??;
    }
    let Some((tls, config)) = tls else { return Ok(Box::new(stream)) };
    let name = server_name(spec, tls);
    let server = ServerName::try_from(name.clone())
        .map_err(|_| LinkError::Broken(format!("{name} is no name that a certificate can be for")))?;
    let handshake = TlsConnector::from(config).connect(server, stream);
    match step(format!("no TLS handshake with {}", authority(&spec.host, spec.port)), handshake).await? {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(verdict(&error, &name)),
    }
}

/// The name that the broker's certificate has to be for.
fn server_name(spec: &BrokerSpec, tls: &TlsSpec) -> String {
    tls.server_name.clone().unwrap_or_else(|| spec.host.clone())
}

/// One step, in its time.
///
/// # Errors
/// [`LinkError::NoAnswer`].
pub async fn step<T>(what: String, work: impl Future<Output = T>) -> Result<T, LinkError> {
    timeout(Duration::from_secs(STEP_SECS_MAX), work).await.map_err(|_elapsed| LinkError::NoAnswer(what))
}

/// A host name may have several addresses, and some of them may be of no use: each gets
/// its share of the time.
async fn tcp(what: &str, host: &str, port: u16) -> Result<TcpStream, LinkError> {
    let shown = format!("{what}{}", authority(host, port));
    let found = step(format!("no answer to who {host} is"), lookup_host((host, port)))
        .await?
        .map_err(|error| LinkError::Broken(format!("cannot find the address of {host}: {error}")))?;
    let addresses: Vec<SocketAddr> = found.collect();
    let mut problem = LinkError::Broken(format!("{host} has no address"));
    let share = Duration::from_secs(STEP_SECS_MAX) / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream).map_err(|error| LinkError::Broken(error.to_string()))?;
                return Ok(stream);
            }
            Ok(Err(error)) => problem = LinkError::Broken(format!("no connection to {shown}: {error}")),
            Err(_elapsed) => problem = LinkError::NoAnswer(format!("no answer from {shown}")),
        }
    }
    Err(problem)
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    Ok(set_tcp_user_timeout(stream, UNCONFIRMED_MILLIS_MAX)?)
}

/// `host:port`, with brackets around an IPv6 address.
pub fn authority(host: &str, port: u16) -> String {
    if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
