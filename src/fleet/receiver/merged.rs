//! Results with what came after they were over: the accumulators of the pane that stands,
//! and of each delta once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Kind, Receiver};
use crate::engine::aggregate::published::{Malformed, merge};
use crate::engine::aggregate::{self, Accumulator};

/// What is known of one window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Merged {
    /// Records, in the pane and in the deltas.
    pub count: u64,
    /// Deltas that were added.
    pub deltas: usize,
    /// By field and aggregate.
    pub accumulators: BTreeMap<String, BTreeMap<String, Accumulator>>,
}

impl Receiver {
    /// The deltas, in the order of (gw, epoch, lane, seq).
    pub fn deltas(&self) -> impl Iterator<Item = &Value> {
        self.others.iter().filter(|(key, _)| key.kind == Kind::Delta).map(|(_, record)| record)
    }

    /// Ids of windows that have a pane, or deltas, or both.
    pub fn windows(&self) -> impl Iterator<Item = &str> {
        let without_pane = self.deltas.keys().filter(|id| !self.panes.contains_key(*id));
        self.panes.keys().chain(without_pane).map(String::as_str)
    }

    /// All that came of the window `id`. A window that was over before its first record
    /// has deltas alone.
    ///
    /// # Errors
    /// [`Malformed`] when accumulators are missing, or do not go together.
    pub fn merged(&self, id: &str) -> Result<Merged, Malformed> {
        let mut merged = Merged::default();
        if let Some(pane) = self.panes.get(id) {
            merged.add(&pane.record)?;
        }
        for record in self.deltas.get(id).into_iter().flatten().filter_map(|key| self.others.get(key)) {
            merged.add(record)?;
            merged.deltas += 1;
        }
        Ok(merged)
    }
}

impl Merged {
    fn add(&mut self, record: &Value) -> Result<(), Malformed> {
        self.count += record["count"].as_u64().ok_or(Malformed)?;
        for (field, accumulators) in record["accumulators"].as_object().ok_or(Malformed)? {
            let known = self.accumulators.entry(field.clone()).or_default();
            for (word, published) in accumulators.as_object().ok_or(Malformed)? {
                let kind = aggregate::Kind::parse(word).ok_or(Malformed)?;
                let sum = match known.get(word) {
                    Some(before) => merge(kind, &before.publish().to_value(), published)?,
                    None => kind.from_published(published)?,
                };
                known.insert(word.clone(), sum);
            }
        }
        Ok(())
    }
}
