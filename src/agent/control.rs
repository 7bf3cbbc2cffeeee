//! The control socket: how the command line asks a running agent.
//!
//! One request per connection, one line each way: `status\n` → one JSON
//! document. A Unix socket of mode 0660: who may use it is a matter of its
//! owner and group. Limits: 256 bytes a request, 4 connections at once, 5 s
//! from accepting to the answer; whatever is beyond them is refused or waits.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::model::limits::{CONTROL_CONNECTIONS_MAX, CONTROL_REQUEST_BYTES_MAX};
use crate::model::time::Span;

use super::clock::sleep;
use super::inbox::{InboxSender, Input};

const MODE: u32 = 0o660;
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// After an accept that failed (no file descriptors left), before the next.
const ACCEPT_AGAIN: Span = Span::from_millis(200);

/// Opens the socket; has to be called within the runtime. A file left by an
/// agent that was killed is removed, one that is answered is not.
///
/// # Errors
/// Another process listens there, or the operating system refuses.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    match BlockingStream::connect(path) {
        Ok(_) => return Err(io::Error::new(ErrorKind::AddrInUse, "another agent answers on this socket")),
        // A file that is no socket refuses too, and may be anything.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            if !fs::symlink_metadata(path)?.file_type().is_socket() {
                return Err(io::Error::new(ErrorKind::AlreadyExists, "something that is not a socket is in its place"));
            }
            fs::remove_file(path)?;
        }
        Err(_nothing_there) => {}
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok(listener)
}

/// Serves requests for ever; the caller drops it.
pub async fn serve(listener: UnixListener, inbox: InboxSender) {
    let slots = Arc::new(Semaphore::new(CONTROL_CONNECTIONS_MAX));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let inbox = inbox.clone();
                tokio::spawn(async move {
                    match timeout(ANSWER_MAX, answer(stream, inbox)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => debug!(%error, "control connection ended early"),
                        Err(_elapsed) => debug!("control connection timed out"),
                    }
                    drop(slot);
                });
            }
            Err(error) => {
                warn!(%error, "control socket");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn answer(mut stream: UnixStream, inbox: InboxSender) -> io::Result<()> {
    let (reading, mut writing) = stream.split();
    let mut request = String::new();
    BufReader::new(reading.take(CONTROL_REQUEST_BYTES_MAX as u64)).read_line(&mut request).await?;
    let mut document = match request.strip_suffix('\n').map(str::trim_end) {
        Some("status") => status(&inbox).await,
        Some(other) => refusal(&format!("unknown request \"{other}\"; known: status")),
        None => refusal(&format!("a request is one line of at most {CONTROL_REQUEST_BYTES_MAX} bytes")),
    };
    document.push(b'\n');
    writing.write_all(&document).await?;
    writing.shutdown().await
}

async fn status(inbox: &InboxSender) -> Vec<u8> {
    let (answer, document) = oneshot::channel();
    if inbox.send(Input::Query(answer)).await.is_err() {
        return refusal("the agent is stopping");
    }
    document.await.unwrap_or_else(|_| refusal("the agent is stopping"))
}

fn refusal(text: &str) -> Vec<u8> {
    serde_json::json!({ "error": text }).to_string().into_bytes()
}

/// The other side, for the command line: sends one request, waits for the answer.
///
/// # Errors
/// No agent listens there, or it does not answer in time.
pub fn ask(path: &Path, request: &str) -> io::Result<String> {
    let mut stream = BlockingStream::connect(path)?;
    // Longer than the agent allows itself.
    stream.set_read_timeout(Some(ANSWER_MAX * 2))?;
    stream.set_write_timeout(Some(ANSWER_MAX))?;
    stream.write_all(request.as_bytes())?;
    stream.write_all(b"\n")?;
    let mut document = String::new();
    stream.read_to_string(&mut document)?;
    Ok(document.trim_end().to_owned())
}
