//! `tidegate remote`: gateways from where the operator is, through the broker of their uplink.
//! What lies on which topic is in `pattern`, what is signed in [`crate::agent::signed`].
//!
//! Exit code 0: done, or the same. 1: a gateway has refused, or differs. 2: it could not be
//! tried: a wrong invocation, a file, the broker. 3: no answer in time; what became of it is not
//! known.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use tokio::runtime::Builder;

use crate::agent::clock::secret_bytes;
use crate::config::boot::Protocol;
use crate::model::time::Span;

use self::gateways::Gateways;
use self::pattern::{Pattern, Topics};
use self::session::Session;
use super::EXIT_USAGE;
use super::broker_args::BrokerArgs;
use super::broker_url::AnyBrokerUrl;
use super::fleet::quantity::time;
use super::receive::prefix;

mod ask;
mod cmd;
mod diff;
mod document;
mod fleet;
mod gateways;
mod get;
mod key;
mod pattern;
mod session;
mod set;
mod tree;
mod verdict;
mod watch;
mod words;

/// MQTT keep-alive: a person is waiting.
const KEEP_ALIVE: Span = Span::from_secs(20);

/// Sees and changes gateways from afar, through the broker of their uplink.
///
/// `--gateway` is an id, or a pattern of ids: `*` is any text, `?` any character. Exit code 0:
/// done. 1: a gateway refused it, or rolled it back, or differs. 2: it could not be tried. 3: no
/// answer in time.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The broker of the gateways' uplink: `mqtt://host:1883`, or `mqtts://host:8883` for TLS
    // Not required by clap: `key` needs none.
    #[arg(long, value_name = "URL", global = true)]
    broker: Option<AnyBrokerUrl>,

    /// First levels of the gateways' topics
    #[arg(long, value_name = "PREFIX", default_value = "tidegate", value_parser = prefix, global = true)]
    prefix: String,

    /// Which gateways; `get`, `fleet` and `watch` take all unless told otherwise
    #[arg(long, value_name = "PATTERN", global = true)]
    gateway: Option<Pattern>,

    /// How long to wait for the answers of gateways
    #[arg(long, value_name = "DURATION", default_value = "150s", value_parser = time, global = true)]
    timeout: Duration,

    /// Print JSON, one object a line
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    login: BrokerArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(get::Args),
    Set(set::Args),
    Diff(diff::Args),
    Watch(watch::Args),
    Cmd(cmd::Args),
    Fleet(fleet::Args),
    Key(key::Args),
}

/// What every subcommand goes by.
struct Desk {
    broker: Option<AnyBrokerUrl>,
    login: BrokerArgs,
    topics: Topics,
    pattern: Option<Pattern>,
    timeout: Span,
    json: bool,
}

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// The system has no runtime to give.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.timeout.is_zero() {
        eprintln!("tidegate: --timeout 0 waits for nothing\n    hint: `set` has --no-wait");
        return Ok(ExitCode::from(EXIT_USAGE));
    }
    let desk = Desk {
        broker: args.broker,
        login: args.login,
        topics: Topics(args.prefix),
        pattern: args.gateway,
        timeout: Span::from_millis(u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX)),
        json: args.json,
    };
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let ended = runtime.block_on(async {
        match args.command {
            Command::Get(args) => get::run(&desk, &args).await,
            Command::Set(args) => set::run(&desk, &args).await,
            Command::Diff(args) => diff::run(&desk, &args).await,
            Command::Watch(args) => watch::run(&desk, &args).await,
            Command::Cmd(args) => cmd::run(&desk, &args).await,
            Command::Fleet(args) => fleet::run(&desk, &args).await,
            Command::Key(args) => key::run(&args),
        }
    });
    // A name resolution that hangs must not hold the exit up.
    runtime.shutdown_background();
    // 1 is what a gateway says.
    Ok(ExitCode::from(ended.unwrap_or_else(|error| {
        eprintln!("tidegate: {error:#}");
        EXIT_USAGE
    })))
}

impl Desk {
    /// The gateways that are meant by a subcommand that looks only.
    fn pattern_or_all(&self) -> Pattern {
        self.pattern.clone().unwrap_or_else(Pattern::all)
    }

    /// By one that does something: nobody means all gateways by saying nothing.
    fn pattern(&self) -> anyhow::Result<Pattern> {
        self.pattern.clone().ok_or_else(|| {
            anyhow!("--gateway is missing: an id, or a pattern of ids\n    hint: --gateway '*' is every gateway")
        })
    }

    async fn open(&self, filters: Vec<String>) -> anyhow::Result<Session> {
        let broker =
            self.broker.as_ref().ok_or_else(|| anyhow!("--broker is missing: mqtt://host:1883, or mqtts://"))?;
        let client_id = format!("tidegate-remote-{}", ask::hex(&secret_bytes::<6>()?));
        Session::open(self.login.spec(broker, client_id, Protocol::V311, KEEP_ALIVE)?, filters).await
    }

    /// Connected, with what the broker keeps of these gateways.
    async fn survey(&self, pattern: &Pattern) -> anyhow::Result<(Session, Gateways)> {
        let mut session = self.open(gateways::filters(&self.topics, pattern)).await?;
        let gateways = Gateways::collect(&mut session, &self.topics, pattern).await?;
        Ok((session, gateways))
    }

    /// Those of them that something is to be done with.
    fn targets(&self, gateways: &Gateways, pattern: &Pattern) -> anyhow::Result<Vec<String>> {
        let targets = gateways.targets(pattern);
        anyhow::ensure!(!targets.is_empty(), "no gateway under {} matches --gateway", self.topics.0);
        Ok(targets)
    }
}
