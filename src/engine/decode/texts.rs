//! The texts of a payload that templates ask for: device ids, labels.

use crate::model::limits::{DEVICE_ID_BYTES, TEXTS_MAX};
use crate::model::template::PayloadText;

use super::batch::{DecodedBatch, NO_TEXT, TextAt};
use super::pointer::{Goal, NodeIx, PointerTrie};
use super::visit::Scalar;

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    wanted: Vec<PayloadText>,
    /// Of those that are looked for from the top of the payload; `None`: there are none.
    document: Option<PointerTrie>,
}

/// What one record has shown so far, by place.
#[derive(Clone, Debug, Default)]
pub(super) struct Found(heapless::Vec<TextAt, TEXTS_MAX>);

impl Texts {
    /// Of a stream.
    pub(super) fn new(wanted: &[PayloadText]) -> Texts {
        let pointers = (0_u8..).zip(wanted).filter_map(|(place, text)| match text {
            PayloadText::Document(pointer) => Some((pointer.as_str(), Goal::Text(place))),
            PayloadText::Record(_) | PayloadText::Key(_) => None,
        });
        let document = PointerTrie::new(pointers);
        Texts { wanted: wanted.to_vec(), document: (document.len() > 1).then_some(document) }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Where those of a record are.
    pub(super) fn of_records(&self) -> impl Iterator<Item = (&str, Goal)> {
        (0_u8..).zip(&self.wanted).filter_map(|(place, text)| match text {
            PayloadText::Record(pointer) => Some((pointer.as_str(), Goal::Text(place))),
            PayloadText::Document(_) | PayloadText::Key(_) => None,
        })
    }

    /// The top of the payload, when something is looked for from there.
    pub(super) fn document_root(&self) -> Option<NodeIx> {
        self.document.as_ref().map(|_| PointerTrie::ROOT)
    }

    /// One level down.
    pub(super) fn document_child(&self, at: NodeIx, key: &str) -> Option<NodeIx> {
        self.document.as_ref()?.child(at, key, &mut 0)
    }

    /// A value of the payload at a place that is looked for.
    pub(super) fn note_document(&self, at: NodeIx, value: Scalar<'_>, batch: &mut DecodedBatch) {
        let Some(trie) = &self.document else { return };
        for goal in &trie.node(at).here {
            if let Goal::Text(place) = *goal {
                let text = keep(value, batch);
                batch.share(usize::from(place), text);
            }
        }
    }

    /// The keys that led to a record that begins.
    pub(super) fn note_keys<'k>(
        &self,
        found: &mut Found,
        batch: &mut DecodedBatch,
        keys: impl Iterator<Item = &'k str>,
    ) {
        for (number, key) in keys.enumerate() {
            if let Some(place) = self.wanted.iter().position(|text| *text == PayloadText::Key(number)) {
                found.0[place] = keep(Scalar::Text(key), batch);
            }
        }
    }
}

impl Found {
    /// A new record.
    pub(super) fn clear(&mut self, len: usize) {
        self.0.clear();
        self.0.resize(len, NO_TEXT).expect("config allows TEXTS_MAX");
    }

    /// A value of the record at a place that is looked for.
    pub(super) fn note(&mut self, place: u8, value: Scalar<'_>, batch: &mut DecodedBatch) {
        self.0[usize::from(place)] = keep(value, batch);
    }

    /// As if it had not been there.
    pub(super) fn forget(&mut self, place: u8) {
        self.0[usize::from(place)] = NO_TEXT;
    }

    /// All of them.
    pub(super) fn all(&self) -> &[TextAt] {
        &self.0
    }
}

/// What is too long for an id is kept up to one byte beyond, so that it is seen to be.
fn keep(value: Scalar<'_>, batch: &mut DecodedBatch) -> TextAt {
    match value {
        Scalar::Text(text) => {
            let end = text.floor_char_boundary((DEVICE_ID_BYTES + 4).min(text.len()));
            batch.keep(format_args!("{}", &text[..end]))
        }
        Scalar::Number(digits) => {
            let end = digits.len().min(DEVICE_ID_BYTES + 1);
            batch.keep(format_args!("{}", &digits[..end]))
        }
        Scalar::Int(number) => batch.keep(format_args!("{number}")),
        Scalar::Uint(number) => batch.keep(format_args!("{number}")),
        Scalar::Float(number) => batch.keep(format_args!("{number}")),
        Scalar::Bool(truth) => batch.keep(format_args!("{truth}")),
        Scalar::Null | Scalar::Opaque => NO_TEXT,
    }
}
