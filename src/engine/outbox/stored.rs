//! The outbox alone, from stored bytes: for whoever looks at the state of an agent that
//! does not run, with or without its configuration. What stands behind the outbox in a
//! snapshot or a page is not read.

use super::{LaneKind, Outbox};
use crate::engine::chain::Chain;
use crate::engine::redelivery::Redelivery;
use crate::engine::snapshot;
use crate::engine::spec::{OutboxSpec, UplinkPolicy};
use crate::engine::store::Loaded;
use crate::engine::wire::Damaged;

/// What was found.
#[derive(Clone, Debug)]
pub struct StoredOutbox {
    /// The outbox as a start would find it, before it changes anything.
    pub outbox: Outbox,
    /// What of the state cannot be read, what the store has found included.
    pub damage: Vec<String>,
    /// Blocks that no page names: a start takes them over.
    pub adopted: u64,
}

/// What was taken over from a chain.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Adopted {
    /// Blocks.
    pub blocks: u64,
    /// Lanes that could not be looked at, and why.
    pub failures: Vec<(LaneKind, String)>,
}

impl StoredOutbox {
    /// Reads what a store has given, and takes over the blocks of the chain that no page
    /// names if pages are lost: as [`Driver::start`](crate::engine::driver::Driver::start) does.
    pub fn read(loaded: &Loaded, chain: &mut dyn Chain) -> StoredOutbox {
        let mut damage = loaded.damage.clone();
        let snapshot = loaded.snapshot.as_deref().and_then(|bytes| {
            let found = read_snapshot(bytes);
            found.inspect_err(|_| damage.push("the snapshot cannot be read by this version".to_owned())).ok()
        });
        let is_fresh = snapshot.is_none();
        let mut outbox = snapshot.unwrap_or_else(|| Outbox::new(OutboxSpec::default(), UplinkPolicy::default()));
        if is_fresh && !loaded.pages.is_empty() {
            damage.push("pages without a snapshot".to_owned());
        }
        for (number, page) in loaded.pages.iter().enumerate().take_while(|_| !is_fresh) {
            if apply_page(&mut outbox, page).is_err() {
                damage.push(format!("page {number} of {} cannot be read", loaded.pages.len()));
                // It may have done something already: once more, up to the one before it.
                outbox = replay(loaded, number).unwrap_or(outbox);
                break;
            }
        }
        let mut adopted = Adopted::default();
        if is_fresh || !damage.is_empty() {
            adopted = adopt(&mut outbox, chain);
            let text = |(lane, why): &(LaneKind, String)| format!("what lane {} has on disk: {why}", lane.as_str());
            damage.extend(adopted.failures.iter().map(text));
        }
        StoredOutbox { outbox, damage, adopted: adopted.blocks }
    }
}

/// Takes over the blocks that no page names.
pub(in crate::engine) fn adopt(outbox: &mut Outbox, chain: &mut dyn Chain) -> Adopted {
    let mut block = Vec::new();
    let mut adopted = Adopted::default();
    for kind in LaneKind::ALL {
        let numbers = chain.find_blocks(kind as u8).unwrap_or_else(|error| {
            adopted.failures.push((kind, error.to_string()));
            Vec::new()
        });
        for number in numbers {
            let found = chain.read_block(kind as u8, number, &mut block).unwrap_or(false);
            let bytes = block.len() as u64;
            adopted.blocks += u64::from(found && outbox.adopt(kind, number, &block, bytes));
        }
    }
    adopted
}

fn replay(loaded: &Loaded, pages: usize) -> Result<Outbox, Damaged> {
    let mut outbox = read_snapshot(loaded.snapshot.as_deref().ok_or(Damaged)?)?;
    loaded.pages[..pages].iter().try_for_each(|page| apply_page(&mut outbox, page))?;
    Ok(outbox)
}

/// The layouts are those of `snapshot/mod.rs`, up to the outbox.
fn read_snapshot(bytes: &[u8]) -> Result<Outbox, Damaged> {
    let mut reader = snapshot::open(bytes)?;
    reader.time()?;
    Redelivery::default().read(&mut reader)?;
    Outbox::read_all(&mut reader, OutboxSpec::default(), UplinkPolicy::default())
}

fn apply_page(outbox: &mut Outbox, bytes: &[u8]) -> Result<(), Damaged> {
    let mut reader = snapshot::open(bytes)?;
    reader.u64()?;
    reader.u64()?;
    reader.time()?;
    Redelivery::default().read(&mut reader)?;
    outbox.apply_changes(&mut reader)
}
