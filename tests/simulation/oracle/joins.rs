//! Joins: every record of one side is compared with every one of the other.

use std::rc::Rc;

use serde_json::{Value, json};
use tidegate::engine::spec::{JoinKind, JoinSpec, KeySpec, PipelineSpec, Scope, StreamSpec};

use super::cell::Taken;
use super::marks::Owner;
use super::{Oracle, Rows, values_of};

/// What of one key may wait without any making room.
const ROOM: usize = 1_000;

/// One interval join.
pub(crate) struct Pairs {
    pub name: String,
    /// What follows from the records alone is known: nothing went by the clock or for room.
    pub exact: bool,
    /// Pairs, and how often each.
    pub rows: Rows,
    /// Of each side: all records, and those that were late.
    pub books: [[u64; 2]; 2],
    sides: [String; 2],
    lower_ms: i64,
    upper_ms: i64,
    key: KeySpec,
    kept: Vec<Kept>,
}

#[derive(Clone)]
struct Kept {
    side: usize,
    key: String,
    at: i64,
    until: i64,
    receive: bool,
    values: Value,
}

/// All joins of records.
pub(crate) struct Joins {
    pub pairs: Vec<Pairs>,
    /// The configuration changed: what joins had is theirs alone.
    pub changed: bool,
}

/// A device that ended there has got further than the watermark which it shared, and a
/// join knows the latter only.
pub(crate) fn forgets_floors(stream: &StreamSpec) -> bool {
    stream.state_ttl.is_some() && stream.watermark.scope != Scope::Device
}

/// So long that no run sees the end of it.
pub(crate) fn waits_long(join: &JoinSpec) -> bool {
    join.ttl.as_millis() >= 86_400_000
}

impl Joins {
    pub(super) fn new(spec: &PipelineSpec) -> Joins {
        let pairs = spec.joins.iter().filter_map(|join| {
            let JoinKind::Interval { left, right, lower_ms, upper_ms, key } = &join.kind else { return None };
            let ends = |stream: &StreamSpec| (stream.name == *left || stream.name == *right) && forgets_floors(stream);
            Some(Pairs {
                name: join.name.to_string(),
                exact: waits_long(join) && !spec.streams.iter().any(ends),
                rows: Rows::new(),
                books: [[0; 2]; 2],
                sides: [left.to_string(), right.to_string()],
                lower_ms: *lower_ms,
                upper_ms: *upper_ms,
                key: *key,
                kept: Vec::new(),
            })
        });
        Joins { pairs: pairs.collect(), changed: false }
    }

    pub(super) fn follow(&mut self, _spec: &Rc<PipelineSpec>) {
        self.changed = true;
    }
}

impl Oracle {
    /// A record that a stream has accepted, with the watermarks of its device and group
    /// before it.
    pub(super) fn join_record(&mut self, stream: &str, before: &[(Option<i64>, Owner); 2], record: &Taken<'_>) {
        let streams = &self.streams;
        for join in &mut self.joins.pairs {
            let Some(side) = join.sides.iter().position(|name| name == stream) else { continue };
            let (own, owner) = &before[usize::from(join.key == KeySpec::Group)];
            join.books[side][0] += 1;
            let other = &streams[&join.sides[1 - side]];
            let watermark = (*own).min(other.marks.of(&other.spec, owner));
            if watermark.is_some_and(|watermark| record.at < watermark) {
                join.books[side][1] += 1;
                continue;
            }
            let reach = if side == 0 { join.upper_ms } else { -join.lower_ms };
            let until = record.at.saturating_add(reach.max(0));
            let kept = Kept {
                side,
                key: owner.key().to_owned(),
                at: record.at,
                until: watermark.map_or(until, |watermark| until.max(watermark + 1)),
                receive: record.reading.at.is_none(),
                values: json!(values_of(record, false)),
            };
            join.add(kept);
        }
    }

    /// What can have no partner any more goes.
    pub(super) fn sweep_joins(&mut self) {
        let streams = &self.streams;
        for join in &mut self.joins.pairs {
            let [left, right] = join.sides.each_ref().map(|name| streams.get(name));
            let (Some(left), Some(right), key) = (left, right, join.key) else { continue };
            join.kept.retain(|kept| {
                let owner = Owner::of(key, &kept.key);
                let of = |side: &super::stream::StreamState| side.marks.of(&side.spec, &owner);
                of(left).min(of(right)).is_none_or(|watermark| watermark < kept.until)
            });
        }
    }
}

impl Pairs {
    fn add(&mut self, kept: Kept) {
        let of_key = self.kept.iter().filter(|other| other.key == kept.key);
        self.exact &= of_key.clone().count() < ROOM;
        for other in of_key.filter(|other| other.side != kept.side) {
            let (left, right) = if kept.side == 0 { (&kept, other) } else { (other, &kept) };
            let apart = i128::from(right.at) - i128::from(left.at);
            if apart < i128::from(self.lower_ms) || apart > i128::from(self.upper_ms) {
                continue;
            }
            let source = if left.receive || right.receive { "receive" } else { "device" };
            let values = json!({ &self.sides[0]: left.values, &self.sides[1]: right.values });
            let row = json!([self.name, kept.key, left.at, right.at, source, values]).to_string();
            *self.rows.entry(row).or_default() += 1;
        }
        self.kept.push(kept);
    }
}

/// A pair as the receiver has it, in the form of [`Pairs::rows`].
pub(crate) fn pair_form(record: &Value) -> String {
    let of = |name: &str| record[name].clone();
    let sides: Value = super::normal(&record["values"]);
    json!([of("join"), of("key"), of("left_ms"), of("right_ms"), of("time_source"), sides]).to_string()
}
