//! Keys of `[[streams.windows]]`.

use super::Need::{Default, Derived, Optional, Required};
use super::forms::{BOOL, NAME, NUMBER, POSITIVE, SPAN, TEXT};
use super::shape::{Shape, case, duration, set};
use super::{Section, key};
use crate::engine::aggregate::Kind;
use crate::model::limits::{HISTOGRAM_BOUNDS_MAX, QUANTILES_MAX, WINDOW_SIZE_MAX};
use crate::model::time::Span;

/// `[[streams.windows]]`.
pub static WINDOW: Section = Section {
    id: "window",
    title: "[[streams.windows]]",
    keys: &[
        key("name", Required, NAME, "'1m'", "unique within the stream"),
        key(
            "size",
            Derived("required, but with `gap` or `calendar`"),
            LENGTH,
            "'1m'",
            "windows of this size, up to 366d",
        ),
        key(
            "slide",
            Optional,
            LENGTH,
            "'10s'",
            "sliding windows: a new one begins this often; without it they are tumbling",
        ),
        key(
            "gap",
            Optional,
            LENGTH,
            "'5m'",
            "session windows: they end after this long without a record; instead of `size`",
        ),
        key(
            "key",
            Default("device"),
            Shape::Words("device group stream"),
            "'group'",
            "whose records share a window: `device`, `group`, or the whole `stream`",
        ),
        key("max_length", Optional, LENGTH, "'1h'", "session windows: none is longer, not below `gap`"),
        key(
            "calendar",
            Optional,
            Shape::Words("hour day week month"),
            "'day'",
            "calendar windows: `hour`, `day`, `week` (from Monday) or `month` of a `zone`; instead of `size`",
        ),
        key(
            "zone",
            Derived("`UTC`, with `calendar`"),
            TEXT,
            "'Europe/Berlin'",
            "whose clock counts: a name of the IANA database",
        ),
        key(
            "offset",
            Default("0s"),
            Shape::Offset,
            "'-15s'",
            "shifts the borders, less than `size` or `slide`, may be negative; `calendar`: by the clock, less than the unit",
        ),
        key(
            "early",
            Optional,
            POSITIVE,
            "'10s'",
            "open windows that changed are shown this often at most, as panes `early`",
        ),
        key("lateness", Default("0s"), SPAN, "'1h'", "how long a window still takes late records, as new revisions"),
        key(
            "late_updates",
            Default("each"),
            Shape::AnyOf(&[Shape::Words("each"), Shape::Table(&LATE_UPDATES)]),
            "{ every = '5s' }",
            "`each` late record makes a revision, or a table: all within a time make one",
        ),
        key(
            "final",
            Default("false"),
            BOOL,
            "true",
            "`true`: a window is emitted once more, as pane `final`, when it takes no more",
        ),
        key(
            "late",
            Default("side_output"),
            Shape::Words("side_output backfill drop"),
            "'drop'",
            "records beyond lateness: `side_output` (sent on as they are), `backfill` (deltas that add to results) or `drop`",
        ),
        key(
            "backfill_quiet",
            Default("5s"),
            POSITIVE,
            "'10s'",
            "`backfill`: deltas are sent when nothing that late came for this long",
        ),
        key(
            "backfill_max_age",
            Default("60s"),
            POSITIVE,
            "'2m'",
            "`backfill`: or when the oldest delta is of this age",
        ),
        key(
            "aggregates",
            Default("count, sum, mean, min, max"),
            set(&AGGREGATE, 1, usize::MAX),
            "['count', 'mean', 'max']",
            "computed for every field; also `first`, `last`, `range`, `variance`, `stddev`, `quantiles`, `distinct`, \
             `histogram`, `time_weighted_mean`, `increase`, `rate`, `durations`",
        ),
        key(
            "quantiles",
            Default("0.5, 0.95, 0.99"),
            set(&PART, 1, QUANTILES_MAX),
            "[0.5, 0.9]",
            "which ones `quantiles` gives; 0 to 1, at most 16",
        ),
        key(
            "histogram",
            Derived("required with the aggregate"),
            set(&NUMBER, 1, HISTOGRAM_BOUNDS_MAX),
            "[10, 20, 30.5]",
            "upper bounds of the buckets of `histogram`, rising, at most 32; a value above the last has its own",
        ),
    ],
    cases: &[
        case(&["gap"], &["size", "slide", "offset", "calendar", "zone"]),
        case(&["calendar"], &["gap", "size", "slide", "max_length"]),
        case(&["size"], &["gap", "calendar", "zone", "max_length"]),
    ],
};

const LENGTH: Shape = duration(&(Span::MILLI..=WINDOW_SIZE_MAX));
const AGGREGATE: Shape = Shape::Known(|| Kind::ALL.iter().map(|kind| kind.as_str()).collect());
const PART: Shape = Shape::Number { min: 0.0, max: 1.0, above: false };

/// `late_updates` of a window, as a table.
pub static LATE_UPDATES: Section = Section {
    id: "late_updates",
    title: "streams.windows.late_updates",
    keys: &[key(
        "every",
        Required,
        POSITIVE,
        "'5s'",
        "a revision comes at most this long after the first late record in it",
    )],
    cases: &[],
};
