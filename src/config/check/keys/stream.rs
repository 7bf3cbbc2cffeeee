//! Keys of `[[streams]]` and the tables in them, windows aside.

use super::Need::{Default, Derived, Optional, Required};
use super::{Section, key};

/// `[[streams]]`.
pub static STREAM: Section = Section {
    title: "[[streams]]",
    keys: &[
        key("name", Required, "unique among the streams"),
        key("preset", Optional, "keys for a kind of device, as far as they are not written here; see docs/devices.md"),
        key("topic", Required, "MQTT topic, or a list; levels may be `+`, `{name}`, or `{name...}`: one or more"),
        key(
            "ignore",
            Optional,
            "topics of those that are passed over, in the same notation; a later stream may have them",
        ),
        key(
            "device",
            Derived("`{device}` when the topic captures it, else required"),
            "what makes the device's id: text, captures, `{/pointer}` of the record, `{^/pointer}` of the payload, \
             `{*1}` of `explode`",
        ),
        key("allow", Optional, "only these devices; `*` stands for anything"),
        key("deny", Optional, "not these"),
        key("compute", Optional, "further fields, by name: `{ power = \"voltage * current\" }`; see docs/devices.md"),
        key("filter", Optional, "records for which this is false are passed over: `temperature > -40`"),
        key("labels", Optional, "texts that `group` and expressions may use; see `streams.labels`"),
        key("availability", Optional, "topics that say who is there; see `streams.availability`"),
        key(
            "format",
            Default("json"),
            "how payloads are written: `json`, `raw` (one value), `cbor`, `senml-json`, `senml-cbor`, `influx`, `csv`, \
             `teltonika`, `milesight`, `ruuvi`, `sparkplug-b`",
        ),
        key("model", Derived("`auto`"), "with `format = \"milesight\"`: the sensor, such as `em300-th`"),
        key("raw", Optional, "with `format = \"raw\"`; see `streams.raw`"),
        key("csv", Optional, "with `format = \"csv\"`; see `streams.csv`"),
        key(
            "explode",
            Optional,
            "where records of their own begin, such as `/readings/*`; `\"\"` is the payload itself",
        ),
        key("fields", Default("all"), "`all` numbers, or a table of names and JSON Pointers; see `streams.fields`"),
        key(
            "prefix",
            Optional,
            "`all`: names begin with this, made of captures of the topic; `/` makes levels; nothing where they are absent",
        ),
        key("fields_at", Optional, "`all`: below this JSON Pointer of the record only"),
        key("fields_except", Optional, "`all`: not what is at or below these JSON Pointers"),
        key(
            "text_numbers",
            Derived("`off`; with `csv`: `plain`"),
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
        key(
            "carry_forward",
            Default("off"),
            "for devices that send only what has changed: records are completed with the device's last values, as far \
             as these are not older than this, such as `1h`; or `off`",
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
            "`rfc3339`, with an offset; `iso`, without one too (and numbers, with a `unit`); or a pattern such as `%d.%m.%Y %H:%M:%S`",
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
        key("json", Default("false"), "`true`: payloads that are JSON objects are read as such"),
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
