//! The control socket: how the command line asks a running agent.
//!
//! One request per connection, one line ([`Request`]); one JSON document back, behind
//! which a page of the outbox has a line for each record. A Unix socket of mode 0660: who
//! may use it is a matter of its owner and group. Limits: 256 bytes a request, 4
//! connections at once, 5 s from accepting to the answer; whatever is beyond them is
//! refused or waits. No request changes anything, but for a replay of rejected messages.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::engine::outbox::LaneKind;
use crate::model::limits::{CONTROL_CONNECTIONS_MAX, CONTROL_REQUEST_BYTES_MAX};
use crate::model::time::{EventTime, Span};

use super::clock::sleep;
use super::inbox::{InboxSender, Input};
use super::outbox::page::Wanted;
use super::outbox::viewer::{Stopping, Viewer};
use super::rejected::Samples;
use super::rejected::query::Query;

/// What may be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// `status`: the status document.
    Status,
    /// `outbox`: what the outbox holds, in numbers.
    Outbox,
    /// `outbox page LANE POSITION [SINCE_MS]`, or `outbox check LANE POSITION` to have the
    /// records read and not sent: the first rows of the lane at or after the position.
    Page(Wanted),
    /// `quarantine ...`: samples of rejected messages.
    Quarantine(Query),
}

const KNOWN: &str = "known: status, outbox, outbox page LANE POSITION [SINCE_MS], outbox check LANE POSITION, \
                     quarantine list, quarantine show STREAM [REASON], quarantine replay [STREAM [REASON]]";

const ANSWER_MAX: Duration = Duration::from_secs(5);
/// After an accept that failed (no file descriptors left), before the next.
const ACCEPT_AGAIN: Span = Span::from_millis(200);

impl FromStr for Request {
    type Err = String;

    fn from_str(request: &str) -> Result<Request, String> {
        let words: Vec<&str> = request.split(' ').collect();
        match words[..] {
            ["status"] => Ok(Request::Status),
            ["outbox"] => Ok(Request::Outbox),
            ["outbox", "page", lane, from] => page(lane, from, None, true),
            ["outbox", "page", lane, from, since] => page(lane, from, Some(since), true),
            ["outbox", "check", lane, from] => page(lane, from, None, false),
            ["quarantine", ref query @ ..] => Query::parse(query).map(Request::Quarantine),
            _ => Err(format!("unknown request \"{request}\"; {KNOWN}")),
        }
    }
}

fn page(lane: &str, from: &str, since: Option<&str>, records: bool) -> Result<Request, String> {
    let kind = LaneKind::ALL.into_iter().find(|kind| kind.as_str() == lane);
    let lane = kind.ok_or_else(|| format!("there is no lane \"{lane}\""))?;
    let from = from.parse().map_err(|_| format!("\"{from}\" is no position: a whole number from 0"))?;
    let since = since.map(|text| text.parse().map_err(|_| format!("\"{text}\" is no time in milliseconds")));
    let since = since.transpose()?.map(EventTime::from_millis);
    Ok(Request::Page(Wanted { lane, from, since, records }))
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Status => f.write_str("status"),
            Request::Outbox => f.write_str("outbox"),
            Request::Quarantine(query) => query.fmt(f),
            Request::Page(Wanted { lane, from, since, records }) => {
                let word = if *records { "page" } else { "check" };
                write!(f, "outbox {word} {} {from}", lane.as_str())?;
                // Nothing is left out of what is only read.
                since.filter(|_| *records).map_or(Ok(()), |since| write!(f, " {}", since.as_millis()))
            }
        }
    }
}

/// Serves requests for ever; the caller drops it.
pub async fn serve(listener: UnixListener, inbox: InboxSender, viewer: Viewer, samples: Samples) {
    let slots = Arc::new(Semaphore::new(CONTROL_CONNECTIONS_MAX));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let (inbox, viewer, samples) = (inbox.clone(), viewer.clone(), samples.clone());
                tokio::spawn(async move {
                    match timeout(ANSWER_MAX, answer(stream, inbox, viewer, samples)).await {
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

async fn answer(mut stream: UnixStream, inbox: InboxSender, viewer: Viewer, samples: Samples) -> io::Result<()> {
    let (reading, mut writing) = stream.split();
    let mut line = String::new();
    BufReader::new(reading.take(CONTROL_REQUEST_BYTES_MAX as u64)).read_line(&mut line).await?;
    let request = match line.strip_suffix('\n').map(str::trim_end) {
        Some(line) => line.parse(),
        None => Err(format!("a request is one line of at most {CONTROL_REQUEST_BYTES_MAX} bytes")),
    };
    let document = match request {
        Ok(Request::Status) => status(&inbox).await,
        Ok(Request::Outbox) => viewer.overview().await,
        Ok(Request::Page(wanted)) => viewer.page(wanted).await,
        Ok(Request::Quarantine(query)) => {
            samples.answer(query, &inbox).await.map(|document| document.to_string().into_bytes())
        }
        Err(why) => Ok(refusal(&why)),
    };
    let mut document = document.unwrap_or_else(|Stopping| refusal("the agent is stopping"));
    if document.last() != Some(&b'\n') {
        document.push(b'\n');
    }
    writing.write_all(&document).await?;
    writing.shutdown().await
}

async fn status(inbox: &InboxSender) -> Result<Vec<u8>, Stopping> {
    let (answer, document) = oneshot::channel();
    inbox.send(Input::Query(answer)).await.map_err(|_| Stopping)?;
    document.await.map_err(|_| Stopping)
}

fn refusal(text: &str) -> Vec<u8> {
    serde_json::json!({ "error": text }).to_string().into_bytes()
}

/// Whether somebody listens there.
pub fn is_served(path: &Path) -> bool {
    BlockingStream::connect(path).is_ok()
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

/// That [`ask`] got nothing, for a person: why, then what to look at.
pub fn no_answer(path: &Path, error: &io::Error) -> anyhow::Error {
    let path = path.display();
    anyhow::anyhow!("no agent answers on {path}: {error}\n    hint: is it running, and may you use the socket?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written_and_a_wrong_one_says_what_is_wrong() {
        for line in [
            "status",
            "outbox",
            "outbox page backlog 17",
            "outbox page live 0 -5",
            "outbox check alarm 3",
            "quarantine replay s",
        ] {
            assert_eq!(line.parse::<Request>().map(|request| request.to_string()).as_deref(), Ok(line));
        }
        for (line, why) in [
            ("", "known: status, outbox"),
            ("outbox page", "outbox page LANE POSITION"),
            ("outbox page lost 3", "no lane \"lost\""),
            ("outbox page live -1", "no position"),
            ("outbox page live 1 yesterday", "no time in milliseconds"),
            ("outbox empty", "known: status"),
            ("quarantine burn", "quarantine list"),
        ] {
            let refused = line.parse::<Request>().expect_err("wrong");
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }
}
