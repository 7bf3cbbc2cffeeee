//! The definitions that give the numbers of a snapshot their meaning.

use crate::engine::aggregate::{Aggregates, Kind};
use crate::engine::retire::Retiring;
use crate::engine::spec::{KeySpec, LatePolicy, LateUpdates, Meaning, Resume, Scope, WindowKind, WindowSpec};
use crate::engine::stream::Stream;
use crate::engine::window::calendar::{CalendarUnit, Zone};
use crate::engine::wire::{Damaged, Reader, put_f64, put_i64, put_str, put_u64};
use crate::model::ids::Name;
use crate::model::time::Span;

/// What a stream was when the snapshot was taken.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::engine) struct Definition {
    pub name: Name,
    pub scope: Scope,
    pub windows: Vec<WindowSpec>,
}

pub(in crate::engine) fn write_definition(out: &mut Vec<u8>, stream: &Stream) {
    put_str(out, stream.spec.name.as_str());
    out.push(match stream.spec.watermark.scope {
        Scope::Device => 0,
        Scope::Shared => 1,
        Scope::Stream(Resume::CatchUp) => 2,
        Scope::Stream(Resume::Hold) => 3,
        Scope::Group(Resume::CatchUp) => 4,
        Scope::Group(Resume::Hold) => 5,
    });
    put_u64(out, stream.spec.windows.len() as u64);
    for window in &stream.spec.windows {
        put_str(out, window.name.as_str());
        write_kind(out, window.kind);
        out.push(match window.key {
            KeySpec::Device => 0,
            KeySpec::Group => 1,
            KeySpec::Stream => 2,
        });
        put_u64(out, window.lateness.as_millis());
        write_late(out, window.late);
        write_aggregates(out, &window.aggregates);
    }
}

pub(in crate::engine) fn read_definition(reader: &mut Reader<'_>) -> Result<Definition, Damaged> {
    let name = Name::new(reader.str()?).ok_or(Damaged)?;
    let scope = match reader.u8()? {
        0 => Scope::Device,
        1 => Scope::Shared,
        2 => Scope::Stream(Resume::CatchUp),
        3 => Scope::Stream(Resume::Hold),
        4 => Scope::Group(Resume::CatchUp),
        5 => Scope::Group(Resume::Hold),
        _ => return Err(Damaged),
    };
    let mut windows = Vec::new();
    for _ in 0..reader.u64()? {
        let name = Name::new(reader.str()?).ok_or(Damaged)?;
        let kind = read_kind(reader)?;
        let key = match reader.u8()? {
            0 => KeySpec::Device,
            1 => KeySpec::Group,
            2 => KeySpec::Stream,
            _ => return Err(Damaged),
        };
        let lateness = Span::from_millis(reader.u64()?);
        let late = read_late(reader)?;
        let aggregates = read_aggregates(reader)?;
        windows.push(WindowSpec { key, lateness, late, aggregates, ..WindowSpec::new(name, kind) });
    }
    Ok(Definition { name, scope, windows })
}

/// What a stream was before it became what it is: see `retire.rs`, `fence.rs`.
pub(in crate::engine) fn write_past(out: &mut Vec<u8>, stream: &Stream) {
    stream.fences.write_others(out);
    let Meaning { whole, fields } = &stream.spec.meaning;
    put_u64(out, *whole);
    put_u64(out, fields.len() as u64);
    for (name, meaning) in fields {
        put_str(out, name.as_str());
        put_u64(out, *meaning);
    }
    put_u64(out, stream.retiring.len() as u64);
    let finishing = stream.spec.windows.get(stream.defined()..).unwrap_or_default();
    for (window, retiring) in finishing.iter().zip(&stream.retiring) {
        // No span of these is 0.
        put_u64(out, window.early.map_or(0, Span::as_millis));
        put_u64(
            out,
            match window.late_updates {
                LateUpdates::Each => 0,
                LateUpdates::Every(every) => every.as_millis(),
            },
        );
        out.push(u8::from(window.final_pane));
        retiring.write(out);
    }
}

/// Reads what [`write_past`] wrote.
///
/// # Errors
/// [`Damaged`] when the bytes are something else.
pub(in crate::engine) fn read_past(reader: &mut Reader<'_>, stream: &mut Stream) -> Result<(), Damaged> {
    stream.fences.read_others(reader)?;
    let mut meaning = Meaning { whole: reader.u64()?, ..Meaning::default() };
    for _ in 0..reader.u64()? {
        let name = Name::new(reader.str()?).ok_or(Damaged)?;
        meaning.fields.insert(name, reader.u64()?);
    }
    stream.spec.meaning = meaning;
    let span = |millis: u64| (millis > 0).then(|| Span::from_millis(millis));
    let count: usize = reader.uint()?;
    let defined = stream.spec.windows.len().checked_sub(count).ok_or(Damaged)?;
    for window in &mut stream.spec.windows[defined..] {
        window.early = span(reader.u64()?);
        window.late_updates = span(reader.u64()?).map_or(LateUpdates::Each, LateUpdates::Every);
        window.final_pane = reader.u8()? == 1;
        stream.retiring.push(Retiring::read(reader)?);
    }
    Ok(())
}

fn write_late(out: &mut Vec<u8>, late: LatePolicy) {
    match late {
        LatePolicy::SideOutput => out.push(0),
        LatePolicy::Drop => out.push(1),
        LatePolicy::Backfill { quiet, max_age } => {
            out.push(2);
            put_u64(out, quiet.as_millis());
            put_u64(out, max_age.as_millis());
        }
    }
}

fn read_late(reader: &mut Reader<'_>) -> Result<LatePolicy, Damaged> {
    Ok(match reader.u8()? {
        0 => LatePolicy::SideOutput,
        1 => LatePolicy::Drop,
        2 => {
            LatePolicy::Backfill { quiet: Span::from_millis(reader.u64()?), max_age: Span::from_millis(reader.u64()?) }
        }
        _ => return Err(Damaged),
    })
}

fn write_kind(out: &mut Vec<u8>, kind: WindowKind) {
    match kind {
        WindowKind::Tumbling { size, offset_ms } => {
            out.push(0);
            put_u64(out, size.as_millis());
            put_i64(out, offset_ms);
        }
        WindowKind::Sliding { size, slide, offset_ms } => {
            out.push(1);
            put_u64(out, size.as_millis());
            put_u64(out, slide.as_millis());
            put_i64(out, offset_ms);
        }
        WindowKind::Session { gap, max_length } => {
            out.push(2);
            put_u64(out, gap.as_millis());
            put_u64(out, max_length.map_or(0, Span::as_millis));
        }
        WindowKind::Calendar { unit, zone, offset } => {
            out.push(3);
            out.push(unit.tag());
            put_str(out, zone.as_str());
            put_u64(out, offset.as_millis());
        }
    }
}

fn read_kind(reader: &mut Reader<'_>) -> Result<WindowKind, Damaged> {
    let span = |reader: &mut Reader<'_>| match reader.u64()? {
        0 => Err(Damaged),
        millis => Ok(Span::from_millis(millis)),
    };
    Ok(match reader.u8()? {
        0 => WindowKind::Tumbling { size: span(reader)?, offset_ms: reader.i64()? },
        1 => WindowKind::Sliding { size: span(reader)?, slide: span(reader)?, offset_ms: reader.i64()? },
        2 => WindowKind::Session {
            gap: span(reader)?,
            max_length: Some(reader.u64()?).filter(|millis| *millis > 0).map(Span::from_millis),
        },
        3 => WindowKind::Calendar {
            unit: CalendarUnit::from_tag(reader.u8()?).ok_or(Damaged)?,
            zone: Zone::find(reader.str()?).ok_or(Damaged)?,
            offset: Span::from_millis(reader.u64()?),
        },
        _ => return Err(Damaged),
    })
}

fn write_aggregates(out: &mut Vec<u8>, aggregates: &Aggregates) {
    put_u64(out, aggregates.len() as u64);
    out.extend(aggregates.kinds.iter().map(|kind| kind.tag()));
    put_u64(out, aggregates.quantiles().len() as u64);
    aggregates.quantiles().iter().for_each(|quantile| put_f64(out, quantile.share));
    put_u64(out, aggregates.histogram().len() as u64);
    aggregates.histogram().iter().for_each(|bound| put_f64(out, *bound));
}

fn read_aggregates(reader: &mut Reader<'_>) -> Result<Aggregates, Damaged> {
    let kinds = reader.bytes()?.iter().map(|tag| Kind::from_tag(*tag).ok_or(Damaged)).collect::<Result<Vec<_>, _>>()?;
    let quantiles = read_numbers(reader)?;
    let bounds = read_numbers(reader)?;
    Ok(Aggregates::of(&kinds).with_quantiles(&quantiles).with_histogram(&bounds))
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Vec<f64>, Damaged> {
    let mut numbers = Vec::new();
    for _ in 0..reader.u64()? {
        numbers.push(reader.f64()?);
    }
    Ok(numbers)
}
