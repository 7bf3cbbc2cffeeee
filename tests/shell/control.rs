//! The control socket, without an engine: the test answers.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use tidegate::agent::control;
use tidegate::agent::inbox::{Inbox, Input, inbox};
use tidegate::agent::outbox::viewer::Viewer;
use tidegate::model::time::Span;

/// A served socket in a directory of its own.
fn serve(path: PathBuf) -> Inbox {
    let (sender, receiver) = inbox();
    let (ready_in, ready) = flume::bounded(1);
    // Ends with the test program.
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = control::bind(&path).expect("nobody else listens");
            ready_in.send(()).expect("the test waits");
            let viewer = Viewer::new(sender.clone(), "gw", path.parent().expect("in a directory"));
            control::serve(listener, sender, viewer).await;
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

#[test]
fn a_file_in_the_place_of_the_socket_is_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("precious");
    fs::write(&path, "not a socket").expect("written");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let bound = runtime.block_on(async { control::bind(&path) });
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
    let second = runtime.block_on(async { control::bind(&path) });
    assert!(second.expect_err("in use").to_string().contains("another agent"));
}
