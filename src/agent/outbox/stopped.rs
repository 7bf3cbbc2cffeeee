//! The files of an agent that does not run.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::agent::store::look::look;
use crate::agent::store::{ChainReader, OpenError};
use crate::engine::chain::Chain;
use crate::engine::outbox::stored::StoredOutbox;

use super::overview;
use super::page::{Page, Wanted};
use super::viewer::page_of;

/// What was read of them.
#[derive(Debug)]
pub struct Stopped {
    pub(super) dir: PathBuf,
    gateway: String,
    found: StoredOutbox,
    chain: ChainReader,
}

impl Stopped {
    pub(super) fn open(dir: &Path, gateway: &str) -> Result<Stopped, OpenError> {
        let (loaded, mut chain) = look(dir)?;
        let found = StoredOutbox::read(&loaded, &mut chain);
        Ok(Stopped { dir: dir.to_owned(), gateway: gateway.to_owned(), found, chain })
    }

    pub(super) fn overview(&self) -> Value {
        let StoredOutbox { outbox, damage, adopted } = &self.found;
        overview::document(&outbox.overview(), &self.gateway, damage, *adopted)
    }

    pub(super) fn page(&mut self, wanted: Wanted) -> Page {
        let Some(piece) = self.found.outbox.piece(wanted.lane, wanted.from) else { return Page::default() };
        let mut block = Vec::new();
        let found = piece.block().map_or(Ok(true), |number| {
            let read = self.chain.read_block(wanted.lane as u8, number, &mut block);
            read.map_err(|error| error.to_string())
        });
        page_of(&self.gateway, &piece, found, &block, wanted)
    }
}
