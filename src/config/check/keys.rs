//! Every key there is: whether it is needed, its default, what it says. The
//! checker takes its defaults and its notion of "unknown key" from here, and the
//! README quotes [`reference()`], so the three cannot drift apart.

use core::fmt::Write as _;

/// Whether a key has to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It has to.
    Required,
    /// It may be absent, which means something of its own.
    Optional,
    /// Absent, it is as if this stood there.
    Default(&'static str),
    /// Absent, it follows from other keys as said here.
    Derived(&'static str),
}

/// One key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether it has to be there.
    pub need: Need,
    /// What it says.
    pub about: &'static str,
}

/// One table of the document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Section {
    /// As written in TOML.
    pub title: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

const fn key(name: &'static str, need: Need, about: &'static str) -> Key {
    Key { name, need, about }
}

use Need::{Default, Derived, Optional, Required};

pub use brokers::{BROKER, LOCAL, UPLINK, UPLINK_ONLY};

mod brokers;

/// The document.
pub static ROOT: Section = Section {
    title: "(top)",
    keys: &[
        key("gateway", Required, "who this gateway is"),
        key("devices", Required, "the broker that the devices publish to (not needed for `replay`)"),
        key("uplink", Required, "the broker of the cloud (not needed for `replay`)"),
        key("storage", Required, "where state lives (not needed for `replay`)"),
        key("outbox", Optional, "what is kept while the cloud is away, and how it is sent"),
        key("control", Optional, "the control socket; without it there is none"),
        key("local", Optional, "results on the devices' broker too; without it there are none"),
        key("streams", Optional, "what is aggregated, and how"),
        key("joins", Optional, "what is joined across streams"),
    ],
};

/// `[gateway]`.
pub static GATEWAY: Section = Section {
    title: "[gateway]",
    keys: &[
        key("id", Required, "name of this gateway; first part of every outgoing topic and id"),
        key("topic_prefix", Default("tidegate"), "first levels of the outgoing topics"),
        key("encoding", Default("json"), "of outgoing batches: `json` or `cbor`"),
    ],
};

/// `[storage]`.
pub static STORAGE: Section = Section {
    title: "[storage]",
    keys: &[
        key("path", Required, "directory; made when missing"),
        key("commit_interval", Default("1s"), "longest time from a message to its commit, 10ms to 1m"),
        key(
            "write_budget",
            Optional,
            "bytes in 24 hours that the flash may be given, 1MiB to 1024GiB; commits wait where it takes that",
        ),
        key(
            "commit_interval_max",
            Default("30s"),
            "how long they may wait for it, up to 10m, not below `commit_interval`",
        ),
        key("snapshot_interval", Default("120s"), "time between snapshots, up to 1d, not below `commit_interval`"),
        key("reserve", Default("32MiB"), "space that the outbox leaves free on the medium, 8MiB to 1GiB"),
    ],
};

/// `[outbox]`.
pub static OUTBOX: Section = Section {
    title: "[outbox]",
    keys: &[
        key("max_bytes", Default("256MiB"), "what is kept while the cloud is away, 64KiB to 4GiB"),
        key("backlog_share", Default("50%"), "of the uplink, for what waited, while there is something new"),
        key("messages_per_second", Optional, "at most; a message is a batch"),
        key("bytes_per_second", Optional, "of payload, at most"),
        key("bytes_per_day", Optional, "of payload (UTC); what waited stops at 80 %, alarms never"),
        key("payload_max_bytes", Default("112KiB"), "of one message, 4KiB to 896KiB"),
        key("window", Default("32"), "messages without an acknowledgement, 1 to 32"),
        key("live", Optional, "bounds of this lane; see `outbox.live`"),
        key("update", Optional, "the same"),
        key("backlog", Optional, "the same"),
        key("late", Optional, "the same"),
    ],
};

/// `[outbox.live]` and the other lanes.
pub static OUTBOX_LANE: Section = Section {
    title: "[outbox.live], [outbox.update], [outbox.backlog], [outbox.late]",
    keys: &[
        key("max_bytes", Optional, "of this lane, from 64KiB; beyond it the oldest go, with a gap record"),
        key("max_age", Optional, "how long a record is kept while the agent runs, 10s to 366d; then it goes likewise"),
    ],
};

/// `[control]`.
pub static CONTROL: Section = Section {
    title: "[control]",
    keys: &[key(
        "socket",
        Required,
        "path of a Unix socket, for `tidegate status` and `tidegate outbox`; at most 107 bytes",
    )],
};

/// `[[streams]]`.
pub static STREAM: Section = Section {
    title: "[[streams]]",
    keys: &[
        key("name", Required, "unique among the streams"),
        key("topic", Required, "MQTT topic, or a list; levels may be `+`, `{name}`, or `{name...}`: one or more"),
        key("ignore", Optional, "topics of those that are passed over, in the same notation"),
        key(
            "device",
            Derived("`{device}` when the topic captures it, else required"),
            "what makes the device's id: text, captures, `{/pointer}` of the record, `{^/pointer}` of the payload, \
             `{*1}` of `explode`",
        ),
        key("allow", Optional, "only these devices; `*` stands for anything"),
        key("deny", Optional, "not these"),
        key("labels", Optional, "texts that `group` and expressions may use; see `streams.labels`"),
        key("availability", Optional, "topics that say who is there; see `streams.availability`"),
        key(
            "format",
            Default("json"),
            "how payloads are written: `json`, `raw` (one value), `cbor`, `senml-json`, `senml-cbor`, `influx`, `csv`, \
             `teltonika`, `ruuvi`, `sparkplug-b`",
        ),
        key("raw", Optional, "`format = \"raw\"`: how one value is read; see `streams.raw`"),
        key("csv", Optional, "`format = \"csv\"`: columns and separator; see `streams.csv`"),
        key(
            "explode",
            Optional,
            "where records of their own begin, such as `/readings/*`; `\"\"` is the payload itself",
        ),
        key("fields", Default("all"), "`all` numbers, or a table of names and JSON Pointers; see `streams.fields`"),
        key("fields_at", Optional, "`all`: below this JSON Pointer of the record only"),
        key("fields_except", Optional, "`all`: not what is at or below these JSON Pointers"),
        key(
            "text_numbers",
            Default("off"),
            "numbers that come as texts: `plain`, with a decimal `comma`, with `units`, or `comma_units`",
        ),
        key("time", Required, "where the event time comes from; see `streams.time`; or a list of such tables"),
        key(
            "group",
            Optional,
            "captures and text that make the label of the device's group, such as `{site}`; for scope and key `group`",
        ),
        key(
            "watermark",
            Default("bounded"),
            "how it follows the records: `bounded`, `monotonic` (without disorder), `adaptive`, `punctuated`, or \
             `processing` (our clock)",
        ),
        key("disorder", Default("5s"), "`bounded`: how much later than a newer record an older one may come"),
        key(
            "quantile",
            Default("0.99"),
            "`adaptive`: this part of a device's records is waited for; above 0.5, up to 1",
        ),
        key("floor", Default("0s"), "`adaptive`: the measured disorder is never taken to be below"),
        key("ceiling", Default("1m"), "`adaptive`: nor above; and this until 100 records were measured"),
        key("marker", Derived("required with `punctuated`"), "name of the field that is the mark when it is not zero"),
        key("delay", Default("5s"), "`processing`: how far behind our clock the watermark is"),
        key("idle_timeout", Default("60s"), "silence after which a device is idle, or `off`"),
        key(
            "scope",
            Default("device"),
            "`device`: each its own watermark; `group`, `stream`: the lowest of all that are not idle; `shared`: the \
             highest",
        ),
        key(
            "resume",
            Default("catch_up"),
            "scopes `group` and `stream`, a device that comes back behind: `catch_up` before it counts, or `hold` the rest",
        ),
        key(
            "max_lag",
            Optional,
            "as above, a device that is further behind the leading one is not waited for; or `off`",
        ),
        key("all_idle", Default("advance"), "as above, with all idle: `advance` to the highest (Flink 2.2), or `stay`"),
        key(
            "on_idle",
            Default("emit"),
            "`emit` open windows of an idle device as they are, `hold` them, or `close` them (scope `device`)",
        ),
        key("max_future", Default("5m"), "records further ahead of our clock are set aside; or `off`"),
        key("min_time", Default("2000-01-01T00:00:00Z"), "earlier times are no times (RFC 3339); or `off`"),
        key("devices_max", Default("10000"), "records of further devices are rejected; 1 to 100000"),
        key(
            "state_ttl",
            Default("off"),
            "silence after which the state of a device is freed, and its place is another's; or `off`",
        ),
        key("dedup", Default("off"), "readings that come twice count once; see `streams.dedup`"),
        key(
            "records",
            Derived("`off` with windows, else `arrival`"),
            "pass single readings on: `off`, on `arrival`, or `ordered` by event time",
        ),
        key("ordered_max", Default("10000"), "readings that may wait for `records = \"ordered\"`; 1 to 100000"),
        key("windows", Optional, "`[[streams.windows]]`; without any, readings are passed on as they are"),
    ],
};

/// `time` of a stream.
pub static TIME: Section = Section {
    title: "streams.time",
    keys: &[
        key(
            "source",
            Derived("`field`"),
            "`field`; `receive`: our clock when the message arrived; `payload`: the time that the format itself gives",
        ),
        key(
            "field",
            Derived("required, but for `source`"),
            "JSON Pointer of the time, or a list: the first that is there",
        ),
        key("unit", Derived("either `unit` or `format`"), "`s`, `ms`, `us` or `ns` since 1970"),
        key(
            "format",
            Derived("either `unit` or `format`"),
            "`rfc3339`, with an offset; `iso`, without one too; or a pattern such as `%d.%m.%Y %H:%M:%S`",
        ),
        key("zone", Optional, "whose clock a time without an offset shows, such as `Europe/Berlin`"),
        key("gap", Default("reject"), "a local time that the clocks skip: `reject`, or `forward` by as much"),
        key("overlap", Default("earlier"), "a local time that comes twice: the `earlier` or the `later`"),
        key("missing", Default("reject"), "no time there: `reject` the record, or take the time of `receive`"),
        key("bad", Default("reject"), "unreadable, or before `min_time`: `reject` or `receive`"),
    ],
};

/// `dedup` of a stream.
pub static DEDUP: Section = Section {
    title: "streams.dedup",
    keys: &[
        key("sequence", Derived("either `sequence` or `by`"), "the field that numbers the readings of a device"),
        key(
            "by",
            Derived("either `sequence` or `by`"),
            "`time_and_values`: the same time and values are the same reading",
        ),
        key(
            "horizon",
            Derived("`128`, or what 2 MiB hold for `devices_max`"),
            "readings remembered per device, 1 to 1024",
        ),
    ],
};

/// A field of a stream that is more than a JSON Pointer.
pub static FIELD: Section = Section {
    title: "streams.fields",
    keys: &[
        key("pointer", Required, "JSON Pointer of the value, or a list: the first that is there counts"),
        key("type", Default("number"), "`number`, or `state`: text, bools and integers as words"),
        key("scale", Optional, "numbers are multiplied by this,"),
        key("offset", Optional, "and this is added"),
        key("min", Optional, "numbers below, so scaled, are left out and counted"),
        key("max", Optional, "the same for those above"),
    ],
};

/// `raw` of a stream.
pub static RAW: Section = Section {
    title: "streams.raw",
    keys: &[
        key("field", Default("value"), "how the value is called: text and captures of the topic; `/` makes levels"),
        key("words", Optional, "words that stand for numbers: `{ ON = 1, OFF = 0 }`; in either case"),
        key("missing", Derived("`nan`, `null`, `none`, `unavailable`, `unknown`, …"), "words for no value"),
    ],
};

/// `csv` of a stream.
pub static CSV: Section = Section {
    title: "streams.csv",
    keys: &[
        key("columns", Derived("the first line of every payload"), "names of the columns, in order"),
        key("separator", Default(","), "between the cells: one character"),
    ],
};

/// A label of a stream that is more than a text.
pub static LABEL: Section = Section {
    title: "streams.labels",
    keys: &[
        key("from", Required, "what makes the text, as for `device`"),
        key("map", Optional, "what the texts stand for: `{ pump-7 = \"north\" }`"),
        key("default", Optional, "for a text that `map` does not have, or that is not there"),
    ],
};

/// `[[streams.availability]]`.
pub static AVAILABILITY: Section = Section {
    title: "streams.availability",
    keys: &[
        key("topic", Required, "in the notation of the stream's `topic`"),
        key("device", Derived("`{device}` when the topic captures it"), "whom it is about"),
        key("below", Optional, "instead: all devices whose id begins with this; without both, all of the stream"),
        key("field", Optional, "where the word is when the payload is JSON"),
        key("online", Derived("`online`"), "a word, or a list: they are there"),
        key("offline", Derived("`offline`"), "a word, or a list: they are not"),
    ],
};

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

/// `[[joins]]`.
pub static JOIN: Section = Section {
    title: "[[joins]]",
    keys: &[
        key("name", Required, "unique among the joins"),
        key(
            "windows",
            Derived("either this, or `left` and `right`"),
            "window join: 2 to 8 of `stream/window`, alike but for aggregates and lateness",
        ),
        key(
            "mode",
            Derived("`inner`"),
            "of a window join: `inner` needs every side, `outer` makes a row without those that are missing",
        ),
        key("left", Derived("see `windows`"), "interval join: a stream"),
        key("right", Derived("see `windows`"), "and another one"),
        key("after", Derived("`0s`"), "how much later than a left record a right one may be; may be negative"),
        key("before", Derived("`0s`"), "how much earlier; may be negative"),
        key("key", Derived("`device`"), "of an interval join: records of the same `device`, or of the same `group`"),
        key("ttl", Default("10m"), "longest wait for a side that does not come, 1s to 366d"),
    ],
};

/// `late_updates` of a window, as a table.
pub static LATE_UPDATES: Section = Section {
    title: "streams.windows.late_updates",
    keys: &[key("every", Required, "a revision comes at most this long after the first late record in it")],
};

/// All tables, in the order of the documentation.
pub static SECTIONS: [&Section; 20] = [
    &ROOT,
    &GATEWAY,
    &BROKER,
    &UPLINK_ONLY,
    &STORAGE,
    &OUTBOX,
    &OUTBOX_LANE,
    &CONTROL,
    &LOCAL,
    &STREAM,
    &LABEL,
    &AVAILABILITY,
    &RAW,
    &CSV,
    &FIELD,
    &TIME,
    &DEDUP,
    &WINDOW,
    &LATE_UPDATES,
    &JOIN,
];

impl Section {
    /// The key of that name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// All keys as a Markdown table.
pub fn reference() -> String {
    let mut out = String::from("| table | key | default | says |\n|---|---|---|---|\n");
    for section in SECTIONS.iter().skip(1) {
        for key in section.keys {
            let default = match key.need {
                Required => "required".to_owned(),
                Optional => "none".to_owned(),
                Default(text) => format!("`{text}`"),
                Derived(text) => text.to_owned(),
            };
            writeln!(out, "| `{}` | `{}` | {default} | {} |", section.title, key.name, key.about)
                .expect("writing to a string cannot fail");
        }
    }
    out
}
