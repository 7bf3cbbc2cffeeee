//! `format` of a stream: how payloads are written.

use crate::config::problem::Report;
use crate::engine::spec::FormatSpec;

use super::table::{Item, Table};

/// The format, and how single values are called where it has them.
pub(super) fn check<'t>(table: &Table<'t>, report: &mut Report) -> Option<(FormatSpec, Option<Item<'t>>)> {
    let format = table.choice("format", &[("json", 0_u8)], report)?;
    let _ = format;
    Some((FormatSpec::Json, None))
}
