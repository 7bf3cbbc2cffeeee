//! A client that is not let in yet, because the engine thread waits for the card.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::agent::inbox::{Inbox, inbox};
use crate::agent::mqtt::listener::outbox::ClientOutbox;
use crate::agent::mqtt::listener::packet::FromClient;
use crate::config::boot::AccessSpec;
use crate::model::time::Span;

const CONNECT: &[u8] = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01c";
const PUBLISH: &[u8] = b"\x30\x04\x00\x01tv";

/// A listener whose engine thread is this test.
struct Scene {
    server: Server,
    inbox: Inbox,
}

impl Scene {
    fn new() -> Scene {
        let (sender, inbox) = inbox();
        let access = AccessSpec { password_file: None, anonymous_on_loopback: true, rules: Vec::new() };
        let proto_limits = ProtoLimits {
            packet_bytes: 4 * 1024,
            connect_bytes: 1024,
            in_flight: 3,
            keep_alive_max: Span::ZERO,
            topic_alias_max: 4,
            connect_within: Span::from_secs(600),
            session_expiry_max_secs: 1_000,
        };
        let limits = ConnectionLimits { connect_within: Span::from_secs(600), ..ConnectionLimits::default() };
        let server = Server {
            access: Access::new(&access).expect("no file is read"),
            proto_limits,
            inbox: sender,
            clock: SystemClock::start(),
            facts: Arc::default(),
            exchange: Exchange::new(limits.memory_bytes),
            half_read: AtomicUsize::new(0),
            encoded: AtomicUsize::new(0),
            hashing: Semaphore::new(1),
            next: AtomicU32::new(1),
            limits,
        };
        Scene { server, inbox }
    }

    async fn serve(&self, stream: DuplexStream) {
        let (_running, stop) = watch::channel(false);
        let peer = Peer { socket: "memory".into(), address: None, is_loopback: true, certificate_name: None };
        self.server.serve(stream, peer, stop).await;
    }

    /// What the engine thread is told next.
    async fn next(&self) -> Input {
        loop {
            if let Some(input) = self.inbox.recv_ready() {
                return input;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn client_up(&self) -> ClientOutbox {
        let Input::ClientUp { outbox, .. } = self.next().await else { panic!("a client comes first") };
        outbox
    }

    fn tell(&self, outbox: &mut ClientOutbox, what: ToClient) {
        outbox.send(ToSocket::Tell(what)).expect("there is room");
        self.server.exchange.deal_once(&mut Vec::new());
    }

    fn end(&self, outbox: ClientOutbox) {
        drop(outbox);
        self.server.exchange.deal_once(&mut Vec::new());
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn a_client_that_gives_up_while_it_waits_is_noticed_at_once() {
    run(async {
        let scene = Scene::new();
        let (mut client, stream) = duplex(4 * 1024);
        let engine = async {
            client.write_all(CONNECT).await.expect("there is room");
            let outbox = scene.client_up().await;
            drop(client);
            assert!(matches!(scene.next().await, Input::ClientDown { .. }));
            drop(outbox);
        };
        tokio::join!(scene.serve(stream), engine);
    });
}

#[test]
fn what_a_client_says_before_it_is_let_in_is_kept_although_it_is_gone_by_then() {
    run(async {
        let scene = Scene::new();
        let (mut client, stream) = duplex(4 * 1024);
        let engine = async {
            client.write_all(&[CONNECT, PUBLISH].concat()).await.expect("there is room");
            client.shutdown().await.expect("it is open");
            let mut outbox = scene.client_up().await;
            for _ in 0..100 {
                tokio::task::yield_now().await;
                assert!(scene.inbox.recv_ready().is_none(), "it is not let in, and has said something");
            }
            scene.tell(&mut outbox, ToClient::ConnAck { session_present: false });
            let Input::FromClient(burst) = scene.next().await else { panic!("its message comes") };
            assert!(matches!(burst.packets.as_slice(), [FromClient::Publish(publish)] if publish.topic() == "t"));
            assert!(matches!(scene.next().await, Input::ClientDown { .. }));
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.expect("it is read to its end");
            assert_eq!(answer, b"\x20\x02\x00\x00");
            drop(outbox);
        };
        tokio::join!(scene.serve(stream), engine);
    });
}

#[test]
fn more_than_a_little_is_not_read_before_it_is_let_in() {
    run(async {
        let scene = Scene::new();
        let (mut client, stream) = duplex(64);
        let engine = async {
            client.write_all(CONNECT).await.expect("it is read");
            let outbox = scene.client_up().await;
            let flood = PUBLISH.repeat(1 + SMALL_BYTES);
            let mut written = 0;
            // Until nothing more is taken, however long one waits.
            let mut stuck = 0;
            while stuck < 100 {
                let before = written;
                tokio::select! {
                    biased;
                    more = client.write(&flood[written..]) => written += more.expect("it is open"),
                    () = tokio::task::yield_now() => {}
                }
                stuck = if written == before { stuck + 1 } else { 0 };
            }
            assert!((SMALL_BYTES..4 * SMALL_BYTES).contains(&written), "{written}");
            drop(client);
            scene.end(outbox);
        };
        tokio::join!(scene.serve(stream), engine);
    });
}
