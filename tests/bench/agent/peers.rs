//! Side by side in one run, with the same work: the agent, which decodes, aggregates, is
//! durable and publishes; `mosquitto_sub`, which prints; and a plain script with paho-mqtt,
//! which counts. 100 devices, 96-byte JSON, `QoS` 1, at 2,000 messages a second and as fast
//! as one publisher sends. Each behind a broker of its own, one after the other.
//!
//! paho-mqtt comes from the Python package index into a virtual environment under target/.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::gateway::{Agent, DEVICES, QUIET, WAIT_MAX, payload, publisher};
use crate::process::{children_cpu_time, figure, process_cpu_time, process_rss_mib};

/// Messages, and how many a second; 0: as fast as it goes.
const RATES: [(&str, u64, u64); 2] = [("2000_per_s", 20_000, 2_000), ("full", 200_000, 0)];

/// Counts, and says when it has subscribed and how many it wants.
const PAHO: &str = r#"
import sys
import paho.mqtt.client as mqtt
port, wanted = int(sys.argv[1]), int(sys.argv[2])
count = 0
def on_connect(client, userdata, flags, code, properties=None):
    client.subscribe("devices/#", qos=1)
def on_subscribe(client, userdata, mid, codes, properties=None):
    open(sys.argv[3], "w").close()
def on_message(client, userdata, message):
    global count
    count += 1
    if count == wanted:
        client.disconnect()
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, client_id="paho", clean_session=False)
client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
client.connect("127.0.0.1", port)
client.loop_forever()
"#;

pub(crate) fn measure() {
    let python = paho();
    for (rate, messages, per_second) in RATES {
        agent(rate, messages, per_second);
        peer("mosquitto_sub", rate, messages, per_second, &mosquitto_sub);
        match &python {
            Ok(python) => peer("paho", rate, messages, per_second, &|port, messages, ready| {
                let mut script = Command::new(python);
                script.args(["-c", PAHO, &port.to_string(), &messages.to_string()]).arg(ready);
                script
            }),
            Err(why) => println!("# no agent.peers.paho.{rate}: {why}"),
        }
    }
}

fn agent(rate: &str, messages: u64, per_second: u64) {
    let (devices, cloud) = (Broker::mosquitto(DEVICES), Broker::mosquitto(&[QUIET]));
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path(), devices.port, cloud.port, "disorder = \"5s\"");
    let before = process_cpu_time(agent.pid());
    publish(&devices, messages, per_second);
    agent.wait_for(messages);
    print(
        "agent",
        rate,
        messages,
        process_cpu_time(agent.pid()).saturating_sub(before),
        process_rss_mib(agent.pid()).1,
    );
}

fn mosquitto_sub(port: u16, messages: u64, _ready: &Path) -> Command {
    let mut command = Command::new("mosquitto_sub");
    command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-q", "1", "-i", "peer", "-c", "-t", "devices/#"]);
    command.args(["-C", &messages.to_string()]);
    command
}

fn peer(name: &str, rate: &str, messages: u64, per_second: u64, command: &dyn Fn(u16, u64, &Path) -> Command) {
    let devices =
        Broker::mosquitto(&["max_inflight_messages 1000", "max_queued_messages 1000000", "log_type subscribe"]);
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(devices.port, messages, &dir.path().join("ready"));
    let before = children_cpu_time();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !devices.log().contains("devices/#") {
        assert!(started.elapsed() < WAIT_MAX, "{name} does not subscribe");
        std::thread::sleep(Duration::from_millis(20));
    }
    publish(&devices, messages - 1, per_second);
    let (_, peak) = process_rss_mib(child.id());
    publish(&devices, 1, 0);
    wait(&mut child, name);
    print(name, rate, messages, children_cpu_time().saturating_sub(before), peak);
}

fn wait(child: &mut Child, name: &str) {
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > WAIT_MAX {
            let _ = child.kill();
            panic!("{name} does not get all messages");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn print(name: &str, rate: &str, messages: u64, spent: Duration, rss: f64) {
    figure(&format!("agent.peers.{name}.{rate}.cpu_us_per_msg"), spent.as_secs_f64() * 1e6 / messages as f64, "us");
    figure(&format!("agent.peers.{name}.{rate}.rss_peak_mib"), rss, "MiB");
}

fn publish(broker: &Broker, messages: u64, per_second: u64) {
    let mut publisher = publisher(broker);
    let began = Instant::now();
    for number in 0..messages {
        let topic = format!("devices/device-{:03}/bench", number % 100);
        publisher.publish(&topic, payload(number).as_bytes(), WAIT_MAX).unwrap();
        // In the pace of a second's hundredth.
        if per_second > 0 && number % (per_second / 100) == 0 {
            publisher.flush(WAIT_MAX).unwrap();
            std::thread::sleep(
                Duration::from_secs_f64(number as f64 / per_second as f64).saturating_sub(began.elapsed()),
            );
        }
    }
    publisher.flush(WAIT_MAX).unwrap();
    publisher.close();
}

/// The interpreter of an environment that has paho-mqtt.
fn paho() -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-python");
    let python = home.join("bin/python");
    let has_it = || run(Command::new(&python).args(["-c", "import paho.mqtt.client as m; m.CallbackAPIVersion"]));
    if has_it().is_err() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "paho-mqtt>=2"]))?;
        has_it()?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}
