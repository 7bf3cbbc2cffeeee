//! Finding that a client is gone where its silence says nothing: one without a keep-alive may be
//! silent for ever, so the kernel asks its machine now and then whether the connection is there.
//!
//! For those alone: who has a keep-alive may be out of reach until that is over, such as a
//! device that turns its radio off for an hour.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tracing::debug;

/// Of silence, before the first question. With the others: gone for ten minutes, and it is over.
const IDLE: Duration = Duration::from_mins(5);
/// Between two questions.
const AGAIN: Duration = Duration::from_mins(1);
/// Questions without an answer.
const TRIES: u32 = 5;

/// What a client is connected by.
pub(super) trait Probe {
    /// From now on, the kernel looks whether the other side is there.
    fn probe(&self);
}

impl Probe for TcpStream {
    fn probe(&self) {
        if let Err(error) = set(self) {
            debug!(%error, "a client that vanishes will not be noticed");
        }
    }
}

impl Probe for TlsStream<TcpStream> {
    fn probe(&self) {
        self.get_ref().0.probe();
    }
}

/// Whatever a client comes through.
pub(super) trait Socket: AsyncRead + AsyncWrite + Probe + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Probe + Send + Unpin> Socket for T {}

impl Probe for Box<dyn Socket> {
    fn probe(&self) {
        (**self).probe();
    }
}

/// The kernel knows.
impl Probe for UnixStream {
    fn probe(&self) {}
}

/// Of a WebSocket: what is behind the pipe is out of reach here, and was told when it came.
impl Probe for DuplexStream {
    fn probe(&self) {}
}

fn set(socket: impl AsFd) -> io::Result<()> {
    sockopt::set_tcp_keepidle(&socket, IDLE)?;
    sockopt::set_tcp_keepintvl(&socket, AGAIN)?;
    sockopt::set_tcp_keepcnt(&socket, TRIES)?;
    sockopt::set_socket_keepalive(&socket, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_client_is_given_up_after_ten_minutes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!sockopt::socket_keepalive(&stream).unwrap());
        set(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let idle = sockopt::tcp_keepidle(&stream).unwrap();
        let asked = sockopt::tcp_keepintvl(&stream).unwrap() * sockopt::tcp_keepcnt(&stream).unwrap();
        assert_eq!(idle + asked, Duration::from_mins(10));
    }
}
