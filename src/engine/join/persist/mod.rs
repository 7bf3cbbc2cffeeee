//! Joins as persisted bytes, and what a changed configuration makes of them.
//!
//! ```text
//! snapshot: n × (definition | section)      page: n × (0 | 1 section)
//!
//! definition: name | ttl | window: outer, n × (stream | window)
//!                        | interval: left | right | lower | upper | key
//! window:     books | floor | revisions | removed | fences | n × cell
//! interval:   books of both sides | pairs | next number | removed | n × record
//! ```
//!
//! A deadline is stored as the time that is left.

mod interval;
mod window;

use crate::engine::Engine;
use crate::engine::snapshot::Extent;
use crate::engine::spec::{JoinKind, JoinSpec, KeySpec, WindowRef};
use crate::engine::stream::Stream;
use crate::engine::timers::LiveTime;
use crate::engine::wire::{Damaged, Reader, put_i64, put_str, put_u64};
use crate::model::ids::Name;
use crate::model::time::{Now, Span};

use super::{Join, Joins, Scene};
use super::{interval_join, window_join};

impl Joins {
    /// True when a commit would write nothing.
    pub(in crate::engine) fn is_committed(&self) -> bool {
        !self.list.iter().any(Join::has_changed)
    }

    /// Everything so far is durable.
    pub(in crate::engine) fn mark_committed(&mut self) {
        for join in &mut self.list {
            match join {
                Join::Window(join) => {
                    join.changes = window_join::Changes::default();
                    join.fences.changed.clear();
                }
                Join::Interval(join) => join.changes = interval_join::Changes::default(),
            }
        }
    }

    pub(in crate::engine) fn write_all(&self, out: &mut Vec<u8>, live: LiveTime) {
        put_u64(out, self.list.len() as u64);
        for (spec, join) in self.specs.iter().zip(&self.list) {
            write_definition(out, spec);
            join.write(out, Extent::Whole, live);
        }
    }

    /// Reads what [`Joins::write_all`] wrote, between `streams` as they were then.
    pub(in crate::engine) fn read_all(reader: &mut Reader<'_>, streams: &[Stream]) -> Result<Joins, Damaged> {
        let mut joins = Joins::new(&[], streams).ok_or(Damaged)?;
        for _ in 0..reader.u64()? {
            let spec = read_definition(reader)?;
            // Room is made when the configuration of today is known.
            joins.add(&spec, streams, usize::MAX).ok_or(Damaged)?;
            joins.specs.push(spec);
            joins.list.last_mut().ok_or(Damaged)?.read(reader, LiveTime::default())?;
        }
        Ok(joins)
    }

    pub(in crate::engine) fn write_changes(&self, out: &mut Vec<u8>, live: LiveTime) {
        for join in &self.list {
            out.push(u8::from(join.has_changed()));
            if join.has_changed() {
                join.write(out, Extent::Changes, live);
            }
        }
    }

    pub(in crate::engine) fn apply_changes(
        &mut self,
        reader: &mut Reader<'_>,
        written: LiveTime,
    ) -> Result<(), Damaged> {
        for join in &mut self.list {
            if reader.u8()? == 1 {
                join.read(reader, written)?;
            }
        }
        Ok(())
    }

    /// Takes over what the joins of before had, as far as they are the same. Of one that
    /// is not, what is complete is emitted, and the rest is counted. Returns true when
    /// anything differs.
    pub(in crate::engine) fn take_over(&mut self, mut old: Joins, scene: &mut Scene<'_>) -> bool {
        old.mark_committed();
        let changed = old.specs != self.specs || old.geometry != self.geometry;
        for (spec, join) in self.specs.iter().zip(&mut self.list) {
            if let Join::Window(join) = join
                && old.specs.iter().all(|known| known.name != spec.name)
            {
                join.begin_after(scene.streams);
            }
        }
        for (place, join) in old.list.into_iter().enumerate() {
            let target = self.specs.iter().position(|spec| spec.name == old.specs[place].name);
            let same = target.is_some_and(|target| {
                self.specs[target].kind == old.specs[place].kind && self.geometry[target] == old.geometry[place]
            });
            match (join, target.map(|target| &mut self.list[target])) {
                (Join::Window(old), Some(Join::Window(new))) if same => new.take_over(old),
                (Join::Interval(old), Some(Join::Interval(new))) if same => new.take_over(old),
                (Join::Window(mut old), new) => {
                    old.give_up(scene);
                    if let Some(Join::Window(new)) = new {
                        new.books = old.books;
                        // Ids that the old definition has used stay below.
                        new.first_revision = old.next_revision.max(old.first_revision);
                    }
                }
                (Join::Interval(mut old), new) => {
                    old.give_up();
                    if let Some(Join::Interval(new)) = new {
                        (new.books, new.pairs) = (old.books, old.pairs);
                    }
                }
            }
        }
        changed
    }
}

impl Engine {
    /// The joins of today, with what they had before. True when anything differs.
    pub(in crate::engine) fn fit_joins(&mut self, now: Now) -> bool {
        let joins = Joins::new(&self.spec.joins, &self.streams);
        let joins = joins.expect("config has looked for the streams and windows of joins");
        let old = core::mem::replace(&mut self.joins, joins);
        let mut scene = Scene {
            now,
            live: self.idle_clock.read(now.proc),
            outbox: &mut self.outbox,
            uplink_up: self.uplink_up,
            streams: &self.streams,
            partial_before: self.partial_before,
            ended: false,
        };
        self.joins.take_over(old, &mut scene)
    }
}

impl Join {
    fn has_changed(&self) -> bool {
        match self {
            Join::Window(join) => join.changes.any,
            Join::Interval(join) => join.changes.any,
        }
    }

    fn write(&self, out: &mut Vec<u8>, extent: Extent, live: LiveTime) {
        match self {
            Join::Window(join) => join.write(out, extent, live),
            Join::Interval(join) => join.write(out, extent, live),
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>, written: LiveTime) -> Result<(), Damaged> {
        match self {
            Join::Window(join) => join.read(reader, written),
            Join::Interval(join) => join.read(reader, written),
        }
    }
}

fn write_definition(out: &mut Vec<u8>, spec: &JoinSpec) {
    put_str(out, spec.name.as_str());
    put_u64(out, spec.ttl.as_millis());
    match &spec.kind {
        JoinKind::Window { sides, outer } => {
            out.push(u8::from(*outer));
            put_u64(out, sides.len() as u64);
            for side in sides {
                put_str(out, side.stream.as_str());
                put_str(out, side.window.as_str());
            }
        }
        JoinKind::Interval { left, right, lower_ms, upper_ms, key } => {
            out.push(match key {
                KeySpec::Device => 2,
                KeySpec::Group => 3,
                KeySpec::Stream => 4,
            });
            put_str(out, left.as_str());
            put_str(out, right.as_str());
            put_i64(out, *lower_ms);
            put_i64(out, *upper_ms);
        }
    }
}

fn read_definition(reader: &mut Reader<'_>) -> Result<JoinSpec, Damaged> {
    let name = read_name(reader)?;
    let ttl = Span::from_millis(reader.u64()?);
    let kind = match reader.u8()? {
        outer @ (0 | 1) => {
            let mut sides = Vec::new();
            for _ in 0..reader.u64()? {
                sides.push(WindowRef { stream: read_name(reader)?, window: read_name(reader)? });
            }
            JoinKind::Window { sides, outer: outer == 1 }
        }
        key @ 2..=4 => {
            let key = [KeySpec::Device, KeySpec::Group, KeySpec::Stream][usize::from(key - 2)];
            let (left, right) = (read_name(reader)?, read_name(reader)?);
            let (lower_ms, upper_ms) = (reader.i64()?, reader.i64()?);
            if lower_ms > upper_ms {
                return Err(Damaged);
            }
            JoinKind::Interval { left, right, lower_ms, upper_ms, key }
        }
        _ => return Err(Damaged),
    };
    Ok(JoinSpec { name, ttl, kind })
}

fn read_name(reader: &mut Reader<'_>) -> Result<Name, Damaged> {
    Name::new(reader.str()?).ok_or(Damaged)
}

fn put_left(out: &mut Vec<u8>, deadline: LiveTime, live: LiveTime) {
    put_u64(out, deadline.remaining(live).as_millis());
}

fn read_left(reader: &mut Reader<'_>, written: LiveTime) -> Result<LiveTime, Damaged> {
    Ok(written.plus(Span::from_millis(reader.u64()?)))
}
