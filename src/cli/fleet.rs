//! `tidegate fleet`: a simulated fleet for any MQTT broker, to try things out and to load them.
//! What it sends, and when, is [`crate::fleet::load`]; how it gets there is
//! [`crate::agent::mqtt::pipeline`].

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::agent::interrupt::Interrupt;
use crate::agent::mqtt::pipeline::{Assurance, PipelineSpec};
use crate::config::boot::Protocol;
use crate::fleet::load::{BURST_MAX, LoadSpec, Share, Wire};
use crate::model::time::{EventTime, Span};

use super::broker_args::BrokerArgs;
use super::broker_url::AnyBrokerUrl;

use self::drive::{Pace, Plan, drive};
use self::quantity::{Rate, moment, share, time, wire};

mod drive;
pub(super) mod quantity;
mod report;
mod words;

/// Connections, unless there are fewer devices.
const CONNECTIONS_DEFAULT: u32 = 50;
/// Time between two measurements of one device, unless a rate says it.
const PERIOD_DEFAULT: Duration = Duration::from_secs(10);
/// MQTT keep-alive.
const KEEP_ALIVE: Span = Span::from_secs(60);
/// Files and sockets of the process beside its connections.
const FILES_BESIDE: u64 = 64;

/// Sends what a fleet of simulated devices would send, to any MQTT broker: a demonstration, and
/// a load generator.
///
/// One seed and one start make the same messages, every time. Durations are `500ms`, `10s`, `5m`
/// or plain seconds; shares are per cent of the devices or messages, such as 2 or 0.1. Ends
/// after --seconds or --messages, or at SIGINT or SIGTERM, once the broker has acknowledged what
/// was sent, and at once when the broker refuses the login or a certificate. Exit code 1 when it
/// has not acknowledged everything.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The broker: `mqtt://host:1883`, or `mqtts://host:8883` for TLS
    #[arg(long, value_name = "URL")]
    pub broker: AnyBrokerUrl,

    /// How many devices
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Fleet")]
    pub devices: u32,

    /// What they send: tidegate-json, the name of a preset, or `mixed` for all presets in turn
    #[arg(long, value_name = "FORMAT", default_value = "tidegate-json", value_parser = wire, help_heading = "Fleet")]
    pub format: Wire,

    /// Time between two measurements of one device [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = time, help_heading = "Fleet")]
    pub period: Option<Duration>,

    /// Messages per second of the whole fleet, instead of --period; `max` is as fast as the broker acknowledges, while event time goes on by --period
    #[arg(long, value_name = "N|max", help_heading = "Fleet")]
    pub rate: Option<Rate>,

    /// How long to send; 0 is until interrupted
    #[arg(long, value_name = "SECONDS", default_value_t = 60, help_heading = "Fleet")]
    pub seconds: u64,

    /// End after so many messages
    #[arg(long, value_name = "N", help_heading = "Fleet")]
    pub messages: Option<u64>,

    /// Names the run
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Fleet")]
    pub seed: u64,

    /// Event time of the beginning, as RFC 3339 or Unix milliseconds [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Fleet")]
    pub start: Option<EventTime>,

    /// Messages are sent up to so much after their time, so out of order
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = time, help_heading = "Trouble")]
    pub disorder: Duration,

    /// Devices that go offline now and then, and come back with everything they kept
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = share, help_heading = "Trouble")]
    pub gap_percent: Share,

    /// How long they are offline
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time, help_heading = "Trouble")]
    pub gap: Duration,

    /// Each device keeps so many measurements and sends them at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(BURST_MAX)), help_heading = "Trouble")]
    pub burst: u32,

    /// Messages that are sent much later than they should be
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = share, help_heading = "Trouble")]
    pub stragglers: Share,

    /// How much later
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time, help_heading = "Trouble")]
    pub straggler_delay: Duration,

    /// Clocks of some devices are off by up to so much, ahead or behind
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = time, help_heading = "Trouble")]
    pub skew: Duration,

    /// The share of those devices
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = share, help_heading = "Trouble")]
    pub skew_percent: Share,

    /// So many broken or meaningless messages beside the others
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = share, help_heading = "Trouble")]
    pub noise: Share,

    /// MQTT connections that the devices share, with client ids `fleet-SEED-N` [default: 50, or one per device if that is fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000), help_heading = "Connection")]
    pub connections: Option<u32>,

    /// Quality of service of every message
    #[arg(long, value_name = "0|1|2", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2), help_heading = "Connection")]
    pub qos: u8,

    /// Unacknowledged messages of one connection
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..), help_heading = "Connection")]
    pub window: u16,

    /// Version of MQTT
    #[arg(long, value_name = "VERSION", default_value = "3.1.1", value_parser = ["3.1.1", "5"], help_heading = "Connection")]
    pub protocol: String,

    /// The broker keeps the sessions while a connection is lost; with --qos 2, each message arrives once
    #[arg(long, help_heading = "Connection")]
    pub persistent: bool,

    /// Give up when the broker has acknowledged nothing for so long; 0 is never
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time, help_heading = "Connection")]
    pub wait: Duration,

    /// As whom
    #[command(flatten)]
    pub login: BrokerArgs,

    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs to its end, or until interrupted.
///
/// # Errors
/// When the arguments contradict each other, or the system has no room for the connections.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = plan(&args)?;
    allow_files(u64::from(plan.connections) + FILES_BESIDE)?;
    let interrupt = Interrupt::watch().context("cannot watch for signals")?;
    let outcome = drive(&plan, &interrupt).context("cannot start the runtime")?;
    let told = report::told(&plan, &outcome);
    if args.json {
        println!("{}", report::json(&told));
    } else {
        print!("{}", report::text(&told));
    }
    if let Some(reason) = &outcome.gave_up {
        eprintln!("tidegate: gave up: {reason}");
    }
    Ok(ExitCode::from(u8::from(!told.is_complete())))
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let period = period(args)?;
    let pace = if args.rate == Some(Rate::Max) { Pace::Max } else { Pace::Real };
    let seconds = (args.seconds > 0).then(|| Duration::from_secs(args.seconds));
    let load = LoadSpec {
        seed: args.seed,
        devices: args.devices,
        // Until there are connections: the run begins when it can send.
        start: args.start.unwrap_or(EventTime::MIN),
        // As fast as possible, time is no measure for what there is to send.
        duration: seconds.filter(|_| pace == Pace::Real),
        period,
        disorder: args.disorder,
        gaps: (args.gap_percent, args.gap),
        burst: args.burst,
        stragglers: (args.stragglers, args.straggler_delay),
        skew: (args.skew_percent, args.skew),
        noise: args.noise,
        wire: args.format.clone(),
    };
    Ok(Plan {
        load,
        starts_now: args.start.is_none(),
        pace,
        seconds,
        messages: args.messages,
        connections: args.connections.unwrap_or(CONNECTIONS_DEFAULT).min(args.devices),
        pipeline: pipeline(args)?,
        wait: Some(args.wait).filter(|wait| !wait.is_zero()),
    })
}

fn period(args: &Args) -> anyhow::Result<Duration> {
    let period = match (args.rate, args.period) {
        (Some(Rate::PerSecond(_)), Some(_)) => {
            anyhow::bail!("--rate and --period both say how often devices measure; give one of them")
        }
        (Some(Rate::PerSecond(rate)), None) => args.format.period(args.devices, rate),
        (Some(Rate::Max) | None, period) => period.unwrap_or(PERIOD_DEFAULT),
    };
    anyhow::ensure!(!period.is_zero(), "--period 0: as fast as possible is --rate max");
    Ok(period)
}

fn pipeline(args: &Args) -> anyhow::Result<PipelineSpec> {
    let protocol = if args.protocol == "5" { Protocol::V5 } else { Protocol::V311 };
    let broker = args.login.spec(&args.broker, format!("fleet-{}", args.seed), protocol, KEEP_ALIVE)?;
    let assurance = match args.qos {
        0 => Assurance::AtMostOnce,
        1 => Assurance::AtLeastOnce,
        _ => Assurance::ExactlyOnce,
    };
    Ok(PipelineSpec { broker, assurance, window: args.window, persistent: args.persistent })
}

/// Raises the soft limit of open files, which is 1,024 on most systems.
fn allow_files(needed: u64) -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed))), ..limit };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")?;
    anyhow::ensure!(
        limit.maximum.is_none_or(|maximum| maximum >= needed),
        "the system allows {} open files, and so many connections need {needed}: use fewer --connections",
        limit.maximum.unwrap_or_default()
    );
    Ok(())
}
