//! Random clients, commits and crashes against [`Books`]: whatever happens, each session is
//! owed what the books say, in that order, and gets it: at `QoS` 2 once, at `QoS` 1 again only
//! with its mark, and nobody gets anything else. Nothing is told that a crash takes back.

mod actions;
mod books;
mod checks;
mod client;
mod durable;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::engine::broker::outgoing::packet_of;
use crate::engine::broker::packet::Properties;
use actions::{Action, Words, action, limits};
use books::{Asked, Books, LastWill, Member, Routed, Told};
use client::{Answer, Client, IN_FLIGHT, Read, Sent};

const CLIENTS: [&str; 4] = ["a", "b", "c", "d"];
const TOPICS: [&str; 3] = ["x/1", "x/2", "y/1"];
const FILTERS: [&str; 8] = ["x/1", "x/+", "+/1", "#", "x/#", "$share/g/x/+", "$share/g/#", "$share/h/x/+"];

/// Groups that have to choose, and for which message.
type Groups = Vec<(Told, Vec<Member>)>;

/// The broker, its clients, what is durable, and what should be.
struct Model {
    world: World,
    clients: Vec<Client>,
    /// Whose each connection is.
    connections: Vec<usize>,
    /// Messages that are acknowledged with the next commit.
    acks: Vec<(u32, u16)>,
    /// A snapshot and pages since, with the moment of each on a clock that does not know of
    /// what crashes took back: so much.
    parts: Vec<(u64, Vec<u8>)>,
    lost_millis: u64,
    /// Read back from them after the last commit.
    stored: World,
    committed_at: u64,
    books: Books,
    durable: Books,
    messages: u64,
    /// Of messages and clients: who may get it at `QoS` 0.
    at_qos_0: BTreeSet<(u64, usize)>,
    /// Instances that were sent to their client, and those below which any may have been.
    sent: BTreeSet<u64>,
    maybe_sent_below: u64,
    /// Instances at `QoS` 2 that were taken.
    once: BTreeSet<u64>,
    /// On its present connection: the last entry of the queue, and of each sender's messages
    /// at `QoS` 0, that each client was sent.
    last_seq: BTreeMap<u32, u64>,
    last_no: BTreeMap<(u32, usize), u64>,
    senders: BTreeMap<u64, usize>,
    /// Messages that have a number long before they are published.
    wills: BTreeSet<u64>,
    /// Sends that are not completed, by connection.
    window: BTreeMap<u32, (u16, BTreeSet<u16>)>,
}

impl Model {
    fn new(limits: BrokerLimits) -> Model {
        let world = World::with(limits);
        let parts = vec![(world.millis, world.whole())];
        Model {
            world,
            clients: CLIENTS.iter().map(|_| Client::default()).collect(),
            connections: Vec::new(),
            acks: Vec::new(),
            parts,
            lost_millis: 0,
            stored: World::with(limits),
            committed_at: 1_000,
            books: Books::default(),
            durable: Books::default(),
            messages: 0,
            at_qos_0: BTreeSet::new(),
            sent: BTreeSet::new(),
            maybe_sent_below: 0,
            once: BTreeSet::new(),
            last_seq: BTreeMap::new(),
            last_no: BTreeMap::new(),
            senders: BTreeMap::new(),
            wills: BTreeSet::new(),
            window: BTreeMap::new(),
        }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Connect { client, clean, expiry_secs, receive_max, ref will } => {
                self.connect(client, clean, expiry_secs, receive_max, will.as_ref());
            }
            Action::Subscribe { client, filter, asked, handling } => self.subscribe(client, filter, asked, handling),
            Action::Unsubscribe { client, filter } => {
                if let Some(connection) = self.open(client) {
                    let filters = [FILTERS[filter].to_owned()];
                    self.world.say(connection, ClientEvent::Unsubscribe { packet: 1, filters: &filters });
                    self.books.sessions.entry(client).or_default().asked.remove(FILTERS[filter]);
                }
            }
            Action::Publish { client, ref words } => self.publish(client, words),
            Action::Repeat(client) => self.repeat(client),
            Action::Read(client, count) => (0..count).for_each(|_| self.read(client)),
            Action::Answer(client, which) => self.answer(client, which),
            Action::Cut(client) => self.leave(client, None),
            Action::Goodbye { client, with_will, expiry_secs } => self.leave(client, Some((with_will, expiry_secs))),
            Action::Commit => self.commit(false),
            Action::Snapshot => self.commit(true),
            Action::Crash => self.crash(),
            Action::Pass(secs) => {
                self.world.pass(secs);
                let wills = self.books.pass(self.world.millis);
                self.expect_wills(wills);
            }
        }
        self.reconcile(&[], true);
        self.hear();
    }

    /// The connection of a client that was let in.
    fn open(&self, client: usize) -> Option<u32> {
        self.clients[client].connection.filter(|_| self.clients[client].is_in)
    }

    fn told(&mut self, sender: usize, words: &Words) -> Told {
        self.messages += 1;
        self.senders.insert(self.messages, sender);
        Told {
            no: self.messages,
            topic: TOPICS[words.topic],
            qos: words.qos,
            retain: words.retain,
            is_empty: words.is_empty,
            until: words.expiry_secs.map(|secs| self.world.millis + u64::from(secs) * 1_000),
        }
    }

    fn connect(&mut self, client: usize, clean: bool, expiry_secs: u32, receive_max: u16, will: Option<&(Words, u32)>) {
        let connection = u32::try_from(self.connections.len()).expect("few");
        self.connections.push(client);
        let clean = self.clients[client].connect(connection, clean);
        let last = will.map(|(words, delay_secs)| {
            // Their time begins when they are published; here, without end.
            let told = self.told(client, &Words { expiry_secs: None, ..words.clone() });
            self.wills.insert(told.no);
            LastWill { told, delay: u64::from(*delay_secs) * 1_000 }
        });
        let will = last
            .zip(will)
            .map(|(last, (_, delay_secs))| Will { message: message_of(&last.told), delay_secs: *delay_secs });
        let connect = Connect { receive_max, will, ..connect(CLIENTS[client], clean, expiry_secs) };
        self.world.connect(connection, &connect);
        let expiry = u64::from(expiry_secs.min(900)) * 1_000;
        let (resumes, published) = self.books.connect(self.world.millis, client, clean, expiry);
        if !resumes {
            // Nor would it believe in a session that goes on, if the answer is lost.
            self.clients[client].forget();
        }
        if let Some(kept) = self.books.sessions.get_mut(&client) {
            kept.will = last;
        }
        self.window.insert(connection, (receive_max.min(IN_FLIGHT), BTreeSet::new()));
        self.expect_wills(published.into_iter().collect());
    }

    fn subscribe(&mut self, client: usize, wanted: usize, asked: Asked, handling: RetainHandling) {
        let Some(connection) = self.open(client) else { return };
        let wanted = FILTERS[wanted];
        // A group at `QoS` 0 does not say whom it chose.
        let is_shared = wanted.starts_with('$');
        let qos = if is_shared { asked.qos.max(Q1) } else { asked.qos };
        let asked = Asked { qos, no_local: asked.no_local && !is_shared, ..asked };
        let asks = Filter {
            no_local: asked.no_local,
            retain_as_published: asked.retain_as_published,
            retain_handling: handling,
            ..filter(wanted, asked.qos)
        };
        let is_known = self.books.sessions[&client].asked.contains_key(wanted);
        let with_retained = match handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => !is_known,
            RetainHandling::DoNotSend => false,
        };
        self.world.subscribe(connection, &[asks]);
        let at_qos_0 = self.books.subscribe(self.world.millis, client, wanted, asked, with_retained);
        self.at_qos_0.extend(at_qos_0.into_iter().map(|no| (no, client)));
    }

    fn publish(&mut self, client: usize, words: &Words) {
        let Some(connection) = self.open(client) else { return };
        let packet = if words.qos > Q0 { self.clients[client].packet() } else { Some(0) };
        let Some(packet) = packet else { return };
        let told = self.told(client, words);
        if words.qos > Q0 {
            self.clients[client].sent.push(Sent { packet, told, released: false });
        }
        self.send(client, connection, &told, packet, false);
    }

    fn repeat(&mut self, client: usize) {
        let Some(connection) = self.open(client) else { return };
        let Some(packet) = self.clients[client].again.pop_front() else { return };
        let Some(sent) = self.clients[client].sent.iter().find(|sent| sent.packet == packet).copied() else { return };
        if sent.released {
            self.world.say(connection, ClientEvent::PubRel { packet });
        } else {
            self.send(client, connection, &sent.told, packet, true);
        }
    }

    fn send(&mut self, client: usize, connection: u32, told: &Told, packet: u16, dup: bool) {
        let message = message_of(told);
        let sent = Publish {
            topic: told.topic,
            payload: &message.payload,
            qos: told.qos,
            retain: told.retain,
            dup,
            packet: (told.qos > Q0).then_some(packet),
            expiry_secs: told
                .until
                .map(|until| u32::try_from(until.saturating_sub(self.world.millis) / 1_000).unwrap_or(0)),
            properties: message.properties.as_deref(),
        };
        let is_known = self.books.taken.contains_key(&told.no);
        let seen = self.world.publish(connection, &sent);
        assert_eq!(seen, if is_known { Seen::Known } else { Seen::New }, "{told:?} of {client}");
        if told.qos > Q0 {
            self.acks.push((connection, packet));
            self.books.taken.insert(told.no, told.qos);
        }
        if !is_known {
            let groups = self.route(client, told);
            self.reconcile(&groups, true);
        }
    }

    /// What the broker has routed. The groups that have to choose then.
    fn route(&mut self, from: usize, told: &Told) -> Groups {
        let Routed { at_qos_0, groups } = self.books.route(from, told);
        self.at_qos_0.extend(at_qos_0.into_iter().map(|client| (told.no, client)));
        if told.qos == Q0 {
            // Nobody can say whom they chose.
            self.at_qos_0.extend(groups.into_iter().flatten().map(|(client, ..)| (told.no, client)));
            return Groups::new();
        }
        groups.into_iter().map(|group| (*told, group)).collect()
    }

    /// The broker has published these wills, and no others.
    fn expect_wills(&mut self, mut expected: Vec<Told>) {
        let wills = self.world.broker.take_wills();
        let mut groups = Groups::new();
        for will in &wills {
            let no = number_of(will);
            let at = expected.iter().position(|told| told.no == no).expect("a will that is due");
            let told = expected.remove(at);
            self.books.taken.insert(no, told.qos);
            groups.extend(self.route(self.senders[&no], &told));
        }
        assert_eq!(expected, [], "all wills that are due");
        // One that a group has chosen may have ended at the same moment.
        self.reconcile(&groups, false);
    }

    fn read(&mut self, client: usize) {
        match self.clients[client].read() {
            Some(Read::Acknowledged(no)) => {
                assert!(self.durable.taken.contains_key(&no), "{no} was acknowledged and is not durable");
            }
            Some(Read::Once(instance)) => assert!(self.once.insert(instance), "{instance} came twice"),
            Some(Read::Other) | None => {}
        }
    }

    fn answer(&mut self, client: usize, which: usize) {
        let Some(connection) = self.open(client) else { return };
        let answers = &mut self.clients[client].answers;
        if answers.is_empty() {
            return;
        }
        let at = which % answers.len();
        let answer = answers.remove(at);
        let (Answer::Ack(packet) | Answer::Rec(packet) | Answer::Comp(packet)) = answer;
        let due = &mut self.books.sessions.entry(client).or_default().due;
        let at = due.iter().position(|due| due.seq.map(packet_of) == Some(packet));
        match (answer, at) {
            (Answer::Rec(_), Some(at)) => due[at].released = true,
            (Answer::Ack(_) | Answer::Comp(_), Some(at)) => _ = due.remove(at),
            (_, None) => {}
        }
        if answer != Answer::Rec(packet)
            && let Some((_, window)) = self.window.get_mut(&connection)
        {
            window.remove(&packet);
        }
        self.world.say(
            connection,
            match answer {
                Answer::Ack(packet) => ClientEvent::PubAck { packet, refused: false },
                Answer::Rec(packet) => ClientEvent::PubRec { packet, refused: false },
                Answer::Comp(packet) => ClientEvent::PubComp { packet },
            },
        );
    }

    fn leave(&mut self, client: usize, goodbye: Option<(bool, Option<u32>)>) {
        let Some(connection) = self.clients[client].connection else { return };
        self.clients[client].cut();
        if let Some((with_will, session_expiry_secs)) = goodbye {
            self.world.say(connection, ClientEvent::Disconnect { with_will, session_expiry_secs });
            if let Some(kept) = self.books.sessions.get_mut(&client) {
                kept.will = kept.will.filter(|_| with_will);
                if kept.expiry > 0 {
                    kept.expiry = session_expiry_secs.map_or(kept.expiry, |secs| u64::from(secs.min(900)) * 1_000);
                }
            }
        }
        self.world.say(connection, ClientEvent::Gone);
        let will = self.books.close(self.world.millis, client);
        self.expect_wills(will.into_iter().collect());
    }

    /// In the end everybody comes, reads, answers and sends what is left.
    fn drain(&mut self) {
        for client in 0..CLIENTS.len() {
            self.act(&Action::Connect { client, clean: false, expiry_secs: 600, receive_max: 2, will: None });
        }
        for _ in 0..300 {
            self.act(&Action::Commit);
            for client in 0..CLIENTS.len() {
                for action in [
                    Action::Read(client, 20),
                    Action::Repeat(client),
                    Action::Answer(client, 1),
                    Action::Answer(client, 0),
                ] {
                    self.act(&action);
                }
            }
            let is_done = |client: &Client| client.inbox.is_empty() && client.sent.is_empty();
            if self.clients.iter().all(is_done) && self.books.sessions.values().all(|kept| kept.due.is_empty()) {
                self.act(&Action::Commit);
                assert_eq!(self.world.broker.status().queued_bytes, 0);
                return;
            }
        }
        panic!("something is never delivered or acknowledged");
    }
}

fn message_of(told: &Told) -> Message {
    let properties = Properties { content_type: Some(told.no.to_string().into()), ..Properties::default() };
    let payload = if told.is_empty { "" } else { "something" };
    Message { retain: told.retain, properties: Some(Box::new(properties)), ..message(told.topic, payload, told.qos) }
}

fn number_of(message: &Message) -> u64 {
    let number = message.properties.as_deref().and_then(|properties| properties.content_type.as_deref());
    number.and_then(|number| number.parse().ok()).expect("all have one")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn whatever_happens_each_session_gets_what_it_is_owed_and_nothing_else(
        limits in limits(),
        actions in prop::collection::vec(action(), 1..150),
    ) {
        let mut model = Model::new(limits);
        for action in &actions {
            model.act(action);
        }
        model.drain();
    }
}
