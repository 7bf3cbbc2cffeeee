//! The keys of `[[joins]]`.

use super::Need::{Default, Derived, Required};
use super::forms::{NAME, pattern};
use super::shape::{Case, Form, Shape, duration, set};
use super::{Section, key};
use crate::config::check::join::TTL;
use crate::model::limits::JOIN_SIDES_MAX;

/// `[[joins]]`.
pub static JOIN: Section = Section {
    id: "join",
    title: "[[joins]]",
    keys: &[
        key("name", Required, NAME, "'comfort'", "unique among the joins"),
        key(
            "windows",
            Derived("either this, or `left` and `right`"),
            set(&WINDOW_REF, 2, JOIN_SIDES_MAX),
            "['climate/1m', 'power/1m']",
            "window join: 2 to 8 of `stream/window`, alike but for aggregates and lateness",
        ),
        key(
            "mode",
            Derived("`inner`"),
            Shape::Words("inner outer"),
            "'outer'",
            "of a window join: `inner` needs every side, `outer` makes a row without those that are missing",
        ),
        key("left", Derived("see `windows`"), NAME, "'door'", "interval join: a stream"),
        key("right", Derived("see `windows`"), NAME, "'motion'", "interval join: another stream"),
        key(
            "after",
            Derived("`0s`"),
            Shape::Offset,
            "'10s'",
            "how much later than a left record a right one may be; may be negative",
        ),
        key(
            "before",
            Derived("`0s`"),
            Shape::Offset,
            "'-2s'",
            "how much earlier than a left record a right one may be; may be negative",
        ),
        key(
            "key",
            Derived("`device`"),
            Shape::Words("device group"),
            "'group'",
            "of an interval join: records of the same `device`, or of the same `group`",
        ),
        key("ttl", Default("10m"), duration(&TTL), "'30m'", "longest wait for a side that does not come, 1s to 366d"),
    ],
    cases: &[
        Case { with: &["windows"], without: &["left", "right", "after", "before", "key"], whole: &[] },
        Case { with: &["left", "right", "after"], without: &["windows", "mode"], whole: &[] },
        Case { with: &["left", "right", "before"], without: &["windows", "mode"], whole: &[] },
    ],
};

/// `stream/window`.
const WINDOW_REF: Shape = Shape::Text(&WINDOW_REF_FORM);
static WINDOW_REF_FORM: Form = pattern("/");
