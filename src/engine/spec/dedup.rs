//! How copies of a reading are recognised.

use crate::model::ids::Name;
use crate::model::limits::{DEDUP_BYTES_MAX, DEDUP_HORIZON_DEFAULT};

/// How copies of a reading are recognised, device by device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DedupSpec {
    /// What makes two readings the same one.
    pub by: DedupBy,
    /// Readings remembered per device, 1 ..= `limits::DEDUP_HORIZON_MAX`. A copy that
    /// comes after more others than that counts as a reading of its own.
    pub horizon: usize,
}

/// What makes two readings of a device the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DedupBy {
    /// The same number in this field, which is then no value of windows.
    Sequence {
        /// A whole number from 0 up to 2^53, excluded; it counts up by one.
        field: Name,
    },
    /// The same event time and the same values.
    TimeAndValues,
}

impl DedupSpec {
    /// What the memory of one device takes of a snapshot, at most.
    pub fn device_bytes(&self) -> usize {
        match self.by {
            // Two runs of a number, a bit and a half dozen of bytes each.
            DedupBy::Sequence { .. } => 2 * self.horizon.div_ceil(64) * 8 + 48,
            DedupBy::TimeAndValues => 8 * self.horizon + 8,
        }
    }

    /// The horizon where none is configured: less than usual where the devices are many.
    pub fn default_horizon(by: &DedupBy, devices_max: usize) -> usize {
        let fits = |horizon: &usize| {
            let spec = DedupSpec { by: by.clone(), horizon: *horizon };
            spec.device_bytes() * devices_max <= DEDUP_BYTES_MAX
        };
        (1..=DEDUP_HORIZON_DEFAULT).rev().find(fits).unwrap_or(1)
    }
}
