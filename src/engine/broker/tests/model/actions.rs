//! What may happen to a broker, at random.

use proptest::prelude::*;

use super::super::*;
use super::books::Asked;
use super::client::IN_FLIGHT;
use super::{CLIENTS, FILTERS, TOPICS};

/// What may happen.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Connect {
        client: usize,
        clean: bool,
        expiry_secs: u32,
        receive_max: u16,
        will: Option<(Words, u32)>,
    },
    Subscribe {
        client: usize,
        filter: usize,
        asked: Asked,
        handling: RetainHandling,
    },
    Unsubscribe {
        client: usize,
        filter: usize,
    },
    Publish {
        client: usize,
        words: Words,
    },
    /// Sends one thing again.
    Repeat(usize),
    /// Reads so much.
    Read(usize, usize),
    /// Says one of the answers that are due.
    Answer(usize, usize),
    Cut(usize),
    Goodbye {
        client: usize,
        with_will: bool,
        expiry_secs: Option<u32>,
    },
    Commit,
    Snapshot,
    /// The agent dies.
    Crash,
    Pass(u64),
}

#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) topic: usize,
    pub(super) qos: Qos,
    pub(super) retain: bool,
    pub(super) is_empty: bool,
    pub(super) expiry_secs: Option<u32>,
}

fn qos() -> impl Strategy<Value = Qos> {
    prop::sample::select(vec![Q0, Q1, Q1, Q2, Q2])
}

fn words() -> impl Strategy<Value = Words> {
    let expiry = prop::option::weighted(0.2, prop::sample::select(vec![3, 20]));
    (0..TOPICS.len(), qos(), prop::bool::weighted(0.3), prop::bool::weighted(0.2), expiry)
        .prop_map(|(topic, qos, retain, is_empty, expiry_secs)| Words { topic, qos, retain, is_empty, expiry_secs })
}

pub(super) fn action() -> impl Strategy<Value = Action> {
    let client = || 0..CLIENTS.len();
    let expiry = || prop::sample::select(vec![0, 30, 600, 600, u32::MAX]);
    let will = prop::option::weighted(0.4, (words(), prop::sample::select(vec![0, 5, 50])));
    let handling =
        prop::sample::select(vec![RetainHandling::Send, RetainHandling::SendIfNew, RetainHandling::DoNotSend]);
    let asked = (qos(), prop::bool::weighted(0.2), any::<bool>())
        .prop_map(|(qos, no_local, retain_as_published)| Asked { qos, no_local, retain_as_published });
    prop_oneof![
        5 => (client(), prop::bool::weighted(0.15), expiry(), 1..5_u16, will).prop_map(
            |(client, clean, expiry_secs, receive_max, will)| Action::Connect { client, clean, expiry_secs, receive_max, will }
        ),
        5 => (client(), 0..FILTERS.len(), asked, handling).prop_map(
            |(client, filter, asked, handling)| Action::Subscribe { client, filter, asked, handling }
        ),
        1 => (client(), 0..FILTERS.len()).prop_map(|(client, filter)| Action::Unsubscribe { client, filter }),
        12 => (client(), words()).prop_map(|(client, words)| Action::Publish { client, words }),
        6 => client().prop_map(Action::Repeat),
        12 => (client(), 1..6_usize).prop_map(|(client, count)| Action::Read(client, count)),
        12 => (client(), 0..8_usize).prop_map(|(client, which)| Action::Answer(client, which)),
        2 => client().prop_map(Action::Cut),
        1 => (client(), any::<bool>(), prop::option::of(expiry())).prop_map(
            |(client, with_will, expiry_secs)| Action::Goodbye { client, with_will, expiry_secs }
        ),
        12 => Just(Action::Commit),
        3 => Just(Action::Snapshot),
        2 => Just(Action::Crash),
        2 => (1..40_u64).prop_map(Action::Pass),
    ]
}

/// More than all that can be in flight: whoever is sent away for that is no part of the books.
const LITTLE: usize = 6_000;

pub(super) fn limits() -> impl Strategy<Value = BrokerLimits> {
    (prop::sample::select(vec![3, 1_000]), prop::sample::select(vec![LITTLE, 1 << 20])).prop_map(
        |(queue_messages, queue_bytes)| BrokerLimits {
            in_flight: IN_FLIGHT,
            queue_messages,
            queue_bytes,
            session_expiry_max: Span::from_secs(900),
            ..BrokerLimits::default()
        },
    )
}
