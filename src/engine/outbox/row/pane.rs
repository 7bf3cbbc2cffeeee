//! One emission of one window.

use super::results::{FieldResults, write_approximate, write_result};
use super::{FLAG_APPROXIMATE, FLAG_PARTIAL, Row, TAG_PANE, flags, quality_of, source_of};
use crate::engine::aggregate::{Accumulator, Finished, Kind};
use crate::engine::wire::{Damaged, Reader, put_i64, put_str, put_time, put_u64};
use crate::model::record::TimeSource;
use crate::model::time::{ClockQuality, EventTime, Span};

/// Why a pane was emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaneKind {
    /// The watermark passed the end of the window.
    OnTime,
    /// A record within allowed lateness changed a window that had fired.
    Late,
    /// The device fell idle; the window stays open.
    Idle,
    /// A look at an open window that has changed.
    Early,
    /// The window's state goes: nothing more will come.
    Final,
    /// No pane, but what came for a window after it was over: adds to its result, and
    /// has no revision.
    Delta,
}

/// One emission of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaneRow<'a> {
    /// Stream.
    pub stream: &'a str,
    /// Window definition.
    pub window: &'a str,
    /// Device.
    pub key: &'a str,
    /// First time of the window.
    pub start: EventTime,
    /// First time after it.
    pub end: EventTime,
    /// The time in its id: that of the record that opened a session, otherwise the start.
    pub opened: EventTime,
    /// Why now.
    pub pane: PaneKind,
    /// Counts the emissions of this window from 0.
    pub revision: u32,
    /// The watermark at that moment.
    pub watermark: Option<EventTime>,
    /// Records in the window.
    pub count: u64,
    /// A record in it has no time of its own.
    pub source: TimeSource,
    /// Of the gateway's clock at that moment.
    pub quality: ClockQuality,
    /// Records may be missing.
    pub partial: bool,
}

/// Results by field and aggregate, still in stored form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaneValues<'a> {
    replaced: u64,
    replaces: &'a [u8],
    kinds: &'a [u8],
    approximate: bool,
    fields: u64,
    bytes: &'a [u8],
    mergeable: Option<&'a [u8]>,
}

/// Appends a pane. `fields`: one result per field and aggregate, and whether it is
/// approximate.
pub fn write_pane<'n, V: Iterator<Item = (Finished<'n>, bool)>>(
    out: &mut Vec<u8>,
    row: &PaneRow<'_>,
    replaces: &[EventTime],
    aggregates: &[Kind],
    field_count: u32,
    fields: impl Iterator<Item = (&'n str, V)>,
) {
    out.push(TAG_PANE);
    put_str(out, row.stream);
    put_str(out, row.window);
    put_str(out, row.key);
    put_i64(out, row.start.as_millis());
    put_u64(out, row.start.lag_behind(row.end).as_millis());
    put_u64(out, row.start.lag_behind(row.opened).as_millis());
    out.push(row.pane as u8);
    let flags_at = out.len();
    out.push(flags(row.source, row.quality, row.partial));
    put_u64(out, u64::from(row.revision));
    put_time(out, row.watermark);
    put_u64(out, row.count);
    put_u64(out, replaces.len() as u64);
    for start in replaces {
        put_i64(out, start.as_millis());
    }
    put_u64(out, aggregates.len() as u64);
    out.extend(aggregates.iter().map(|kind| kind.tag()));
    put_u64(out, u64::from(field_count));
    for (name, values) in fields {
        put_str(out, name);
        for (result, approximate) in values {
            if approximate {
                out[flags_at] |= FLAG_APPROXIMATE;
                write_approximate(out);
            }
            write_result(out, &result);
        }
    }
}

/// Appends the accumulators behind the results, field by field, if they are `wanted`.
pub fn write_accumulators<'a>(out: &mut Vec<u8>, wanted: bool, fields: impl Iterator<Item = &'a [Accumulator]>) {
    out.push(u8::from(wanted));
    if wanted {
        fields.flatten().for_each(|accumulator| accumulator.write(out));
    }
}

/// Reads what follows the tag.
pub(super) fn read_pane<'a>(reader: &mut Reader<'a>) -> Result<Row<'a>, Damaged> {
    let (stream, window, key) = (reader.str()?, reader.str()?, reader.str()?);
    let start = EventTime::from_millis(reader.i64()?);
    let end = start + Span::from_millis(reader.u64()?);
    let opened = start + Span::from_millis(reader.u64()?);
    let pane = *PaneKind::ALL.get(usize::from(reader.u8()?)).ok_or(Damaged)?;
    let flags = reader.u8()?;
    let row = PaneRow {
        stream,
        window,
        key,
        start,
        end,
        opened,
        pane,
        revision: reader.uint()?,
        watermark: reader.time()?,
        count: reader.u64()?,
        source: source_of(flags),
        quality: quality_of(flags),
        partial: flags & FLAG_PARTIAL != 0,
    };
    let replaced = reader.u64()?;
    let starts = reader.rest();
    for _ in 0..replaced {
        reader.i64()?;
    }
    let kinds = reader.bytes()?;
    let approximate = flags & FLAG_APPROXIMATE != 0;
    let fields = reader.u64()?;
    let bytes = reader.rest();
    let mut values = PaneValues { replaced, replaces: starts, kinds, approximate, fields, bytes, mergeable: None };
    // Walk once, so that holding the row is the proof that it can be read.
    for _ in 0..values.fields {
        reader.str()?;
        FieldResults::read(kinds, reader)?;
    }
    let kinds = kinds.iter().map(|tag| Kind::from_tag(*tag).ok_or(Damaged));
    kinds.clone().try_for_each(|kind| kind.map(|_| ()))?;
    if reader.u8()? == 1 {
        values.mergeable = Some(reader.rest());
        for _ in 0..values.fields {
            kinds.clone().try_for_each(|kind| kind?.read(reader).map(|_| ()))?;
        }
    }
    Ok(Row::Pane(row, values))
}

impl<'a> PaneValues<'a> {
    /// Number of fields.
    pub fn len(self) -> usize {
        usize::try_from(self.fields).unwrap_or(usize::MAX)
    }

    /// True when a result is not what its aggregate promises.
    pub fn is_approximate(self) -> bool {
        self.approximate
    }

    /// True without any field.
    pub fn is_empty(self) -> bool {
        self.fields == 0
    }

    /// Starts of the sessions that this one has taken in after they were published.
    pub fn replaces(self) -> impl Iterator<Item = EventTime> {
        let mut reader = Reader::new(self.replaces);
        (0..self.replaced).map_while(move |_| reader.i64().ok().map(EventTime::from_millis))
    }

    /// Whether the accumulators are there too: where late records are added to results.
    pub fn is_mergeable(self) -> bool {
        self.mergeable.is_some()
    }

    /// Each field with its accumulators; none without them.
    pub fn accumulators(self) -> impl Iterator<Item = (&'a str, Vec<Accumulator>)> {
        let mut reader = self.mergeable.map(Reader::new);
        self.fields().map_while(move |(name, _)| {
            let reader = reader.as_mut()?;
            let kinds = self.kinds.iter().map(|tag| Kind::from_tag(*tag));
            let read = kinds.map(|kind| kind?.read(reader).ok()).collect::<Option<Vec<_>>>();
            Some((name, read.expect("checked when the row was read")))
        })
    }

    /// Each field with its results.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, FieldResults<'a>)> {
        let mut reader = Reader::new(self.bytes);
        (0..self.fields).map_while(move |_| {
            let name = reader.str().ok()?;
            Some((name, FieldResults::read(self.kinds, &mut reader).ok()?))
        })
    }
}

impl PaneKind {
    /// Every kind. Append only: the place is the persisted tag.
    pub const ALL: [PaneKind; 6] =
        [PaneKind::OnTime, PaneKind::Late, PaneKind::Idle, PaneKind::Early, PaneKind::Final, PaneKind::Delta];

    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            PaneKind::OnTime => "on_time",
            PaneKind::Late => "late",
            PaneKind::Idle => "idle",
            PaneKind::Early => "early",
            PaneKind::Final => "final",
            PaneKind::Delta => "delta",
        }
    }
}
