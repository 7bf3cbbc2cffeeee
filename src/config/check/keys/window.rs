//! Keys of `[[streams.windows]]`.

use super::Need::{Default, Derived, Optional, Required};
use super::{Section, key};

/// `[[streams.windows]]`.
pub static WINDOW: Section = Section {
    title: "[[streams.windows]]",
    keys: &[
        key("name", Required, "unique within the stream"),
        key("size", Derived("required, but with `gap` or `calendar`"), "windows of this size, up to 366d"),
        key("slide", Optional, "sliding windows: a new one begins this often; without it they are tumbling"),
        key("gap", Optional, "session windows: they end after this long without a record; instead of `size`"),
        key("key", Default("device"), "whose records share a window: `device`, `group`, or the whole `stream`"),
        key("max_length", Optional, "session windows: none is longer, not below `gap`"),
        key(
            "calendar",
            Optional,
            "calendar windows: `hour`, `day`, `week` (from Monday) or `month` of a `zone`; instead of `size`",
        ),
        key("zone", Derived("`UTC`, with `calendar`"), "whose clock counts: a name of the IANA database"),
        key(
            "offset",
            Default("0s"),
            "shifts the borders, less than `size` or `slide`, may be negative; `calendar`: by the clock, less than the unit",
        ),
        key("early", Optional, "open windows that changed are shown this often at most, as panes `early`"),
        key("lateness", Default("0s"), "how long a window still takes late records, as new revisions"),
        key(
            "late_updates",
            Default("each"),
            "`each` late record makes a revision, or a table: all within a time make one",
        ),
        key("final", Default("false"), "`true`: a window is emitted once more, as pane `final`, when it takes no more"),
        key(
            "late",
            Default("side_output"),
            "records beyond lateness: `side_output` (sent on as they are), `backfill` (deltas that add to results) or `drop`",
        ),
        key("backfill_quiet", Default("5s"), "deltas are sent when nothing that late came for this long"),
        key("backfill_max_age", Default("60s"), "or when the oldest of them is of this age"),
        key(
            "aggregates",
            Default("count, sum, mean, min, max"),
            "computed for every field; also `first`, `last`, `range`, `variance`, `stddev`, `quantiles`, `distinct`, \
             `histogram`, `time_weighted_mean`, `increase`, `rate`, `durations`",
        ),
        key("quantiles", Default("0.5, 0.95, 0.99"), "which ones `quantiles` gives; 0 to 1, at most 16"),
        key(
            "histogram",
            Derived("required with the aggregate"),
            "upper bounds of the buckets of `histogram`, rising, at most 32; a value above the last has its own",
        ),
    ],
};
