//! The samples of one agent, whether it runs or not.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::agent::control::{self, Request};
use crate::agent::store::look::is_in_use;

use super::document;
use super::query::Query;
use super::shelf::Shelf;

/// Of a running agent, or in the files of one that does not run.
#[derive(Debug)]
pub enum Source {
    /// It answers on this socket.
    Running(PathBuf),
    /// Nobody uses this state's directory.
    Stopped(PathBuf),
}

impl Source {
    /// The agent on `socket`, if one answers there.
    pub fn running(socket: &Path) -> Option<Source> {
        control::is_served(socket).then(|| Source::Running(socket.to_owned()))
    }

    /// The files in `dir`.
    ///
    /// # Errors
    /// An agent uses them, or they cannot be read at all.
    pub fn stopped(dir: &Path) -> anyhow::Result<Source> {
        if !dir.is_dir() {
            bail!("there is no state in {}: has an agent run with it?", dir.display());
        }
        if is_in_use(dir).with_context(|| format!("{}: may you read it?", dir.display()))? {
            bail!(
                "an agent is running on {}: ask it with --socket (may you use the socket?), or stop it first",
                dir.display()
            );
        }
        Ok(Source::Stopped(dir.to_owned()))
    }

    /// The answer to a query, as a document.
    ///
    /// # Errors
    /// The agent does not answer any more, or refuses; a replay needs one that runs.
    pub fn answer(&self, query: &Query) -> anyhow::Result<Value> {
        let answer = match self {
            Source::Running(socket) => {
                let request = Request::Quarantine(query.clone()).to_string();
                let text = control::ask(socket, &request).map_err(|error| control::no_answer(socket, &error))?;
                serde_json::from_str(&text).context("the agent's answer is not understood: is it of this version?")?
            }
            Source::Stopped(dir) => match query {
                Query::List | Query::Show(_) => document::of(&Shelf::look(dir, 0), query),
                Query::Replay { .. } => bail!(
                    "a replay needs the agent that takes the samples in: start it, then ask again (the samples stay \
                     in {})",
                    dir.display()
                ),
            },
        };
        match answer["error"].as_str() {
            Some(error) => bail!("the agent refuses: {error}"),
            None => Ok(answer),
        }
    }
}
