//! `tidegate broker`: the listener alone. For the cloud's side of the demo and of tests, and
//! for whoever wants a broker whose acknowledgement means "on disk" and nothing else.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;

use crate::agent::{self, telemetry};
use crate::config::check::check_for_broker;
use crate::config::check::listener::sockets::argument;
use crate::config::problem::Problem;

use super::read_text;

/// Runs the MQTT broker alone, without windows and without an uplink, until SIGTERM or SIGINT.
/// What it acknowledges is on disk. Says on standard error where clients can connect, once they
/// can; ends with an error where they cannot.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1883", value_parser = argument, conflicts_with = "config")]
    pub listen: SocketAddr,

    /// Directory for sessions, retained messages and what waits for clients
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    pub state: Option<PathBuf>,

    /// Configuration file with `[listener]` and `[storage]`, instead of the two above
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What to log: a level, or directives as for `RUST_LOG`
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub log: String,
}

/// Runs until told to end.
///
/// # Errors
/// What is wrong with the configuration, or what ended it, other than a signal.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    telemetry::init(Some(&args.log)).map_err(|error| anyhow!(error))?;
    let (text, file) = match &args.config {
        Some(path) => (read_text(path)?, path.display().to_string()),
        None => (document(&args), "the arguments".to_owned()),
    };
    let checked = check_for_broker(&text, &file).map_err(|refused| match &args.config {
        Some(_) => anyhow!(refused),
        None => {
            anyhow!(refused.problems.iter().map(|problem| in_arguments(problem, &args)).collect::<Vec<_>>().join("\n"))
        }
    })?;
    for warning in &checked.warnings {
        tracing::warn!(%warning, "configuration");
    }
    agent::run(&checked.config, None)?;
    Ok(ExitCode::SUCCESS)
}

/// A problem of that configuration, in words of the arguments.
fn in_arguments(problem: &Problem, args: &Args) -> String {
    let message = &problem.message;
    match problem.path.split('.').next() {
        Some("listener") => format!(
            "--listen {}: {message}\n    hint: listen on 127.0.0.1, or say who may come in with a file that has \
             `[listener]` and `password_file`: --config FILE",
            args.listen
        ),
        Some("storage") => {
            format!("--state {}: {message}", args.state.as_deref().unwrap_or_else(|| Path::new("")).display())
        }
        Some(_) | None => problem.to_string(),
    }
}

/// The configuration that the arguments stand for.
fn document(args: &Args) -> String {
    let state = args.state.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "gateway.id = 'broker'\nlistener.tcp = {}\nstorage.path = {}\n",
        quoted(&args.listen.to_string()),
        quoted(&state)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_the_arguments_names_them() {
        let args = |listen: &str| Args {
            listen: listen.parse().expect("an address"),
            state: Some(PathBuf::from("s")),
            config: None,
            log: "warn".into(),
        };
        assert!(check_for_broker(&document(&args("127.0.0.1:1883")), "the arguments").is_ok());
        let open = args("0.0.0.0:1883");
        let refused = check_for_broker(&document(&open), "the arguments").expect_err("nobody could log in");
        let said = in_arguments(&refused.problems[0], &open);
        assert!(said.starts_with("--listen 0.0.0.0:1883: nobody could log in"), "{said}");
        assert!(said.contains("--config FILE") && !said.contains("listener.tcp"), "{said}");
    }
}
