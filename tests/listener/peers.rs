//! mosquitto's own clients against the server, in both versions.

use std::process::{Child, Command, Stdio};

use crate::broker::needs::{Need, has};
use crate::client::Connect;
use crate::server::Server;
use crate::wire::Version;

/// Messages per quality of service.
const COUNT: usize = 200;

fn command(tool: &str, server: &Server, version: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool);
    command.args(["-h", "127.0.0.1", "-p", &server.port.to_string(), "-V", version]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Subscribes with a session that is there before the first message is sent.
fn subscriber(server: &Server, version: &str, qos: &str, count: usize) -> Child {
    let id = format!("sub-{version}-{qos}");
    let mut session = vec!["-i", &id, "-c", "-q", qos, "-t", "many/#"];
    if version == "5" {
        session.extend(["-x", "600"]);
    }
    let made = command("mosquitto_sub", server, version, &[&session[..], &["-E"]].concat()).status().unwrap();
    assert!(made.success(), "it subscribes and leaves");
    let count = count.to_string();
    command("mosquitto_sub", server, version, &[&session[..], &["-C", &count, "-W", "60"]].concat()).spawn().unwrap()
}

#[test]
fn mosquitto_pub_and_mosquitto_sub_exchange_messages_in_both_versions() {
    if !has(&[Need::MosquittoClients]) {
        return;
    }
    for version in ["311", "5"] {
        // A session keeps QoS 0 for nobody: that one is seen with a client of our own below.
        for qos in ["1", "2"] {
            let server = Server::start();
            let reader = subscriber(&server, version, qos, COUNT);
            let lines = (0..COUNT).map(|number| number.to_string()).collect::<Vec<_>>().join("\n") + "\n";
            let mut publisher = command("mosquitto_pub", &server, version, &["-q", qos, "-t", "many/a", "-l"]);
            let mut publisher = publisher.stdin(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut publisher.stdin.take().unwrap(), lines.as_bytes()).unwrap();
            assert!(publisher.wait().unwrap().success(), "{version} QoS {qos}");
            let output = reader.wait_with_output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), lines, "{version} QoS {qos}");
        }
    }
}

#[test]
fn mosquitto_pub_is_understood_at_every_quality_of_service() {
    if !has(&[Need::MosquittoClients]) {
        return;
    }
    let server = Server::start();
    let mut reader = Connect::new(Version::V5, "reader").open(&server);
    reader.subscribe(&[("one/+", 2)]);
    for version in ["311", "5"] {
        for qos in ["0", "1", "2"] {
            let topic = format!("one/{version}");
            let sent = command("mosquitto_pub", &server, version, &["-q", qos, "-t", &topic, "-m", "hello"]).status();
            assert!(sent.unwrap().success());
            let message = reader.message();
            assert_eq!((message.topic, message.payload, message.qos.to_string()), (topic, "hello".into(), qos.into()));
            reader.acknowledge(&crate::client::Message { topic: String::new(), payload: String::new(), ..message });
        }
    }
}

#[test]
fn mosquitto_sub_gets_a_retained_message_at_every_quality_of_service() {
    if !has(&[Need::MosquittoClients]) {
        return;
    }
    let server = Server::start();
    Connect::new(Version::V5, "device").open(&server).publish(0x05, "kept/a", "21.5");
    for version in ["311", "5"] {
        for qos in ["0", "1", "2"] {
            let arguments = ["-q", qos, "-t", "kept/+", "-C", "1", "-W", "60", "-F", "%t %p %q %r"];
            let output = command("mosquitto_sub", &server, version, &arguments).output().unwrap();
            let line = String::from_utf8(output.stdout).unwrap();
            assert_eq!(line.trim_end(), format!("kept/a 21.5 {qos} 1"), "{version}");
        }
    }
}
