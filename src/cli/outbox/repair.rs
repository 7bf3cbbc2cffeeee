//! `tidegate outbox repair`: what a start would do for a damaged outbox, and all of it now.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::agent::outbox::repair::{Repaired, repair};

use super::super::run::CONFIG_DEFAULT;
use super::read_config;

/// Repairs the state of an agent that does not run: opens it as a start does, takes over
/// blocks that no page names, reads every block, and makes gap records of what cannot be
/// read. What could be saved is durable when it ends. Exit code 1: it could not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Configuration of the agent: the state is fitted to it, as at a start
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,

    /// Only say what would be done: works on a copy of the pages, and changes nothing
    #[arg(long)]
    dry_run: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let config = read_config(&args.config)?;
    let repaired = repair(&config, args.dry_run)?;
    print!("{}", report(&repaired, args.dry_run));
    Ok(ExitCode::SUCCESS)
}

fn report(repaired: &Repaired, dry_run: bool) -> String {
    let mut lines = Vec::new();
    lines.extend(repaired.damage.iter().map(|text| format!("pages: {text}")));
    if repaired.adopted > 0 {
        lines.push(format!("{} blocks that no page named are taken over", repaired.adopted));
    }
    lines.extend(repaired.lost.iter().map(|text| format!("given up, with a gap record: {text}")));
    lines.extend(repaired.faults.iter().map(|text| format!("left as it is, the receiver can tell: {text}")));
    let blocks = repaired.blocks;
    lines.push(match (repaired.is_nothing(), dry_run) {
        (true, _) => format!("nothing to repair: {blocks} blocks were read"),
        (false, true) => format!("this is what a repair would do, of {blocks} blocks; nothing was changed"),
        (false, false) => format!("repaired, and durable: {blocks} blocks were read"),
    });
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_was_done_is_said() {
        assert_eq!(
            report(&Repaired { blocks: 3, ..Repaired::default() }, true),
            "nothing to repair: 3 blocks were read\n"
        );
        let repaired = Repaired {
            damage: vec!["the database does not open".into()],
            adopted: 2,
            blocks: 4,
            lost: vec!["lane backlog, epoch 1, seq 0..=9".into()],
            faults: vec!["lane live, epoch 1: seq 3..=4 are missing".into()],
        };
        assert_eq!(
            report(&repaired, false),
            "pages: the database does not open\n2 blocks that no page named are taken over\n\
             given up, with a gap record: lane backlog, epoch 1, seq 0..=9\n\
             left as it is, the receiver can tell: lane live, epoch 1: seq 3..=4 are missing\n\
             repaired, and durable: 4 blocks were read\n"
        );
        assert!(report(&repaired, true).contains("nothing was changed"));
    }
}
