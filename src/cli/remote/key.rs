//! `tidegate remote key`: the public half of the key that signs.

use std::path::PathBuf;

use anyhow::anyhow;

use crate::agent::signed::{private_key_pem, public_key_text};
use crate::cli::read_text;

use super::words::say;

/// Prints the public half of a signing key, as it goes into a gateway's file.
///
/// Such a gateway takes nothing but what this key has signed. The key is made by
/// `openssl genpkey -algorithm ed25519 -out KEY.pem`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The private key (PEM)
    #[arg(value_name = "KEY.pem")]
    file: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let key =
        private_key_pem(&read_text(&args.file)?).map_err(|problem| anyhow!("{}: {problem}", args.file.display()))?;
    say(&format!("[remote]\npublic_key = \"{}\"\n", public_key_text(&key)));
    Ok(0)
}
