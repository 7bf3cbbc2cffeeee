//! `tidegate demo`: the whole road on one machine, with nothing but this program. The agent in
//! it is the real one, a child process over real TCP, and so is the cloud's broker.
//!
//! ```text
//! fleet of 20 ──▶ tidegate run ──▶ tidegate broker ──▶ this terminal
//! (simulated)     (the agent)      (the cloud's)       (receiver, oracle)
//! ```
//!
//! One device is offline for a while and comes back with its backlog, one falls silent for
//! good, all of them send out of order, a few readings come very late. The cloud is gone for a
//! while, and the agent is killed in the middle of that. At the end every reading must be accounted for, or the exit
//! code says so.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
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
use self::children::{ScratchDir, Server};

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

/// Runs the whole road on this machine, and needs nothing else: a simulated fleet that connects
/// to the real agent, a second listener as the "cloud", and the panes as they arrive there. The
/// cloud goes away on the way, and the agent is killed; then checks that every reading is
/// accounted for.
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
    cloud: Server,
    agent: Server,
    subscriber: Subscriber,
    receiver: Receiver,
}

/// Runs to its end, or until interrupted.
///
/// # Errors
/// When a part does not start or ends by itself.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    let clock = SystemClock::start();
    let mut demo = Demo::start(clock)?;
    demo.wait_until_ready(&interrupt)?;
    demo.say_where_to_watch();
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
fn agent_config(dir: &Path, listener: u16, cloud: u16) -> String {
    let dir = dir.display();
    format!(
        r#"[gateway]
id = "demo"

[listener]
tcp = "127.0.0.1:{listener}"

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
        let program = std::env::current_exe().context("cannot find this program")?;
        let state = dir.path().join("cloud");
        let cloud = Server::start(&clock, "cloud", dir.path(), |port| {
            let mut command = Command::new(&program);
            command.args(["broker", "--listen", &format!("127.0.0.1:{port}"), "--state"]).arg(&state);
            Ok(command)
        })?;
        let config = dir.path().join("tidegate.toml");
        let agent = Server::start(&clock, "agent", dir.path(), |port| {
            fs::write(&config, agent_config(dir.path(), port, cloud.port))?;
            let mut command = Command::new(&program);
            command.arg("run").arg("--config").arg(&config);
            Ok(command)
        })?;
        let subscriber = Subscriber::new(cloud.client("demo-receiver"), &["tidegate/demo/data/+"]);
        Ok(Demo { clock, began: clock.proc(), dir, cloud, agent, subscriber, receiver: Receiver::new() })
    }

    fn say_where_to_watch(&self) {
        let (agent, cloud) = (self.agent.port, self.cloud.port);
        println!("The fleet connects to the agent, on 127.0.0.1:{agent}; the cloud's broker is on 127.0.0.1:{cloud}.");
        println!("To watch from another terminal, where the package mosquitto-clients is installed:");
        println!("  mosquitto_sub -p {agent} -t '#' -v    # what the devices send");
        println!("  mosquitto_sub -p {cloud} -t '#' -v    # what reaches the cloud");
        println!("The agent's files are in {}.\n", self.dir.path().display());
    }

    fn status(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&control::ask(&self.dir.path().join("control.sock"), "status")?)?)
    }

    /// The receiver must have subscribed: a broker keeps nothing for a session
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

    /// Sends in real time, lets happen what is due and shows what arrives in between. Returns
    /// what was sent.
    fn send_fleet(&mut self, spec: FleetSpec, interrupt: &Interrupt) -> anyhow::Result<Vec<Delivery>> {
        let mut publisher = Publisher::new(self.agent.client("demo-fleet"));
        let mut story = story(&spec);
        let mut sent = Vec::new();
        for delivery in Fleet::new(spec) {
            let due = self.began + delivery.at;
            while self.clock.proc() < due && !interrupt.is_set() {
                self.receive(due.since(self.clock.proc()))?;
                self.go_on(&mut story)?;
            }
            if interrupt.is_set() {
                break;
            }
            publisher.publish(&delivery.topic, &delivery.payload, PUBLISH_WITHIN)?;
            sent.push(delivery);
        }
        publisher.flush(PUBLISH_WITHIN).context("the agent does not take the readings")?;
        publisher.close();
        if self.cloud.process.ended()?.is_some() {
            // Interrupted in the middle of the outage.
            self.cloud.start_again(&self.clock)?;
        }
        self.note("the fleet has sent everything; waiting for the last windows");
        Ok(sent)
    }

    /// Tells and does what is due.
    fn go_on(&mut self, story: &mut VecDeque<(Span, Event)>) -> anyhow::Result<()> {
        while let Some((_, event)) = story.pop_front_if(|(at, _)| *at <= self.elapsed()) {
            match event {
                Event::OfTheFleet(text) => self.note(&text),
                Event::AgentDies => {
                    self.check_agent()?;
                    self.agent.process.kill()?;
                    self.note("the agent is killed (SIGKILL) and started again");
                    self.agent.start_again(&self.clock)?;
                }
                Event::CloudGoes => {
                    self.cloud.process.kill()?;
                    self.note("the cloud's broker is killed: results wait in the agent's outbox");
                }
                Event::CloudReturns => {
                    self.cloud.start_again(&self.clock)?;
                    self.note("the cloud's broker is back");
                }
            }
        }
        Ok(())
    }

    fn note(&self, text: &str) {
        println!("{}", table::note(self.elapsed().as_millis(), text));
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
        match self.agent.process.ended()? {
            Some(status) => Err(self.agent.process.failure(status)),
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
        let stopped = self.agent.process.stop(&self.clock, STOP_MAX)?;
        self.subscriber.close();
        self.cloud.process.stop(&self.clock, STOP_MAX)?;
        let good = account.balances() && ledger.balances(account.sent) && stopped.success();
        if good {
            println!("\nEvery reading is accounted for.");
        } else {
            println!("\nTHE BOOKS DO NOT BALANCE (agent: {stopped}).");
        }
        Ok(ExitCode::from(u8::from(!good)))
    }
}

/// What happens on the way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// What a viewer should know of the fleet.
    OfTheFleet(String),
    /// SIGKILL, and a start on what is on the disk.
    AgentDies,
    /// SIGKILL of the cloud's broker.
    CloudGoes,
    /// It goes on with what it has acknowledged.
    CloudReturns,
}

/// What happens, and when. The device that falls silent is idle before the agent dies: in the
/// minute after a start, silence means little.
fn story(spec: &FleetSpec) -> VecDeque<(Span, Event)> {
    let percent = |share: u64| Span::from_millis(spec.duration.as_millis() * share / 100);
    let mut events =
        vec![(percent(72), Event::CloudGoes), (percent(78), Event::AgentDies), (percent(85), Event::CloudReturns)];
    let mut tell = |at, text| events.push((at, Event::OfTheFleet(text)));
    if let Some(gap) = spec.gap {
        let device = Fleet::device_name(gap.device);
        let backlog = Fleet::new(spec.clone()).filter(|delivery| delivery.backlog).count();
        tell(gap.from, format!("{device} goes offline and keeps its readings"));
        tell(gap.to, format!("{device} is back with {backlog} readings at once"));
    }
    if let Some(silent) = spec.silent {
        tell(silent.from, format!("{} falls silent for good", Fleet::device_name(silent.device)));
    }
    events.sort();
    events.into()
}

/// Nothing that is sent from now on can be missed.
fn is_ready(status: &Value) -> bool {
    let listens = status["listener"]["sockets"].as_array().is_some_and(|sockets| !sockets.is_empty());
    listens && status["uplink"]["connected"] == true
}
