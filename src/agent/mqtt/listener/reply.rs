//! What a client is told beside the broker's packets: whether it is let in, what became of its
//! message, why it has to go. With the codes of both versions.

use crate::engine::broker::packet::Farewell;

/// Why a client is not let in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// User name or password are wrong, or missing.
    BadCredentials,
    /// It is known, and may not.
    NotAuthorized,
    /// It, or its address, has tried too often.
    TooManyAttempts,
    /// There is no room for another session.
    QuotaExceeded,
    /// Not now: the agent starts, or has too much to do.
    ServerBusy,
    /// The agent stops.
    ShuttingDown,
    /// Not a client id for this client.
    BadClientId,
    /// Enhanced authentication is not spoken.
    BadAuthenticationMethod,
}

impl Refusal {
    /// The reason code of MQTT 5.
    pub fn code(self) -> u8 {
        match self {
            Refusal::BadClientId => 0x85,
            Refusal::BadCredentials => 0x86,
            Refusal::NotAuthorized => 0x87,
            Refusal::ServerBusy => 0x89,
            Refusal::TooManyAttempts => 0x8a,
            Refusal::ShuttingDown => 0x88,
            Refusal::BadAuthenticationMethod => 0x8c,
            Refusal::QuotaExceeded => 0x97,
        }
    }

    /// The return code of MQTT 3.1.1.
    pub fn return_code(self) -> u8 {
        match self {
            Refusal::BadClientId => 2,
            Refusal::ServerBusy | Refusal::QuotaExceeded | Refusal::ShuttingDown => 3,
            Refusal::BadCredentials => 4,
            Refusal::NotAuthorized | Refusal::TooManyAttempts | Refusal::BadAuthenticationMethod => 5,
        }
    }
}

/// What became of a message. MQTT 3.1.1 has no words for it: the answer is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckReason {
    /// It is taken, and durable.
    Success,
    /// Taken; nobody has subscribed to it.
    NoSubscribers,
    /// The access rules forbid the topic.
    NotAuthorized,
    /// There is no room for it.
    QuotaExceeded,
    /// It is not taken for a reason of ours.
    ImplementationSpecific,
}

impl AckReason {
    /// The reason code of MQTT 5.
    pub fn code(self) -> u8 {
        match self {
            AckReason::Success => 0x00,
            AckReason::NoSubscribers => 0x10,
            AckReason::ImplementationSpecific => 0x83,
            AckReason::NotAuthorized => 0x87,
            AckReason::QuotaExceeded => 0x97,
        }
    }
}

/// Why a client that was let in has to go. MQTT 3.1.1 has no words for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goodbye {
    /// As the broker says.
    Broker(Farewell),
    /// It is, or has become, one that may not be here.
    NotAuthorized,
    /// It does not read what it is sent, or something here failed.
    ServerBusy,
    /// Someone has ended it by hand.
    Administrative,
}

impl Goodbye {
    /// The reason code of MQTT 5.
    pub fn code(self) -> u8 {
        match self {
            Goodbye::Broker(Farewell::ProtocolError) => 0x82,
            Goodbye::NotAuthorized => 0x87,
            Goodbye::ServerBusy => 0x89,
            Goodbye::Broker(Farewell::ShuttingDown) => 0x8b,
            Goodbye::Broker(Farewell::TakenOver) => 0x8e,
            Goodbye::Broker(Farewell::QuotaExceeded) => 0x97,
            Goodbye::Administrative => 0x98,
        }
    }

    /// The same to a client that is not let in yet.
    pub fn as_refusal(self) -> Refusal {
        match self {
            Goodbye::Broker(Farewell::QuotaExceeded) => Refusal::QuotaExceeded,
            Goodbye::Broker(Farewell::ShuttingDown) => Refusal::ShuttingDown,
            Goodbye::NotAuthorized => Refusal::NotAuthorized,
            Goodbye::Broker(Farewell::TakenOver | Farewell::ProtocolError)
            | Goodbye::ServerBusy
            | Goodbye::Administrative => Refusal::ServerBusy,
        }
    }
}

/// What became of something that a client was to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// It is in the output.
    Written,
    /// It is larger than what the client takes, or than MQTT can say: it is left out, and
    /// counts as delivered.
    TooLarge,
    /// Nothing is written to this client (any more, or yet).
    Closed,
}
