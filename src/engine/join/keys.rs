//! The watermark of a key in a stream, and the name under which one waits for it.

use std::borrow::Cow;

use crate::engine::devices::SlotKind;
use crate::engine::spec::{KeySpec, Scope};
use crate::engine::stream::Stream;
use crate::engine::watermark::Watermark;

impl Stream {
    /// The watermark of a key. Of one that is unknown: that of the stream, where all
    /// share it; else none.
    pub(super) fn watermark_of_key(&self, kind: KeySpec, key: &str) -> Watermark {
        let slot = match kind {
            KeySpec::Device => self.devices.find(key),
            KeySpec::Group => self.devices.find_group(key),
            KeySpec::Stream => self.devices.whole(),
        };
        if let Some(slot) = slot {
            return self.watermark_of(slot);
        }
        // One that was silent for `state_ttl` has got as far as it had.
        let tombstone = match kind {
            KeySpec::Device => self.tombstones.get(SlotKind::Device, key),
            KeySpec::Group => self.tombstones.get(SlotKind::Group, key),
            KeySpec::Stream => None,
        };
        let floor = tombstone.map_or(Watermark::NONE, |tombstone| tombstone.floor);
        let own = tombstone.map_or(Watermark::NONE, |tombstone| tombstone.watermark);
        match (self.spec.watermark.scope, kind) {
            (Scope::Shared | Scope::Stream(_), _) => self.shared.max(floor),
            (Scope::Device, _) | (Scope::Group(_), KeySpec::Group) => own,
            // A device's tombstone knows what it has seen of its group's.
            (Scope::Group(_), KeySpec::Device | KeySpec::Stream) => floor,
        }
    }

    /// Which watermark that is: a device's or group's by name, or the empty text for the
    /// one of the stream.
    pub(super) fn scope_of_key<'k>(&'k self, kind: KeySpec, key: &'k str) -> Cow<'k, str> {
        match (self.spec.watermark.scope, kind) {
            (Scope::Shared | Scope::Stream(_), _) | (_, KeySpec::Stream) => Cow::Borrowed(""),
            (Scope::Device, _) | (Scope::Group(_), KeySpec::Group) => Cow::Borrowed(key),
            (Scope::Group(_), KeySpec::Device) => {
                let group = self.devices.find(key).and_then(|slot| self.devices.get(slot).group);
                match group {
                    Some(group) => Cow::Borrowed(self.devices.name(group)),
                    // In no group yet: no group's label begins like that.
                    None => Cow::Owned(format!("\u{1}{key}")),
                }
            }
        }
    }

    /// The watermark that [`Stream::scope_of_key`] names.
    pub(super) fn watermark_of_scope(&self, scope: &str) -> Watermark {
        let (slot, kind) = match self.spec.watermark.scope {
            Scope::Shared | Scope::Stream(_) => return self.shared,
            Scope::Device => (self.devices.find(scope), SlotKind::Device),
            Scope::Group(_) => (self.devices.find_group(scope), SlotKind::Group),
        };
        match slot {
            Some(slot) => self.devices.get(slot).watermark,
            None => self.tombstones.get(kind, scope).map(|tombstone| tombstone.watermark).unwrap_or_default(),
        }
    }
}
