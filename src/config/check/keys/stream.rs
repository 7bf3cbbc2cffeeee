//! Keys of `[[streams]]`, the tables in them aside.

use super::Need::{Default, Derived, Optional, Required};
use super::forms::{
    LABEL_NAME_FORM, NAME, NAME_FORM, OFF, POINTER, POSITIVE_OR_OFF, SPAN, SPAN_OR_OFF, TEXT, TOPICS, pattern,
};
use super::payload::{AVAILABILITY, CSV, DEDUP, FIELD, LABEL, RAW, TIME};
use super::shape::{Case, Form, Shape, integer, list, map, one_or_more};
use super::window::WINDOW;
use super::{Section, key};
use crate::config::preset;
use crate::engine::decode::milesight::Model;
use crate::model::limits::{
    ALIASES_MAX, DEVICES_MAX, FIELDS_MAX, LABEL_MAP_MAX, LABELS_MAX, ORDERED_MAX, RECORD_PATTERNS_MAX,
    TIME_CANDIDATES_MAX, TOPICS_MAX, WINDOWS_MAX,
};

/// `[[streams]]`.
pub static STREAM: Section = Section {
    id: "stream",
    title: "[[streams]]",
    keys: &[
        key("name", Required, NAME, "'climate'", "unique among the streams"),
        key(
            "preset",
            Optional,
            Shape::Known(|| preset::ALL.iter().map(|preset| preset.name).collect()),
            "'tasmota'",
            "keys for a kind of device, as far as they are not written here; see docs/devices.md",
        ),
        key(
            "topic",
            Derived("required, but with `preset`"),
            TOPICS,
            "'devices/{device}/climate'",
            "MQTT topic, or a list; levels may be `+`, `{name}`, or `{name...}`: one or more",
        ),
        key(
            "ignore",
            Optional,
            TOPICS,
            "'devices/{device}/debug'",
            "topics of those that are passed over, in the same notation; a later stream may have them",
        ),
        key(
            "device",
            Derived("`{device}` when the topic captures it, else required"),
            TEXT,
            "'{device}'",
            "what makes the device's id: text, captures, `{/pointer}` of the record, `{^/pointer}` of the payload, \
             `{*1}` of `explode`",
        ),
        key("allow", Optional, DEVICES, "['boiler-*', 'pump-7']", "only these devices; `*` stands for anything"),
        key("deny", Optional, DEVICES, "'test-*'", "not these devices; `*` stands for anything"),
        key(
            "compute",
            Optional,
            map(&NAME_FORM, &TEXT, 0, usize::MAX),
            "{ power = 'voltage * current' }",
            "further fields, by name: `{ power = \"voltage * current\" }`; see docs/devices.md",
        ),
        key(
            "filter",
            Optional,
            TEXT,
            "'temperature > -40'",
            "records for which this is false are passed over: `temperature > -40`",
        ),
        key(
            "labels",
            Optional,
            map(&LABEL_NAME_FORM, &LABEL_SHAPE, 0, LABELS_MAX),
            "{ site = 'north', model = { from = '{/model}' } }",
            "texts that `group` and expressions may use; see `streams.labels`",
        ),
        key(
            "availability",
            Optional,
            list(&AVAILABILITY_SHAPE, 0, TOPICS_MAX),
            "[{ topic = 'devices/{device}/online' }]",
            "topics that say who is there; see `streams.availability`",
        ),
        key(
            "format",
            Default("json"),
            FORMATS,
            "'cbor'",
            "how payloads are written: `json`, `raw` (one value), `cbor`, `senml-json`, `senml-cbor`, `influx`, `csv`, \
             `teltonika`, `milesight`, `ruuvi`, `sparkplug-b`",
        ),
        key(
            "model",
            Derived("`auto`"),
            Shape::Known(|| Model::ALL.iter().map(|model| model.as_str()).collect()),
            "'em300-th'",
            "with `format = \"milesight\"`: the sensor, such as `em300-th`",
        ),
        key(
            "raw",
            Optional,
            Shape::Table(&RAW),
            "{ field = '{metric}' }",
            "with `format = \"raw\"`; see `streams.raw`",
        ),
        key("csv", Optional, Shape::Table(&CSV), "{ separator = ';' }", "with `format = \"csv\"`; see `streams.csv`"),
        key(
            "explode",
            Optional,
            one_or_more(&PLACE, RECORD_PATTERNS_MAX),
            "'/readings/*'",
            "where records of their own begin, such as `/readings/*`; `\"\"` is the payload itself",
        ),
        key(
            "fields",
            Default("all"),
            Shape::AnyOf(&[Shape::Words("all"), FIELDS]),
            "{ temperature = '/t', humidity = { pointer = '/h', max = 100 } }",
            "`all` numbers, or a table of names and JSON Pointers; see `streams.fields`",
        ),
        key(
            "prefix",
            Optional,
            TEXT,
            "'{channel}'",
            "`all`: names begin with this, made of captures of the topic; `/` makes levels; nothing where they are absent",
        ),
        key("fields_at", Optional, PLACE, "'/payload'", "`all`: below this JSON Pointer of the record only"),
        key(
            "fields_except",
            Optional,
            Shape::OneOrMore { item: &POINTER, min: 0, max: FIELDS_MAX },
            "['/ts', '/rssi']",
            "`all`: not what is at or below these JSON Pointers",
        ),
        key(
            "text_numbers",
            Derived("`off`; with `csv`: `plain`"),
            Shape::Words("off plain comma units comma_units"),
            "'units'",
            "numbers that come as texts: `plain`, with a decimal `comma`, with `units`, or `comma_units`; or `off`",
        ),
        key(
            "time",
            Derived("required, but with `preset`"),
            Shape::AnyOf(&[Shape::Part(&TIME), TIMES]),
            "{ field = '/ts', unit = 'ms' }",
            "where the event time comes from; see `streams.time`; or a list of such tables",
        ),
        key(
            "group",
            Optional,
            TEXT,
            "'{site}'",
            "captures and text that make the label of the device's group, such as `{site}`; for scope and key `group`",
        ),
        key(
            "watermark",
            Default("bounded"),
            Shape::Words("bounded monotonic adaptive punctuated processing"),
            "'adaptive'",
            "how it follows the records: `bounded`, `monotonic` (without disorder), `adaptive`, `punctuated`, or \
             `processing` (our clock)",
        ),
        key(
            "disorder",
            Default("5s"),
            SPAN,
            "'10s'",
            "`bounded`: how much later than a newer record an older one may come",
        ),
        key(
            "quantile",
            Default("0.99"),
            Shape::Number { min: 0.5, max: 1.0, above: true },
            "0.995",
            "`adaptive`: this part of a device's records is waited for; above 0.5, up to 1, at most four decimals",
        ),
        key("floor", Default("0s"), SPAN, "'1s'", "`adaptive`: the measured disorder is never taken to be below"),
        key(
            "ceiling",
            Default("1m"),
            SPAN,
            "'10m'",
            "`adaptive`: the measured disorder is never taken to be above; and this until 100 records were measured",
        ),
        key(
            "marker",
            Derived("required with `punctuated`"),
            NAME,
            "'end_of_batch'",
            "`punctuated`: name of the field that is the mark when it is not zero",
        ),
        key("delay", Default("5s"), SPAN, "'2s'", "`processing`: how far behind our clock the watermark is"),
        key("idle_timeout", Default("60s"), POSITIVE_OR_OFF, "'5m'", "silence after which a device is idle, or `off`"),
        key(
            "scope",
            Default("device"),
            Shape::Words("device group stream shared"),
            "'stream'",
            "`device`: each its own watermark; `group`, `stream`: the lowest of all that are not idle; `shared`: the \
             highest",
        ),
        key(
            "resume",
            Default("catch_up"),
            Shape::Words("catch_up hold"),
            "'hold'",
            "scopes `group` and `stream`, a device that comes back behind: `catch_up` before it counts, or `hold` the rest",
        ),
        key(
            "max_lag",
            Optional,
            SPAN_OR_OFF,
            "'1h'",
            "scopes `group` and `stream`: a device that is further behind the leading one is not waited for; or `off`",
        ),
        key(
            "all_idle",
            Default("advance"),
            Shape::Words("advance stay"),
            "'stay'",
            "scopes `group` and `stream`, with all idle: `advance` to the highest (Flink 2.2), or `stay`",
        ),
        key(
            "on_idle",
            Default("emit"),
            Shape::Words("emit hold close"),
            "'close'",
            "`emit` open windows of an idle device as they are, `hold` them, or `close` them (scope `device`)",
        ),
        key(
            "max_future",
            Default("5m"),
            SPAN_OR_OFF,
            "'1h'",
            "records further ahead of our clock are set aside; or `off`",
        ),
        key(
            "min_time",
            Default("2000-01-01T00:00:00Z"),
            Shape::AnyOf(&[OFF, Shape::Text(&MOMENT)]),
            "'2024-01-01T00:00:00Z'",
            "earlier times are no times (RFC 3339); or `off`",
        ),
        key(
            "devices_max",
            Default("10000"),
            integer(&(1..=DEVICES_MAX), "devices"),
            "500",
            "records of further devices are rejected; 1 to 100000",
        ),
        key(
            "state_ttl",
            Default("off"),
            POSITIVE_OR_OFF,
            "'30d'",
            "silence after which the state of a device is freed, and its place is another's; or `off`",
        ),
        key(
            "carry_forward",
            Default("off"),
            POSITIVE_OR_OFF,
            "'1h'",
            "for devices that send only what has changed: records are completed with the device's last values, as far \
             as these are not older than this, such as `1h`; or `off`",
        ),
        key(
            "dedup",
            Default("off"),
            Shape::AnyOf(&[OFF, Shape::Part(&DEDUP)]),
            "{ sequence = 'seq' }",
            "readings that come twice count once; see `streams.dedup`",
        ),
        key(
            "records",
            Derived("`off` with windows, else `arrival`"),
            Shape::Words("off arrival ordered"),
            "'ordered'",
            "pass single readings on: `off`, on `arrival`, or `ordered` by event time",
        ),
        key(
            "ordered_max",
            Default("10000"),
            integer(&(1..=ORDERED_MAX), "readings"),
            "2000",
            "readings that may wait for `records = \"ordered\"`; 1 to 100000",
        ),
        key(
            "windows",
            Optional,
            list(&WINDOW_SHAPE, 0, WINDOWS_MAX),
            "[{ name = '1m', size = '1m' }]",
            "`[[streams.windows]]`; without any, readings are passed on as they are",
        ),
    ],
    cases: &[
        Case { with: &["preset"], without: &[], whole: &[] },
        Case { with: &["topic", "time"], without: &["preset"], whole: &["time", "dedup"] },
    ],
};

const FORMATS: Shape =
    Shape::Words("json raw cbor senml-json senml-cbor influx csv teltonika milesight ruuvi sparkplug-b");
const DEVICES: Shape = one_or_more(&TEXT, LABEL_MAP_MAX);
const AVAILABILITY_SHAPE: Shape = Shape::Table(&AVAILABILITY);
const LABEL_SHAPE: Shape = Shape::AnyOf(&[TEXT, Shape::Table(&LABEL)]);
const FIELDS: Shape = map(&NAME_FORM, &FIELD_SHAPE, 1, FIELDS_MAX);
const FIELD_SHAPE: Shape = Shape::AnyOf(&[POINTERS, Shape::Table(&FIELD)]);
const POINTERS: Shape = one_or_more(&POINTER, ALIASES_MAX);
const TIMES: Shape = list(&TIME_SHAPE, 1, TIME_CANDIDATES_MAX);
const TIME_SHAPE: Shape = Shape::Table(&TIME);
const WINDOW_SHAPE: Shape = Shape::Table(&WINDOW);
/// A JSON Pointer in which `*` is any key, or the payload itself.
const PLACE: Shape = Shape::Text(&PLACE_FORM);
static PLACE_FORM: Form = super::forms::bounded(0, usize::MAX, "^(?:/(?:[^~/]|~[01])*)*$");
/// A date, with whatever jiff reads behind it.
static MOMENT: Form = pattern("^(?:[0-9]{4}|[-+][0-9]{6})");
