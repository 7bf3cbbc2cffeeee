//! How a connection ends.

use crate::agent::inbox::Closed;
use crate::engine::broker::packet::Farewell;

use super::access::Denied;
use super::fault::Fault;

/// Why a connection ends, for its counter and the log.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("the client said goodbye")]
    Goodbye,
    #[error("the client closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Fault(#[from] Fault),
    #[error("{}", farewell(*.0))]
    SentAway(Farewell),
    #[error("{}{}", .0, user(.1.as_deref()))]
    Denied(Denied, Option<String>),
    #[error("{}", refused(.0))]
    Refused(&'static str),
    #[error("it does not read what it is sent")]
    Slow,
    #[error("its half-sent packet takes memory that others need")]
    Memory,
    #[error("the agent stops")]
    Stopping,
}

impl From<Closed> for End {
    fn from(_: Closed) -> End {
        End::Stopping
    }
}

impl End {
    /// The name of its counter; `None`: nothing was wrong.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            End::Goodbye | End::Closed | End::Stopping | End::Io(_) => None,
            End::Fault(fault) => Some(fault.name()),
            End::SentAway(Farewell::TakenOver) => Some("taken_over"),
            End::SentAway(_) => Some("sent_away"),
            End::Denied(denied, _) => Some(denied.counter()),
            End::Refused(why) => Some(why),
            End::Slow => Some("too_slow"),
            End::Memory => Some("memory"),
        }
    }
}

fn farewell(why: Farewell) -> &'static str {
    match why {
        Farewell::TakenOver => "another connection has its client id",
        Farewell::QuotaExceeded => "it exceeds a limit",
        Farewell::ProtocolError => "it broke the protocol",
        Farewell::ShuttingDown => "the agent stops",
    }
}

fn refused(why: &'static str) -> &'static str {
    match why {
        "no_connect" => "no CONNECT came in time",
        "authentication_method" => "it asks for enhanced authentication, which there is none of",
        "no_room_for_a_session" => "there are as many sessions as there may be, all with their clients",
        other => other,
    }
}

fn user(user: Option<&str>) -> String {
    user.map(|user| format!(" (user {user:?})")).unwrap_or_default()
}
