//! The running agent's side: asks the engine thread for pieces, reads blocks, makes text.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::agent::inbox::{InboxSender, Input, Look};
use crate::agent::store::ChainReader;
use crate::engine::chain::Chain;
use crate::engine::outbox::Piece;

use super::overview;
use super::page::{Page, Wanted};

/// Times that a block may be gone before the rows are found elsewhere: they are sent, or
/// made a gap, while we look.
const TRIES: u32 = 4;

/// See the module's description. Copies share one reader of the chain, and with it what
/// it remembers of the files.
#[derive(Clone)]
pub struct Viewer {
    inbox: InboxSender,
    gateway: Arc<str>,
    chain: Arc<Mutex<ChainReader>>,
}

/// The engine thread does not answer: it is ending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopping;

impl Viewer {
    /// Of the agent with this inbox and this store.
    pub fn new(inbox: InboxSender, gateway: &str, store: &Path) -> Viewer {
        Viewer { inbox, gateway: gateway.into(), chain: Arc::new(Mutex::new(ChainReader::new(store))) }
    }

    /// The overview, as a document.
    ///
    /// # Errors
    /// [`Stopping`].
    pub async fn overview(&self) -> Result<Vec<u8>, Stopping> {
        let (answer, overview) = oneshot::channel();
        self.ask(Look::Overview(answer)).await?;
        let overview = overview.await.map_err(|_| Stopping)?;
        Ok(overview::document(&overview, &self.gateway, &[], 0).to_string().into_bytes())
    }

    /// A page, as a document.
    ///
    /// # Errors
    /// [`Stopping`].
    pub async fn page(&self, wanted: Wanted) -> Result<Vec<u8>, Stopping> {
        let mut unreadable: Option<(Piece, Page)> = None;
        for _ in 0..TRIES {
            let Some(piece) = self.piece(wanted).await? else { return Ok(Page::default().document()) };
            if let Some((before, page)) = &unreadable
                && before.is_same(&piece)
            {
                return Ok(page.document());
            }
            let page = self.read(piece.clone(), wanted).await?;
            if page.head.trouble.is_none() {
                return Ok(page.document());
            }
            // Gone since, or unreadable: the outbox knows.
            unreadable = Some((piece, page));
        }
        Ok(unreadable.map_or_else(Page::default, |(_, page)| page).document())
    }

    async fn piece(&self, wanted: Wanted) -> Result<Option<Piece>, Stopping> {
        let (answer, piece) = oneshot::channel();
        self.ask(Look::Piece { lane: wanted.lane, from: wanted.from, answer }).await?;
        piece.await.map_err(|_| Stopping)
    }

    async fn ask(&self, look: Look) -> Result<(), Stopping> {
        self.inbox.send(Input::Look(look)).await.map_err(|_| Stopping)
    }

    /// Neither the engine thread nor the network's waits for the medium.
    async fn read(&self, piece: Piece, wanted: Wanted) -> Result<Page, Stopping> {
        let viewer = self.clone();
        let read = spawn_blocking(move || {
            let mut block = Vec::new();
            let found = piece.block().map_or(Ok(true), |number| {
                let mut chain = viewer.chain.lock().unwrap_or_else(PoisonError::into_inner);
                chain.read_block(piece.lane as u8, number, &mut block)
            });
            page_of(&viewer.gateway, &piece, found.map_err(|error| error.to_string()), &block, wanted)
        });
        read.await.map_err(|_| Stopping)
    }
}

/// The page of a piece, from what its chain has answered.
pub(super) fn page_of(gateway: &str, piece: &Piece, found: Result<bool, String>, block: &[u8], wanted: Wanted) -> Page {
    match found {
        Ok(true) => Page::of(gateway, piece, Ok(block), wanted),
        Ok(false) => Page::of(gateway, piece, Err("it is not on the disk, or damaged"), wanted),
        Err(error) => Page::of(gateway, piece, Err(&error), wanted),
    }
}
