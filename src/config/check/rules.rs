//! Which records of a stream are kept out, and what is calculated from the others.

use crate::config::problem::Report;
use crate::engine::spec::{FieldsSpec, RulesSpec};

use super::table::Table;
use super::topics::{self, Topics};

/// `allow`, `deny`, `filter` and `compute`.
pub(super) fn check(
    table: &Table<'_>,
    _fields: Option<&FieldsSpec>,
    _topics: Option<&Topics>,
    report: &mut Report,
) -> Option<RulesSpec> {
    let allow = topics::devices(table, "allow", report);
    let deny = topics::devices(table, "deny", report);
    Some(RulesSpec { allow: allow?, deny: deny?.unwrap_or_default(), ..RulesSpec::default() })
}
