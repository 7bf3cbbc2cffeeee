//! MQTT in WebSocket frames: a pipe to the connection on one side, frames on the other.
//!
//! A message is kept until it has come whole, so what has come of it counts as a half-received
//! packet does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::{Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::connection::SMALL_BYTES;
use super::server::Server;

/// Bytes of the pipe, each way.
const PIPE_BYTES: usize = 16 * 1024;
/// Bytes read at a time, and written: each connection has both.
const READ_BYTES: usize = 4 * 1024;

/// Bytes of a ping beside what it says.
const CONTROL_BYTES: usize = 6;

/// A socket, and how much it has given of a message that is not whole.
struct Counted<S> {
    stream: S,
    half_read: usize,
    server: Arc<Server>,
}

/// Shakes hands, and returns the bytes inside. The path is `/mqtt` or `/`; the subprotocol,
/// where the client names one, is `mqtt`.
///
/// # Errors
/// It is no WebSocket client, or not one of MQTT.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    server: &Arc<Server>,
) -> Result<DuplexStream, Box<Error>> {
    let mut config = WebSocketConfig::default();
    // MQTT packets may span frames, and frames may hold many packets.
    config.max_message_size = Some(server.limits.packet_bytes.max(64 * 1024));
    config.max_frame_size = config.max_message_size;
    config.read_buffer_size = READ_BYTES;
    config.max_write_buffer_size = 4 * PIPE_BYTES;
    config.write_buffer_size = 0;
    let stream = Counted { stream, half_read: 0, server: Arc::clone(server) };
    let mut socket = accept_hdr_async_with_config(stream, greet, Some(config)).await.map_err(Box::new)?;
    socket.get_mut().note_whole();
    let (here, there) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(carry(socket, there));
    Ok(here)
}

#[expect(clippy::result_large_err, reason = "as the library calls it")]
fn greet(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let refuse = |status| {
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = status;
        refusal
    };
    if !matches!(request.uri().path(), "/mqtt" | "/") {
        return Err(refuse(StatusCode::NOT_FOUND));
    }
    if let Some(asked) = request.headers().get("Sec-WebSocket-Protocol") {
        let asked = asked.to_str().unwrap_or_default();
        if !asked.split(',').any(|one| one.trim() == "mqtt") {
            return Err(refuse(StatusCode::BAD_REQUEST));
        }
        response.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static("mqtt"));
    }
    Ok(response)
}

/// Until either side ends. What is on its way to the client then is sent before the close.
async fn carry<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<Counted<S>>, pipe: DuplexStream) {
    let (mut from_agent, mut to_agent) = tokio::io::split(pipe);
    let mut bytes = vec![0; READ_BYTES];
    loop {
        tokio::select! {
            arrived = socket.next() => match arrived {
                Some(Ok(Message::Binary(bytes))) => {
                    socket.get_mut().note_whole();
                    if to_agent.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
                // The library answers pings by itself. They may come within a message.
                Some(Ok(control @ (Message::Ping(_) | Message::Pong(_)))) => {
                    socket.get_mut().note_done(CONTROL_BYTES + control.len());
                }
                Some(Ok(Message::Frame(_))) => {}
                // MQTT has no text frames.
                Some(Ok(Message::Text(_) | Message::Close(_)) | Err(_)) | None => break,
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

impl<S> Counted<S> {
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
            self.server.facts.handle_refused("memory");
            return Err(io::Error::other("its half-sent message takes memory that others need"));
        }
        Ok(())
    }
}

impl<S> Drop for Counted<S> {
    fn drop(&mut self) {
        self.note_whole();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
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
