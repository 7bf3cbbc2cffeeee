//! What is joined across streams. Streams and windows are named, so that a join
//! does not depend on their order.

use crate::model::ids::Name;
use crate::model::time::Span;

use super::KeySpec;

/// One join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinSpec {
    /// Unique among the joins.
    pub name: Name,
    /// How long something waits for its partners, in time for which the input was
    /// live. > 0.
    pub ttl: Span,
    /// What is joined.
    pub kind: JoinKind,
}

/// Kinds of joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Results of the same window and key of several streams become one row.
    Window {
        /// 2 ..= `limits::JOIN_SIDES_MAX`, of different streams, all with the same
        /// kind and key; no sessions.
        sides: Vec<WindowRef>,
        /// A row is made although a side has nothing, and says so.
        outer: bool,
    },
    /// A record of `left` at `a` and one of `right` at `b` of the same key make a pair
    /// when `a + lower_ms <= b <= a + upper_ms`.
    Interval {
        /// A stream.
        left: Name,
        /// Another one.
        right: Name,
        /// At most `upper_ms`.
        lower_ms: i64,
        /// At least `lower_ms`.
        upper_ms: i64,
        /// Device or group.
        key: KeySpec,
    },
}

/// One window of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRef {
    /// The stream.
    pub stream: Name,
    /// The window.
    pub window: Name,
}
