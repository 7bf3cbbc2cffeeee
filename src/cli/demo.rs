//! `tidegate demo`: the whole road on one machine, with nothing but Debian's
//! mosquitto. The agent in it is the real one, a child process over real TCP.
//!
//! ```text
//! fleet of 20 ──▶ mosquitto ──▶ tidegate run ──▶ mosquitto ──▶ this terminal
//! (simulated)     (devices)     (the agent)      (cloud)       (receiver, oracle)
//! ```
//!
//! One device is offline for a while and comes back with its backlog, one falls
//! silent for good, all of them send out of order, a few readings come very
//! late. At the end every reading must be accounted for, or the exit code says so.

use std::collections::VecDeque;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

use crate::agent::clock::SystemClock;
use crate::agent::control;
use crate::agent::interrupt::Interrupt;
use crate::agent::mqtt::client::{Publisher, Received, Subscriber};
use crate::engine::step::Clock;
use crate::fleet::receiver::{Effect, Receiver};
use crate::fleet::{Delivery, Fleet, FleetSpec, Gap, Silent, Stragglers};
use crate::model::time::{EventTime, ProcTime, Span};

use self::books::Account;
use self::children::{Broker, Mosquitto, Process, ScratchDir};

mod books;
mod children;
mod table;

/// Devices of the demo's fleet.
const DEVICES: u32 = 20;
/// The one that loses its connection.
const OFFLINE: u32 = 3;
/// The one that falls silent.
const SILENT: u32 = 7;
/// Windows, small so that much is seen.
const WINDOW: Span = Span::from_secs(5);
/// Longest wait for the last panes: idle timeout, commits, a busy machine.
const SETTLE_MAX: Span = Span::from_secs(20);
/// For the broker to take a reading.
const PUBLISH_WITHIN: Duration = Duration::from_secs(10);
/// The agent's own promise for a stop.
const STOP_MAX: Span = Span::from_secs(10);
/// Between two looks at what else happens.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Runs the whole road on this machine: a simulated fleet, two mosquitto
/// brokers on loopback, the real agent, and the panes as they arrive in the
/// "cloud"; then checks that every reading is accounted for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long the fleet sends
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub seconds: u64,

    /// Names the run: the same seed makes the same readings
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Everything of a running demo.
struct Demo {
    clock: SystemClock,
    began: ProcTime,
    dir: ScratchDir,
    devices: Broker,
    cloud: Broker,
    agent: Process,
    subscriber: Subscriber,
    receiver: Receiver,
}

/// Runs to its end, or until interrupted.
///
/// # Errors
/// When mosquitto is missing, or a part does not start or ends by itself.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    let clock = SystemClock::start();
    let mut demo = Demo::start(clock)?;
    demo.wait_until_ready(&interrupt)?;
    println!("{}", table::head());
    demo.began = clock.proc();
    let sent = demo.send_fleet(fleet_spec(&args, demo.start_time()), &interrupt)?;
    demo.settle(&sent, &interrupt)?;
    demo.finish(&sent)
}

fn fleet_spec(args: &Args, start: EventTime) -> FleetSpec {
    let duration = Span::from_secs(args.seconds);
    let percent = |share: u64| Span::from_millis(duration.as_millis() * share / 100);
    FleetSpec {
        seed: args.seed,
        devices: DEVICES,
        start,
        duration,
        period: Span::from_millis(500),
        disorder: Span::from_millis(1_500),
        gap: Some(Gap { device: OFFLINE, from: percent(25), to: percent(60) }),
        silent: Some(Silent { device: SILENT, from: percent(50) }),
        stragglers: Some(Stragglers { one_in: 150, delay: Span::from_secs(8) }),
        closing: None,
    }
}

/// Idle panes show the last windows of devices that fell silent.
fn agent_config(dir: &ScratchDir, devices: u16, cloud: u16) -> String {
    let dir = dir.path().display();
    format!(
        r#"[gateway]
id = "demo"

[devices]
broker = "mqtt://127.0.0.1:{devices}"

[uplink]
broker = "mqtt://127.0.0.1:{cloud}"

[storage]
path = "{dir}/state"
commit_interval = "200ms"

[control]
socket = "{dir}/control.sock"

[[streams]]
name = "climate"
topic = "devices/{{device}}/climate"
fields = {{ temperature = "/temperature" }}
time = {{ field = "/ts", unit = "ms" }}
disorder = "2s"
idle_timeout = "4s"

[[streams.windows]]
name = "5s"
size = "5s"
lateness = "60s"
aggregates = ["count", "mean", "min", "max"]
"#
    )
}

impl Demo {
    fn start(clock: SystemClock) -> anyhow::Result<Demo> {
        let dir = ScratchDir::new()?;
        let program = Mosquitto::find()?;
        let devices = Broker::start(&clock, &program, "devices-broker", dir.path())?;
        let cloud = Broker::start(&clock, &program, "cloud-broker", dir.path())?;
        let config = dir.path().join("tidegate.toml");
        fs::write(&config, agent_config(&dir, devices.port, cloud.port))?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let agent = Process::start("agent", Command::new(program).arg("run").arg("--config").arg(&config), dir.path())?;
        let subscriber = Subscriber::new(cloud.client("demo-cloud"), &["tidegate/demo/data/+"]);
        println!(
            "devices' broker on 127.0.0.1:{}, cloud's on 127.0.0.1:{}, agent's files in {}",
            devices.port,
            cloud.port,
            dir.path().display()
        );
        Ok(Demo { clock, began: clock.proc(), dir, devices, cloud, agent, subscriber, receiver: Receiver::new() })
    }

    fn status(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&control::ask(&self.dir.path().join("control.sock"), "status")?)?)
    }

    /// The agent must have subscribed: a broker keeps nothing for a session
    /// that it has never seen.
    fn wait_until_ready(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let deadline = self.clock.proc() + SETTLE_MAX;
        let mut subscribed = false;
        while !interrupt.is_set() {
            self.check_agent()?;
            match self.subscriber.next(LOOK_AGAIN) {
                Received::Subscribed(_) => subscribed = true,
                Received::Message(_) | Received::Lost(_) | Received::Nothing => {}
            }
            if subscribed && self.status().is_ok_and(|status| is_ready(&status)) {
                return Ok(());
            }
            anyhow::ensure!(
                self.clock.proc() < deadline,
                "the agent is not connected after {} ms",
                SETTLE_MAX.as_millis()
            );
        }
        Ok(())
    }

    /// The fleet's beginning, on the wall clock.
    fn start_time(&self) -> EventTime {
        self.clock.now().wall.as_event_time()
    }

    /// Sends in real time and shows what arrives in between. Returns what was sent.
    fn send_fleet(&mut self, spec: FleetSpec, interrupt: &Interrupt) -> anyhow::Result<Vec<Delivery>> {
        let mut publisher = Publisher::new(self.devices.client("demo-fleet"));
        let mut story = story(&spec);
        let mut sent = Vec::new();
        for delivery in Fleet::new(spec) {
            let due = self.began + delivery.at;
            while self.clock.proc() < due && !interrupt.is_set() {
                self.receive(due.since(self.clock.proc()))?;
                while let Some((_, text)) = story.pop_front_if(|(at, _)| *at <= self.elapsed()) {
                    println!("{}", table::note(self.elapsed().as_millis(), &text));
                }
            }
            if interrupt.is_set() {
                break;
            }
            publisher.publish(&delivery.topic, &delivery.payload, PUBLISH_WITHIN)?;
            sent.push(delivery);
        }
        publisher.flush(PUBLISH_WITHIN).context("the devices' broker does not take the readings")?;
        publisher.close();
        println!(
            "{}",
            table::note(self.elapsed().as_millis(), "the fleet has sent everything; waiting for the last windows")
        );
        Ok(sent)
    }

    /// Waits until every window is at the cloud.
    fn settle(&mut self, sent: &[Delivery], interrupt: &Interrupt) -> anyhow::Result<()> {
        let deadline = self.clock.proc() + SETTLE_MAX;
        while self.clock.proc() < deadline && !interrupt.is_urgent() {
            self.receive(Span::from_millis(200))?;
            if Account::new(sent, WINDOW, &self.receiver).balances() {
                break;
            }
        }
        Ok(())
    }

    /// Shows what the cloud gets within `wait`; returns after the first message.
    fn receive(&mut self, wait: Span) -> anyhow::Result<()> {
        self.check_agent()?;
        let wait = Duration::from_millis(wait.as_millis()).min(LOOK_AGAIN);
        let Received::Message(message) = self.subscriber.next(wait) else { return Ok(()) };
        let applied = self.receiver.handle_message(&message.payload)?;
        self.subscriber.ack(&message);
        let (elapsed, now) = (self.elapsed().as_millis(), self.clock.now().wall);
        for one in applied.iter().filter(|one| one.effect == Effect::New) {
            println!("{}", table::line(elapsed, now, &one.record));
        }
        Ok(())
    }

    fn check_agent(&mut self) -> anyhow::Result<()> {
        match self.agent.ended()? {
            Some(status) => Err(self.agent.failure(status)),
            None => Ok(()),
        }
    }

    fn elapsed(&self) -> Span {
        self.clock.proc().since(self.began)
    }

    /// Prints the books, stops everything and says whether they balance.
    fn finish(mut self, sent: &[Delivery]) -> anyhow::Result<ExitCode> {
        let status = self.status()?;
        let account = Account::new(sent, WINDOW, &self.receiver);
        let ledger = books::Ledger::read(&status["engine"]);
        println!("\nBooks at the cloud\n{account}");
        println!("\nBooks of the agent\n{ledger}");
        let stopped = self.agent.stop(&self.clock, STOP_MAX)?;
        self.subscriber.close();
        self.cloud.stop(&self.clock)?;
        self.devices.stop(&self.clock)?;
        let good = account.balances() && ledger.balances(account.sent) && stopped.success();
        if good {
            println!("\nEvery reading is accounted for.");
        } else {
            println!("\nTHE BOOKS DO NOT BALANCE (agent: {stopped}).");
        }
        Ok(ExitCode::from(u8::from(!good)))
    }
}

/// What a viewer should know, and when.
fn story(spec: &FleetSpec) -> VecDeque<(Span, String)> {
    let mut notes = Vec::new();
    if let Some(gap) = spec.gap {
        let device = Fleet::device_name(gap.device);
        let backlog = Fleet::new(spec.clone()).filter(|delivery| delivery.backlog).count();
        notes.push((gap.from, format!("{device} goes offline and keeps its readings")));
        notes.push((gap.to, format!("{device} is back with {backlog} readings at once")));
    }
    if let Some(silent) = spec.silent {
        notes.push((silent.from, format!("{} falls silent for good", Fleet::device_name(silent.device))));
    }
    notes.sort();
    notes.into()
}

/// Nothing that is sent from now on can be missed.
fn is_ready(status: &Value) -> bool {
    status["devices"]["subscribed"] == true && status["uplink"]["connected"] == true
}
