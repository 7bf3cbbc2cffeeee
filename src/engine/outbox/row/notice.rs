//! Rows about the agent itself: gaps and alarms.

use super::{Row, TAG_ALARM, TAG_GAP};
use crate::engine::wire::{Damaged, Reader, put_bytes, put_i64, put_str, put_u64};
use crate::model::time::{EventTime, WallTime};

/// Why records are not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapReason {
    /// They made room for newer ones.
    Evicted,
    /// They were older than their lane keeps them.
    Expired,
    /// The medium did not give them back.
    Damaged,
    /// The cloud's broker takes everything but them.
    Refused,
    /// A single one is larger than the uplink takes.
    TooLarge,
}

/// Stands for records that are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRow {
    /// First sequence number of the range; the row's own is the last.
    pub first_seq: u64,
    /// Records lost.
    pub records: u64,
    /// Earliest and latest time among them: window starts or event times.
    pub oldest: EventTime,
    /// See `oldest`.
    pub newest: EventTime,
    /// Why.
    pub reason: GapReason,
}

/// What was lost of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapItem<'a> {
    /// Stream, or join.
    pub stream: &'a str,
    /// Device, or key.
    pub key: &'a str,
    /// Records.
    pub records: u64,
    /// Earliest and latest time among them.
    pub oldest: EventTime,
    /// See `oldest`.
    pub newest: EventTime,
}

/// The items of a gap, as far as there was room for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapItems<'a> {
    count: u64,
    bytes: &'a [u8],
}

/// Something a person should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmRow<'a> {
    /// When it was noticed.
    pub at: WallTime,
    /// A word for machines.
    pub code: &'a str,
    /// A sentence for people.
    pub text: &'a str,
}

/// Appends a gap.
pub fn write_gap<'a>(out: &mut Vec<u8>, row: &GapRow, items: impl ExactSizeIterator<Item = GapItem<'a>>) {
    out.extend_from_slice(&[TAG_GAP, row.reason as u8]);
    put_u64(out, row.first_seq);
    put_u64(out, row.records);
    put_i64(out, row.oldest.as_millis());
    put_i64(out, row.newest.as_millis());
    put_u64(out, items.len() as u64);
    for item in items {
        put_str(out, item.stream);
        put_str(out, item.key);
        put_u64(out, item.records);
        put_i64(out, item.oldest.as_millis());
        put_i64(out, item.newest.as_millis());
    }
}

pub(super) fn read_gap<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let reason = GapReason::ALL.get(usize::from(reader.u8()?)).copied().ok_or(Damaged)?;
    let row = GapRow {
        first_seq: reader.u64()?,
        records: reader.u64()?,
        oldest: EventTime::from_millis(reader.i64()?),
        newest: EventTime::from_millis(reader.i64()?),
        reason,
    };
    let count = reader.u64()?;
    let items = GapItems { count, bytes: reader.rest() };
    for _ in 0..count {
        read_item(reader)?;
    }
    Ok(Row::Gap(row, items))
}

fn read_item<'a>(reader: &mut Reader<'a>) -> Result<GapItem<'a>, Damaged> {
    Ok(GapItem {
        stream: reader.str()?,
        key: reader.str()?,
        records: reader.u64()?,
        oldest: EventTime::from_millis(reader.i64()?),
        newest: EventTime::from_millis(reader.i64()?),
    })
}

impl<'a> GapItems<'a> {
    /// Nothing is said of what was lost.
    pub const NONE: GapItems<'static> = GapItems { count: 0, bytes: &[] };

    /// One for each device, in order.
    pub fn iter(&self) -> impl Iterator<Item = GapItem<'a>> + use<'a> {
        let mut reader = Reader::new(self.bytes);
        (0..self.count).map_while(move |_| read_item(&mut reader).ok())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// True when nothing is known of what was lost.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl GapReason {
    /// Every reason, in the order of the stored numbers.
    pub const ALL: [GapReason; 5] =
        [GapReason::Evicted, GapReason::Expired, GapReason::Damaged, GapReason::Refused, GapReason::TooLarge];

    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            GapReason::Evicted => "evicted",
            GapReason::Expired => "expired",
            GapReason::Damaged => "damaged",
            GapReason::Refused => "refused",
            GapReason::TooLarge => "too_large",
        }
    }
}

/// Appends an alarm.
pub fn write_alarm(out: &mut Vec<u8>, row: &AlarmRow<'_>) {
    out.push(TAG_ALARM);
    put_i64(out, row.at.as_millis());
    put_str(out, row.code);
    put_bytes(out, row.text.as_bytes());
}
