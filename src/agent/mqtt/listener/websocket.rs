//! MQTT in WebSocket frames: a pipe to the connection on one side, frames on the other.

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::{Message, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

/// Bytes of the pipe, each way.
const PIPE_BYTES: usize = 32 * 1024;

/// Shakes hands, and returns the bytes inside. The path is `/mqtt` or `/`; the subprotocol,
/// where the client names one, is `mqtt`.
///
/// # Errors
/// It is no WebSocket client, or not one of MQTT.
pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    message_bytes: usize,
) -> Result<DuplexStream, Box<Error>> {
    let mut config = WebSocketConfig::default();
    // MQTT packets may span frames, and frames may hold many packets.
    config.max_message_size = Some(message_bytes.max(64 * 1024));
    config.max_frame_size = config.max_message_size;
    config.max_write_buffer_size = 4 * PIPE_BYTES;
    config.write_buffer_size = 0;
    let socket = accept_hdr_async_with_config(stream, greet, Some(config)).await.map_err(Box::new)?;
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
async fn carry<S: AsyncRead + AsyncWrite + Unpin>(mut socket: WebSocketStream<S>, pipe: DuplexStream) {
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
