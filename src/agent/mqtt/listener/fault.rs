//! Why a connection of the listener has to end, and the code that says so to the client.

/// What is wrong with a client. The connection is closed after it, whatever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Something else speaks: HTTP, TLS on the plain port.
    #[error("the first byte is {0:#04x}, which no CONNECT begins with{hint}", hint = spoken(*.0))]
    NotMqtt(u8),
    /// It connected and said nothing, or too little.
    #[error("it sent no whole CONNECT in the time for it")]
    ConnectTimeout,
    /// It has vanished without a word.
    #[error("it was silent for one and a half times its keep-alive")]
    KeepAlive,
    /// Found when the length is read, before memory is taken.
    #[error("it sends a packet of {bytes} bytes, and {max} are allowed")]
    TooLarge {
        /// With its header.
        bytes: usize,
        /// Allowed.
        max: usize,
    },
    /// Bytes that are no packet.
    #[error("it sends a malformed packet: {0}")]
    Malformed(&'static str),
    /// A packet that must not come, or not now.
    #[error("it breaks the protocol: {0}")]
    Protocol(&'static str),
    /// Neither 3.1.1 nor 5.
    #[error("it speaks level {0} of the protocol; 4 (MQTT 3.1.1) and 5 are spoken here")]
    Version(u8),
    /// Not one that is accepted here.
    #[error("its client id is refused: {0}")]
    ClientId(&'static str),
    /// A topic that nothing can be published to.
    #[error("it publishes to an invalid topic: {0}")]
    TopicName(&'static str),
    /// A filter that nothing can match.
    #[error("it subscribes to an invalid filter: {0}")]
    TopicFilter(&'static str),
    /// MQTT 5: it was told how many it may send unacknowledged.
    #[error("it has more than the {0} messages in flight that it was told")]
    ReceiveMaximum(u16),
    /// MQTT 5: it was told how many there are, and they begin with 1.
    #[error("it uses topic alias {0}, which is none of those that it was told")]
    TopicAlias(u16),
    /// More of something in one packet than is taken.
    #[error("too much in one packet: {0}")]
    Quota(&'static str),
}

/// What begins so, in words for the log.
fn spoken(first: u8) -> &'static str {
    match first {
        0x16 => ": TLS at a port for plain MQTT?",
        b'G' => ": a web browser, or WebSocket at a port for plain MQTT?",
        _ => "",
    }
}

impl Fault {
    /// The reason code of MQTT 5.
    pub fn code(&self) -> u8 {
        match self {
            Fault::NotMqtt(_) | Fault::Malformed(_) => 0x81,
            Fault::Protocol(_) => 0x82,
            Fault::Version(_) => 0x84,
            Fault::ClientId(_) => 0x85,
            Fault::ConnectTimeout | Fault::KeepAlive => 0x8d,
            Fault::TopicFilter(_) => 0x8f,
            Fault::TopicName(_) => 0x90,
            Fault::ReceiveMaximum(_) => 0x93,
            Fault::TopicAlias(_) => 0x94,
            Fault::TooLarge { .. } => 0x95,
            Fault::Quota(_) => 0x97,
        }
    }

    /// The name of the counter.
    pub fn name(&self) -> &'static str {
        match self {
            Fault::NotMqtt(_) => "not_mqtt",
            Fault::ConnectTimeout => "connect_timeout",
            Fault::KeepAlive => "keep_alive",
            Fault::TooLarge { .. } => "packet_too_large",
            Fault::Malformed(_) => "malformed",
            Fault::Protocol(_) => "protocol",
            Fault::Version(_) => "version",
            Fault::ClientId(_) => "client_id",
            Fault::TopicName(_) => "topic",
            Fault::TopicFilter(_) => "filter",
            Fault::ReceiveMaximum(_) => "receive_maximum",
            Fault::TopicAlias(_) => "topic_alias",
            Fault::Quota(_) => "quota",
        }
    }
}
