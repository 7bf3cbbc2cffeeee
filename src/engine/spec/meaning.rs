//! Whether two definitions of a stream speak of the same things.

use std::collections::BTreeMap;

use crate::model::ids::Name;

/// What the devices, times and values of a stream are, as numbers that differ when that does.
/// State goes on under another definition only if it means the same: an average of degrees and
/// of tenths of a degree is none.
///
/// The numbers are stored with the state, so they follow from what is configured and never from
/// how this program is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// Devices, times, the format. 0: not known.
    pub whole: u64,
    /// The fields that are configured by name.
    pub fields: BTreeMap<Name, u64>,
}

impl Meaning {
    /// Whether state that was made under `before` may go on. Fields may come and go; one of the
    /// same name has to be the same. What is not known stands in nobody's way.
    pub fn goes_on_from(&self, before: &Meaning) -> bool {
        let is_same = |(name, meaning): (&Name, &u64)| before.fields.get(name).is_none_or(|known| known == meaning);
        self.whole == 0 || before.whole == 0 || (self.whole == before.whole && self.fields.iter().all(is_same))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(whole: u64, fields: &[(&str, u64)]) -> Meaning {
        let field = |(name, meaning): &(&str, u64)| (Name::new(name).expect("valid"), *meaning);
        Meaning { whole, fields: fields.iter().map(field).collect() }
    }

    #[test]
    fn fields_may_come_and_go_and_none_may_change() {
        let before = meaning(1, &[("a", 10), ("b", 11)]);
        for (after, goes_on) in [
            (before.clone(), true),
            (meaning(1, &[("a", 10)]), true),
            (meaning(1, &[("a", 10), ("c", 5)]), true),
            (meaning(1, &[("a", 12)]), false),
            (meaning(2, &[("a", 10), ("b", 11)]), false),
            (Meaning::default(), true),
        ] {
            assert_eq!(after.goes_on_from(&before), goes_on, "{after:?}");
        }
        assert!(before.goes_on_from(&Meaning::default()));
    }
}
