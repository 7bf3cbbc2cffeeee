//! MQTT in WebSocket frames: a pipe to the connection on one side, frames on the other.
//!
//! A message is kept until it has come whole, so what has come of it counts as a half-received
//! packet does.

mod handshake;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Buf as _;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use handshake::{HEAD_BYTES_MAX, HEAD_END, answer, begins_as_request, head_bytes, refusal};

use super::connection::SMALL_BYTES;
use super::probe::Socket;
use super::server::{Peer, Server};

/// Bytes of the pipe, each way.
const PIPE_BYTES: usize = 16 * 1024;
/// Bytes read at a time, and written: each connection has both.
const READ_BYTES: usize = 4 * 1024;

/// Bytes of a ping beside what it says.
const CONTROL_BYTES: usize = 6;

/// A socket, and how much it has given of a message that is not whole.
struct Counted {
    stream: Box<dyn Socket>,
    half_read: usize,
    server: Arc<Server>,
    peer: Peer,
}

/// Shakes hands, and returns the bytes inside.
///
/// # Errors
/// It is no WebSocket client, or not one of MQTT.
pub(super) async fn accept(stream: Box<dyn Socket>, server: &Arc<Server>, peer: Peer) -> io::Result<DuplexStream> {
    let mut stream = Counted { stream, half_read: 0, server: Arc::clone(server), peer };
    shake_hands(&mut stream).await?;
    stream.note_whole();
    let mut config = WebSocketConfig::default();
    // MQTT packets may span frames, and frames may hold many packets.
    config.max_message_size = Some(server.limits.packet_bytes.max(64 * 1024));
    config.max_frame_size = config.max_message_size;
    config.read_buffer_size = READ_BYTES;
    config.max_write_buffer_size = 4 * PIPE_BYTES;
    config.write_buffer_size = 0;
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (here, there) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(carry(socket, there));
    Ok(here)
}

/// How long that may take is the caller's matter.
async fn shake_hands(stream: &mut Counted) -> io::Result<()> {
    let mut arrived = Vec::new();
    loop {
        let seen = arrived.len().saturating_sub(HEAD_END.len());
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let answer = match head_bytes(&arrived, seen) {
            // A client waits for the answer before it says more.
            Some(bytes) if bytes == arrived.len() => answer(&arrived),
            None if arrived.len() < HEAD_BYTES_MAX && begins_as_request(&arrived) => continue,
            Some(_) | None => Err("400 Bad Request"),
        };
        let (text, result) = match answer {
            Ok(text) => (text, Ok(())),
            Err(status) => (refusal(status), Err(io::Error::new(io::ErrorKind::InvalidData, status))),
        };
        stream.write_all(text.as_bytes()).await?;
        stream.flush().await?;
        return result;
    }
}

/// Until either side ends. What is on its way to the client then is sent before the close.
///
/// Never waits for the agent to take something while the agent waits for something of its own to
/// be taken: it reads no more while its client has not been sent what waits.
async fn carry(mut socket: WebSocketStream<Counted>, pipe: DuplexStream) {
    let (mut from_agent, mut to_agent) = tokio::io::split(pipe);
    let mut bytes = vec![0; READ_BYTES];
    // Of the client, and not taken by the agent yet.
    let mut arrived = Bytes::new();
    loop {
        tokio::select! {
            message = socket.next(), if arrived.is_empty() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    socket.get_mut().note_whole();
                    arrived = bytes;
                }
                // The library answers pings by itself. They may come within a message.
                Some(Ok(control @ (Message::Ping(_) | Message::Pong(_)))) => {
                    socket.get_mut().note_done(CONTROL_BYTES + control.len());
                }
                Some(Ok(Message::Frame(_))) => {}
                // MQTT has no text frames.
                Some(Ok(Message::Text(_) | Message::Close(_)) | Err(_)) | None => break,
            },
            taken = to_agent.write(&arrived), if !arrived.is_empty() => match taken {
                Ok(0) | Err(_) => break,
                Ok(count) => arrived.advance(count),
            },
            read = from_agent.read(&mut bytes) => match read {
                Ok(0) | Err(_) => break,
                Ok(count) => {
                    let frame = Message::Binary(Bytes::copy_from_slice(&bytes[..count]));
                    if socket.send(frame).await.is_err() {
                        break;
                    }
                }
            },
        }
    }
    let _ = socket.close(None).await;
}

impl Counted {
    /// A message has come whole.
    fn note_whole(&mut self) {
        self.note_done(self.half_read);
    }

    /// So much of what was read is kept no more.
    fn note_done(&mut self, bytes: usize) {
        let done = bytes.min(self.half_read);
        self.half_read -= done;
        self.server.half_read.fetch_sub(done, Ordering::Relaxed);
    }

    fn note_read(&mut self, bytes: usize) -> io::Result<()> {
        self.half_read += bytes;
        let total = self.server.half_read.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if total > self.server.limits.memory_bytes && self.half_read > SMALL_BYTES {
            self.server.note_ended(
                "memory",
                &self.peer,
                "",
                &"a half-sent WebSocket message takes memory that others need",
            );
            return Err(io::Error::other("its half-sent message takes memory that others need"));
        }
        Ok(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.note_whole();
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        match read {
            Poll::Ready(Ok(())) => Poll::Ready(self.note_read(buffer.filled().len() - before)),
            Poll::Ready(Err(_)) | Poll::Pending => read,
        }
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
