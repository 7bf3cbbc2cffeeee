//! The control socket, without an engine: the test answers.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use tidegate::agent::clock::SystemClock;
use tidegate::agent::inbox::{Inbox, Input, Look, inbox};
use tidegate::agent::outbox::page::Page;
use tidegate::agent::outbox::viewer::Viewer;
use tidegate::agent::rejected;
use tidegate::agent::{control, unix_socket};
use tidegate::engine::outbox::{LaneKind, Outbox};
use tidegate::engine::spec::{OutboxSpec, UplinkPolicy};
use tidegate::engine::step::Clock;
use tidegate::model::time::Span;

/// A served socket in a directory of its own.
fn serve(path: PathBuf) -> Inbox {
    let (sender, receiver) = inbox();
    let (ready_in, ready) = flume::bounded(1);
    // Ends with the test program.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = unix_socket::bind(&path).expect("nobody else listens");
            ready_in.send(()).expect("the test waits");
            let viewer = Viewer::new(sender.clone(), "gw", path.parent().expect("in a directory"));
            let samples = rejected::spawn(path.parent().expect("in a directory"), 0).expect("a thread");
            control::serve(listener, sender, viewer, samples).await;
        });
    });
    ready.recv().expect("bound");
    receiver
}

fn ask_raw(path: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).expect("served");
    stream.write_all(bytes).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn a_status_is_one_line_from_the_engine_thread() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("run/control.sock");
    let inbox = serve(path.clone());
    let answerer = thread::spawn(move || {
        match inbox.recv(Span::from_secs(30)).expect("served").expect("asked") {
            Input::Query(answer) => answer.send(br#"{"v":1}"#.to_vec()).expect("waited for"),
            _ => panic!("a query"),
        }
        inbox
    });
    assert_eq!(control::ask(&path, "status").expect("answered"), r#"{"v":1}"#);
    drop(answerer.join().expect("asked once"));
    assert!(control::ask(&path, "status").expect("answered").contains("stopping"), "the engine thread has gone");
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[test]
fn what_is_no_request_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("control.sock");
    let _inbox = serve(path.clone());
    assert!(ask_raw(&path, b"format c:\n").contains("known: status"));
    assert!(ask_raw(&path, &[b'x'; 256]).contains("at most 256 bytes"));
}

/// An outbox whose oldest rows are in a block.
fn outbox_with_a_block() -> Outbox {
    let mut outbox = Outbox::new(OutboxSpec::default(), UplinkPolicy::default());
    let now = SystemClock::start().now();
    outbox.set_now(now);
    for _ in 0..2 {
        // A part is complete at some 44 KiB.
        outbox.alarm(now, "code", &"x".repeat(50_000));
    }
    for spill in outbox.spills(true) {
        let mut block = Vec::new();
        outbox.write_block(spill, &mut block);
        outbox.mark_spilled(spill, tidegate::engine::outbox::block_crc(&block), 1);
    }
    outbox
}

/// Answers so many requests for a piece of lane `alarm`; `between` each two of them.
fn answer_pieces(
    inbox: Inbox,
    mut outbox: Outbox,
    requests: u32,
    between: impl Fn(&mut Outbox) + Send + 'static,
) -> thread::JoinHandle<Inbox> {
    thread::spawn(move || {
        for _ in 0..requests {
            match inbox.recv(Span::from_secs(30)).expect("served").expect("asked") {
                Input::Look(Look::Piece { lane, from, answer }) => {
                    answer.send(outbox.piece(lane, from)).expect("waited for");
                }
                _ => panic!("a look"),
            }
            between(&mut outbox);
        }
        inbox
    })
}

#[test]
fn a_block_that_is_gone_when_it_is_read_is_asked_for_once_more_and_one_that_stays_unreadable_is_said() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("control.sock");
    let inbox = serve(path.clone());
    let page = |path: &Path| Page::read(&control::ask(path, "outbox page alarm 0").expect("answered"));

    // Nothing is on the disk: the block stays what it is.
    let answerer = answer_pieces(inbox, outbox_with_a_block(), 2, |_| ());
    let unreadable = page(&path).expect("a page");
    let inbox = answerer.join().expect("asked twice");
    let trouble = unreadable.head.trouble.expect("nothing can be read");
    assert!(trouble.contains("lane alarm, epoch 0, seq 0..=0: block 0 cannot be read"), "{trouble}");
    assert_eq!((unreadable.head.next, unreadable.lines.len()), (Some(1), 0));

    // It has been given up meanwhile: the gap is what there is.
    let answerer = answer_pieces(inbox, outbox_with_a_block(), 2, |outbox| outbox.lose(LaneKind::Alarm, 0));
    let gap = page(&path).expect("a page");
    drop(answerer.join().expect("asked twice"));
    assert_eq!(gap.head.trouble, None);
    let text = String::from_utf8(gap.lines).expect("text");
    assert!(text.contains(r#""kind":"gap""#) && text.contains(r#""reason":"damaged""#), "{text}");

    let stopping = page(&path).expect_err("the engine thread has gone").to_string();
    assert!(stopping.contains("stopping"), "{stopping}");
}

#[test]
fn a_file_in_the_place_of_the_socket_is_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("precious");
    fs::write(&path, "not a socket").expect("written");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bound = runtime.block_on(async { unix_socket::bind(&path) });
    assert!(bound.expect_err("in the way").to_string().contains("not a socket"));
    assert_eq!(fs::read_to_string(&path).expect("still there"), "not a socket");
}

#[test]
fn a_socket_of_an_agent_that_was_killed_is_replaced_and_a_living_one_is_not() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("control.sock");
    // Dropping a listener leaves its file behind.
    drop(UnixListener::bind(&path).expect("bound"));
    let _inbox = serve(path.clone());
    assert!(ask_raw(&path, b"?\n").contains("error"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let second = runtime.block_on(async { unix_socket::bind(&path) });
    assert!(second.expect_err("in use").to_string().contains("another agent"));
}
