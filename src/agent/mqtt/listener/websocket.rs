//! MQTT in WebSocket frames: a pipe to the connection on one side, frames on the other.

mod handshake;

use std::io;

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Bytes;
use tokio_tungstenite::tungstenite::protocol::{Message, Role, WebSocketConfig};

use crate::agent::mqtt::dial::Pipe;

use handshake::{HEAD_BYTES_MAX, HEAD_END, answer, head_bytes, refusal};

/// Bytes of the pipe, each way.
const PIPE_BYTES: usize = 32 * 1024;

/// Shakes hands, and returns the bytes inside.
///
/// # Errors
/// It is no WebSocket client, or not one of MQTT.
pub(super) async fn accept(mut stream: Box<dyn Pipe>, message_bytes: usize) -> io::Result<DuplexStream> {
    shake_hands(&mut stream).await?;
    let mut config = WebSocketConfig::default();
    // MQTT packets may span frames, and frames may hold many packets.
    config.max_message_size = Some(message_bytes.max(64 * 1024));
    config.max_frame_size = config.max_message_size;
    config.max_write_buffer_size = 4 * PIPE_BYTES;
    config.write_buffer_size = 0;
    let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (here, there) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(carry(socket, there));
    Ok(here)
}

/// How long that may take is the caller's matter.
async fn shake_hands(stream: &mut Box<dyn Pipe>) -> io::Result<()> {
    let mut arrived = Vec::new();
    loop {
        let seen = arrived.len().saturating_sub(HEAD_END.len());
        if stream.read_buf(&mut arrived).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let answer = match head_bytes(&arrived, seen) {
            // A client waits for the answer before it says more.
            Some(bytes) if bytes == arrived.len() => answer(&arrived),
            None if arrived.len() < HEAD_BYTES_MAX => continue,
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
async fn carry(mut socket: WebSocketStream<Box<dyn Pipe>>, pipe: DuplexStream) {
    let (mut from_agent, mut to_agent) = tokio::io::split(pipe);
    let mut bytes = vec![0; PIPE_BYTES];
    loop {
        tokio::select! {
            arrived = socket.next() => match arrived {
                Some(Ok(Message::Binary(bytes))) => {
                    if to_agent.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
                // The library answers pings by itself.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
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
