//! One outbox to look into, wherever it is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::agent::control::{self, Request};
use crate::agent::store::look::is_in_use;
use crate::engine::outbox::LaneKind;
use crate::model::time::EventTime;

use super::page::{Page, Wanted};
use super::stopped::Stopped;

/// Of a running agent, or in the files of one that does not run.
#[derive(Debug)]
pub enum Source {
    /// It answers on this socket.
    Running(PathBuf),
    /// Nobody uses these files.
    Stopped(Box<Stopped>),
}

impl Source {
    /// The agent on `socket`, if one answers there.
    pub fn running(socket: &Path) -> Option<Source> {
        control::is_served(socket).then(|| Source::Running(socket.to_owned()))
    }

    /// The files in `dir`. `gateway`: begins the ids of the records.
    ///
    /// # Errors
    /// An agent uses them, or they cannot be read at all.
    pub fn stopped(dir: &Path, gateway: &str) -> anyhow::Result<Source> {
        if !dir.is_dir() {
            bail!("there is no state in {}: has an agent run with it?", dir.display());
        }
        let in_use = is_in_use(dir).with_context(|| format!("{}: may you read it?", dir.display()))?;
        if in_use {
            bail!(
                "an agent is running on {}: ask it with --socket (may you use the socket?), or stop it first",
                dir.display()
            );
        }
        Ok(Source::Stopped(Box::new(Stopped::open(dir, gateway)?)))
    }

    /// What is held, in numbers.
    ///
    /// # Errors
    /// The agent does not answer any more.
    pub fn overview(&mut self) -> anyhow::Result<Value> {
        match self {
            Source::Running(socket) => {
                let overview: Value =
                    serde_json::from_str(&ask(socket, &Request::Outbox)?).context("the answer is not JSON")?;
                match overview["error"].as_str() {
                    Some(error) => bail!("the agent refuses: {error}"),
                    None => Ok(overview),
                }
            }
            Source::Stopped(stopped) => Ok(stopped.overview()),
        }
    }

    /// One page.
    ///
    /// # Errors
    /// As for [`Source::overview`].
    pub fn page(&mut self, wanted: Wanted) -> anyhow::Result<Page> {
        match self {
            Source::Running(socket) => Page::read(&ask(socket, &Request::Page(wanted))?),
            Source::Stopped(stopped) => Ok(stopped.page(wanted)),
        }
    }

    /// Every page of a lane up to position `past`, so that what comes meanwhile makes no
    /// end of it. `each` says whether to go on.
    ///
    /// # Errors
    /// As for [`Source::overview`], or that of `each`.
    pub fn pages(
        &mut self,
        (lane, past): (LaneKind, u64),
        (since, records): (Option<EventTime>, bool),
        each: &mut dyn FnMut(Page) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut from = 0;
        while from < past {
            let page = self.page(Wanted { lane, from, since, records })?;
            let Some(next) = page.head.next.filter(|next| *next > from) else { break };
            from = next;
            if !each(page)? {
                break;
            }
        }
        Ok(())
    }

    /// Whether an agent has started on the files since: what it did is not in them.
    pub fn is_overtaken(&self) -> bool {
        match self {
            Source::Running(_) => false,
            Source::Stopped(stopped) => is_in_use(&stopped.dir).unwrap_or(false),
        }
    }
}

fn ask(socket: &Path, request: &Request) -> anyhow::Result<String> {
    control::ask(socket, &request.to_string()).map_err(|error| control::no_answer(socket, &error))
}
