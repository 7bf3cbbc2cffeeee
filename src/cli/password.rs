//! `tidegate password`: who may connect to the listener.
//!
//! The file has one `user:$argon2id$…` per line, as [`passwords`] reads it; comments and the order
//! of lines stay. It is replaced in one step: an agent that runs takes the new one within a
//! second of the next login, and after a power cut there is the old one or the new one.
//!
//! Not done: passwords as arguments. Everybody on the machine can read those in the process list.

mod file;
mod terminal;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Subcommand;

use crate::agent::mqtt::listener::access::{hash, passwords};

use super::EXIT_USAGE;

/// Sets, deletes, lists and checks users of a password file (`listener.password_file`). An agent
/// that runs takes changes without a restart.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Adds a user, or gives one another password: typed twice, or one line of standard input
    Set(Of),
    /// Removes a user
    Delete(Of),
    /// Lists the users
    List {
        /// Password file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Says whether a password is right. Exit code 0: it is, 1: it is not, 2: the file cannot be used
    Check(Of),
}

#[derive(Debug, clap::Args)]
struct Of {
    /// Password file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// User name
    #[arg(value_name = "USER")]
    user: String,
}

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// What it cannot deal with; the text is for a person.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Set(Of { file, user }) => set(file, user),
        Command::Delete(Of { file, user }) => delete(file, user),
        Command::List { file } => list(file),
        Command::Check(Of { file, user }) => match check(file, user) {
            Ok(is_right) => Ok(ExitCode::from(u8::from(!is_right))),
            Err(error) => {
                // 1 says that the password is wrong.
                let _ = writeln!(io::stderr(), "tidegate: {error:#}");
                Ok(ExitCode::from(EXIT_USAGE))
            }
        },
    }
}

fn set(file: &Path, user: &str) -> anyhow::Result<ExitCode> {
    passwords::check_user(user).map_err(|problem| anyhow::anyhow!("user \"{}\": {problem}", user.escape_debug()))?;
    // Before anything is typed.
    let exists = file::read_before_change(file)?.is_some_and(|users| users.contains_key(user));
    let password = new_password(user)?;
    let hash = hash::hash(&password).context("hashing the password")?;
    file::change(file, |text| Ok(with_user(text.unwrap_or_default(), user, &hash)))?;
    say(&format!("{}: user \"{user}\" {}", file.display(), if exists { "has another password" } else { "added" }));
    Ok(ExitCode::SUCCESS)
}

fn delete(file: &Path, user: &str) -> anyhow::Result<ExitCode> {
    file::change(file, |text| match text {
        None => bail!("there is no such file"),
        Some(text) if !users(text)?.contains_key(user) => {
            bail!("there is no user \"{}\"; `tidegate password list` shows who is there", user.escape_debug())
        }
        Some(text) => Ok(without_user(text, user)),
    })?;
    say(&format!("{}: user \"{user}\" deleted", file.display()));
    Ok(ExitCode::SUCCESS)
}

fn list(file: &Path) -> anyhow::Result<ExitCode> {
    let Some(users) = file::read(file)? else { bail!("{}: there is no such file", file.display()) };
    let mut out = io::stdout().lock();
    for user in users.keys() {
        // A closed pipe has seen enough.
        if writeln!(out, "{user}").is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(file: &Path, user: &str) -> anyhow::Result<bool> {
    let Some(users) = file::read(file)? else { bail!("{}: there is no such file", file.display()) };
    let Some(hash) = users.get(user) else {
        say(&format!("{}: there is no user \"{}\"", file.display(), user.escape_debug()));
        return Ok(false);
    };
    let password = terminal::read_password(&format!("Password of {user}: "))?;
    let is_right = hash::verify(hash, &password);
    say(if is_right { "the password is right" } else { "the password is wrong" });
    Ok(is_right)
}

fn new_password(user: &str) -> anyhow::Result<Vec<u8>> {
    let password = terminal::read_password(&format!("New password of {user}: "))?;
    if password.is_empty() {
        bail!("the password is empty: nothing was changed");
    }
    // What nobody can see is typed twice.
    if io::stdin().is_terminal() && terminal::read_password("Once more: ")? != password {
        bail!("these are two different passwords: nothing was changed");
    }
    Ok(password)
}

fn users(text: &str) -> anyhow::Result<BTreeMap<String, String>> {
    passwords::parse(text).map_err(anyhow::Error::msg)
}

/// The text with one line of this user, in its old place or at the end.
fn with_user(text: &str, user: &str, hash: &str) -> String {
    let mut out = String::with_capacity(text.len() + user.len() + hash.len() + 2);
    let mut is_there = false;
    for line in text.lines() {
        if is_of(line, user) {
            is_there = true;
            push_line(&mut out, &format!("{user}:{hash}"));
        } else {
            push_line(&mut out, line);
        }
    }
    if !is_there {
        push_line(&mut out, &format!("{user}:{hash}"));
    }
    out
}

fn without_user(text: &str, user: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.lines().filter(|line| !is_of(line, user)).for_each(|line| push_line(&mut out, line));
    out
}

fn is_of(line: &str, user: &str) -> bool {
    // A comment begins with `#`, and no user name does.
    line.split_once(':').is_some_and(|(name, _)| name == user)
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// A closed standard output changes nothing about what was done.
fn say(what: &str) {
    let _ = writeln!(io::stdout(), "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_replaced_in_its_place_and_comments_stay() {
        let one = hash::cheap(b"1");
        let two = hash::cheap(b"2");
        let text = format!("# anna: the press\nanna:{one}\r\n\nbert:{one}");
        assert_eq!(with_user("", "anna", &one), format!("anna:{one}\n"));
        let changed = with_user(&text, "anna", &two);
        assert_eq!(changed, format!("# anna: the press\nanna:{two}\n\nbert:{one}\n"));
        let added = with_user(&text, "ann", &two);
        assert!(added.starts_with("# anna: the press\n") && added.ends_with(&format!("bert:{one}\nann:{two}\n")));
        assert_eq!(users(&added).expect("good").len(), 3);
        assert_eq!(without_user(&text, "anna"), format!("# anna: the press\n\nbert:{one}\n"));
        assert_eq!(without_user(&without_user(&text, "anna"), "bert"), "# anna: the press\n\n");
    }
}
