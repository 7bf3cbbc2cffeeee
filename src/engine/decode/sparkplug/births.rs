//! What the birth of an edge node or a device has said of its metrics, for the messages that
//! have only an alias, or a name without a datatype.
//!
//! Kept is no more than a later message needs: metrics with an alias, and signed integers,
//! whose sign is in the datatype (data need not repeat it). Each birth has a table of its
//! own. Aliases are unique across an edge node by the specification; edge nodes that count
//! from zero for each device are read right too.

use std::collections::BTreeMap;

use crate::engine::wire::{Damaged, Reader, put_str, put_u64};
use crate::model::limits::SPARKPLUG_NAME_BYTES;

use super::payload::{Metric, Payload, datatype, is_signed};

/// Bytes of a metric beside its name, by estimate: its places in both tables.
const METRIC_BYTES: usize = 72;

/// How much may be kept yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) metrics: usize,
    pub(super) bytes: usize,
}

/// The metrics of one birth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Births {
    /// In the order of the names, each once.
    metrics: Vec<(Box<str>, u64)>,
    /// The alias, and the place in `metrics`.
    aliases: BTreeMap<u64, usize>,
    bytes: usize,
}

impl Births {
    /// What `payload` says, and how many metrics it names beyond `room` or too long. Of equal
    /// names and of equal aliases the last counts.
    pub(super) fn of(payload: &Payload<'_>, mut room: Room) -> (Births, u32) {
        let mut named = BTreeMap::new();
        let mut not_kept = 0;
        for metric in payload.metrics() {
            let Some(name) = metric.name else { continue };
            if metric.alias.is_none() && !is_signed(metric.datatype) {
                continue;
            }
            let bytes = name.len() + METRIC_BYTES;
            let is_new = !named.contains_key(name);
            if name.len() > SPARKPLUG_NAME_BYTES || is_new && (room.metrics == 0 || room.bytes < bytes) {
                not_kept += 1;
                continue;
            }
            if is_new {
                room.metrics -= 1;
                room.bytes -= bytes;
            }
            named.insert(name, (metric.datatype, metric.alias));
        }
        (Births::new(named.iter().map(|(name, (datatype, alias))| (*name, *datatype, *alias))), not_kept)
    }

    /// From metrics in the order of their names.
    fn new<'n>(sorted: impl Iterator<Item = (&'n str, u64, Option<u64>)>) -> Births {
        let mut births = Births::default();
        for (name, datatype, alias) in sorted {
            if let Some(alias) = alias {
                births.aliases.insert(alias, births.metrics.len());
            }
            births.bytes += name.len() + METRIC_BYTES;
            births.metrics.push((name.into(), datatype));
        }
        births
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.metrics.len()
    }

    /// What they take, by estimate.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn datatype_of(&self, name: &str) -> Option<u64> {
        let place = self.metrics.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(self.metrics[place].1)
    }

    fn by_alias(&self, alias: u64) -> Option<(&str, u64)> {
        let (name, datatype) = &self.metrics[*self.aliases.get(&alias)?];
        Some((name, *datatype))
    }

    /// Appends them.
    pub(super) fn save(&self, out: &mut Vec<u8>) {
        let mut aliases = vec![None; self.metrics.len()];
        for (alias, place) in &self.aliases {
            aliases[*place] = Some(*alias);
        }
        put_u64(out, self.metrics.len() as u64);
        for ((name, datatype), alias) in self.metrics.iter().zip(aliases) {
            put_str(out, name);
            put_u64(out, *datatype);
            put_u64(out, u64::from(alias.is_some()));
            put_u64(out, alias.unwrap_or(0));
        }
    }

    /// Reads what `save` wrote.
    ///
    /// # Errors
    /// [`Damaged`] also when the names are not in order, too long or too many.
    pub(super) fn load(reader: &mut Reader<'_>, room: Room) -> Result<Births, Damaged> {
        let count: usize = reader.uint()?;
        if count > room.metrics {
            return Err(Damaged);
        }
        let mut read = Vec::new();
        for _ in 0..count {
            let (name, datatype, has_alias, alias) = (reader.str()?, reader.u64()?, reader.u64()?, reader.u64()?);
            let in_order = read.last().is_none_or(|(last, _, _)| *last < name);
            if !in_order || name.is_empty() || name.len() > SPARKPLUG_NAME_BYTES || has_alias > 1 {
                return Err(Damaged);
            }
            read.push((name, datatype, (has_alias == 1).then_some(alias)));
        }
        let births = Births::new(read.into_iter());
        if births.bytes <= room.bytes { Ok(births) } else { Err(Damaged) }
    }
}

/// The name and the datatype of `metric`, by itself or by the birth. Nothing for an alias
/// that is not known.
pub(super) fn resolve<'a>(metric: &Metric<'a>, births: Option<&'a Births>) -> Option<(&'a str, u64)> {
    let (name, born_as) = match (metric.name, metric.alias) {
        (Some(name), _) if metric.datatype != datatype::UNKNOWN => (name, datatype::UNKNOWN),
        (Some(name), _) => (name, births.and_then(|births| births.datatype_of(name)).unwrap_or(datatype::UNKNOWN)),
        (None, Some(alias)) => births?.by_alias(alias)?,
        (None, None) => return None,
    };
    Some((name, if metric.datatype == datatype::UNKNOWN { born_as } else { metric.datatype }))
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::{put_message, put_varint};
    use super::*;

    const ROOM: Room = Room { metrics: 3, bytes: 1_000 };

    fn payload(metrics: &[(&str, Option<u64>, u64)]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, alias, datatype) in metrics {
            let mut metric = Vec::new();
            put_message(&mut metric, 1, name.as_bytes());
            if let Some(alias) = alias {
                put_varint(&mut metric, 2, *alias);
            }
            put_varint(&mut metric, 4, *datatype);
            put_message(&mut out, 2, &metric);
        }
        out
    }

    fn births(metrics: &[(&str, Option<u64>, u64)], room: Room) -> (Births, u32) {
        Births::of(&Payload::parse(&payload(metrics)).unwrap(), room)
    }

    #[test]
    fn what_later_messages_need_is_kept() {
        let (births, not_kept) = births(&[("b", Some(0), 9), ("a", None, 3), ("c", None, 9)], ROOM);
        assert_eq!((births.len(), not_kept), (2, 0), "a float that is always named needs no birth");
        assert_eq!(births.by_alias(0), Some(("b", 9)));
        assert_eq!((births.by_alias(1), births.datatype_of("a"), births.datatype_of("c")), (None, Some(3), None));
    }

    #[test]
    fn of_equal_names_and_aliases_the_last_counts() {
        let (births, _) = births(&[("a", Some(1), 9), ("a", Some(2), 3), ("b", Some(2), 10)], ROOM);
        assert_eq!((births.by_alias(1), births.by_alias(2)), (None, Some(("b", 10))));
        assert_eq!(births.datatype_of("a"), Some(3));
    }

    #[test]
    fn what_is_beyond_the_room_or_too_long_is_counted() {
        let metrics = [("a", Some(1), 9), ("b", Some(2), 9), ("c", Some(3), 9), ("d", Some(4), 9)];
        let (kept, not_kept) = births(&metrics, ROOM);
        assert_eq!((kept.len(), not_kept, kept.by_alias(4)), (3, 1, None));
        let (kept, not_kept) = births(&metrics, Room { bytes: 2 * (METRIC_BYTES + 1), ..ROOM });
        assert_eq!((kept.len(), not_kept), (2, 2));
        let long = "x".repeat(SPARKPLUG_NAME_BYTES + 1);
        assert_eq!(births(&[(&long, Some(1), 9), (&long[1..], Some(2), 9)], ROOM).1, 1);
    }

    #[test]
    fn what_is_saved_is_loaded_and_every_cut_is_noticed() {
        let (births, _) = births(&[("b", Some(u64::MAX), 9), ("a", None, 3)], ROOM);
        let mut out = Vec::new();
        births.save(&mut out);
        assert_eq!(Births::load(&mut Reader::new(&out), ROOM), Ok(births));
        for cut in 0..out.len() {
            assert_eq!(Births::load(&mut Reader::new(&out[..cut]), ROOM), Err(Damaged));
        }
        assert_eq!(Births::load(&mut Reader::new(&out), Room { metrics: 1, ..ROOM }), Err(Damaged));
        assert_eq!(Births::load(&mut Reader::new(&out), Room { bytes: 10, ..ROOM }), Err(Damaged));
    }
}
