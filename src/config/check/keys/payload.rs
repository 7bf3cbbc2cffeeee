//! Keys of the tables in `[[streams]]` that say what payloads and topics mean.

use super::Need::{Default, Derived, Optional, Required};
use super::forms::{ANYTHING, ANYTHING_FORM, BOOL, LABEL_TEXT, NAME, NUMBER, POINTER, TEXT, TOPIC, bounded, pattern};
use super::shape::{Form, Shape, case, integer, list, map, one_or_more};
use super::{Section, key};
use crate::config::check::format::WORDS_MAX;
use crate::model::limits::{
    ALIASES_MAX, DEDUP_HORIZON_MAX, FIELDS_MAX, LABEL_MAP_MAX, NAME_BYTES, TIME_CANDIDATES_MAX, TOPICS_MAX,
};

/// `time` of a stream.
pub static TIME: Section = Section {
    id: "time",
    title: "streams.time",
    keys: &[
        key(
            "source",
            Derived("`field`"),
            Shape::Words("field receive payload"),
            "'receive'",
            "`field`; `receive`: our clock when the message arrived; `payload`: the time that the format itself gives",
        ),
        key(
            "field",
            Derived("required, but for `source`"),
            one_or_more(&POINTER, TIME_CANDIDATES_MAX),
            "'/ts'",
            "JSON Pointer of the time, or a list: the first that is there",
        ),
        key(
            "unit",
            Derived("either `unit` or `format`"),
            Shape::Words("s ms us ns"),
            "'ms'",
            "`s`, `ms`, `us` or `ns` since 1970",
        ),
        key(
            "format",
            Derived("either `unit` or `format`"),
            Shape::AnyOf(&[Shape::Words("rfc3339 iso"), Shape::Text(&TIME_PATTERN)]),
            "'rfc3339'",
            "`rfc3339`, with an offset; `iso`, without one too (and numbers, with a `unit`); or a pattern such as `%d.%m.%Y %H:%M:%S`",
        ),
        key(
            "zone",
            Optional,
            TEXT,
            "'Europe/Berlin'",
            "whose clock a time without an offset shows, such as `Europe/Berlin`",
        ),
        key(
            "gap",
            Default("reject"),
            Shape::Words("reject forward"),
            "'forward'",
            "a local time that the clocks skip: `reject`, or `forward` by as much",
        ),
        key(
            "overlap",
            Default("earlier"),
            Shape::Words("earlier later"),
            "'later'",
            "a local time that comes twice: the `earlier` or the `later`",
        ),
        key(
            "missing",
            Default("reject"),
            FALLBACK,
            "'receive'",
            "no time there: `reject` the record, or take the time of `receive`",
        ),
        key("bad", Default("reject"), FALLBACK, "'receive'", "unreadable, or before `min_time`: `reject` or `receive`"),
    ],
    cases: &[case(&["source"], &[]), case(&["field", "unit"], &[]), case(&["field", "format"], &[])],
};

static TIME_PATTERN: Form = pattern("%");
const FALLBACK: Shape = Shape::Words("reject receive");

/// `dedup` of a stream.
pub static DEDUP: Section = Section {
    id: "dedup",
    title: "streams.dedup",
    keys: &[
        key(
            "sequence",
            Derived("either `sequence` or `by`"),
            NAME,
            "'seq'",
            "the field that numbers the readings of a device",
        ),
        key(
            "by",
            Derived("either `sequence` or `by`"),
            Shape::Words("time_and_values"),
            "'time_and_values'",
            "`time_and_values`: the same time and values are the same reading",
        ),
        key(
            "horizon",
            Derived("`128`, or what 2 MiB hold for `devices_max`"),
            integer(&(1..=DEDUP_HORIZON_MAX), "readings"),
            "64",
            "readings remembered per device, 1 to 1024",
        ),
    ],
    cases: &[case(&["sequence"], &["by"]), case(&["by"], &["sequence"])],
};

/// A field of a stream that is more than a JSON Pointer.
pub static FIELD: Section = Section {
    id: "field",
    title: "streams.fields",
    keys: &[
        key(
            "pointer",
            Required,
            one_or_more(&POINTER, ALIASES_MAX),
            "['/temperature', '/temp']",
            "JSON Pointer of the value, or a list: the first that is there counts",
        ),
        key(
            "type",
            Default("number"),
            Shape::Words("number state"),
            "'state'",
            "`number`, or `state`: text, bools and integers as words",
        ),
        key("scale", Optional, NUMBER, "0.1", "numbers are multiplied by this"),
        key("offset", Optional, NUMBER, "-40", "added to numbers, after `scale`"),
        key("min", Optional, NUMBER, "-50", "numbers below, so scaled, are left out and counted"),
        key("max", Optional, NUMBER, "150.5", "numbers above, so scaled, are left out and counted"),
    ],
    cases: &[],
};

/// `raw` of a stream.
pub static RAW: Section = Section {
    id: "raw",
    title: "streams.raw",
    keys: &[
        key(
            "field",
            Default("value"),
            TEXT,
            "'{metric}'",
            "how the value is called: text and captures of the topic; `/` makes levels",
        ),
        key(
            "words",
            Optional,
            map(&ANYTHING_FORM, &NUMBER, 0, WORDS_MAX),
            "{ ON = 1, OFF = 0 }",
            "words that stand for numbers: `{ ON = 1, OFF = 0 }`; in either case",
        ),
        key("json", Default("false"), BOOL, "true", "`true`: payloads that are JSON objects are read as such"),
        key(
            "missing",
            Derived("`nan`, `null`, `none`, `unavailable`, `unknown`, …"),
            Shape::OneOrMore { item: &ANYTHING, min: 0, max: WORDS_MAX },
            "['n/a', '-']",
            "words for no value",
        ),
    ],
    cases: &[],
};

/// `csv` of a stream.
pub static CSV: Section = Section {
    id: "csv",
    title: "streams.csv",
    keys: &[
        key(
            "columns",
            Derived("the first line of every payload"),
            list(&COLUMN, 1, 4 * FIELDS_MAX),
            "['time', 'temperature']",
            "names of the columns, in order",
        ),
        key("separator", Default(","), Shape::Text(&SEPARATOR), "';'", "between the cells: one character"),
    ],
    cases: &[],
};

/// A column that nobody wants has no name.
const COLUMN: Shape = Shape::Text(&COLUMN_FORM);
static COLUMN_FORM: Form = bounded(0, NAME_BYTES, "");
/// ASCII, no quote and no line break.
static SEPARATOR: Form = bounded(1, 1, r"^[\x00-\x09\x0b\x0c\x0e-!#-\x7f]$");

/// A label of a stream that is more than a text.
pub static LABEL: Section = Section {
    id: "label",
    title: "streams.labels",
    keys: &[
        key("from", Required, TEXT, "'{/model}'", "what makes the text, as for `device`"),
        key(
            "map",
            Optional,
            map(&ANYTHING_FORM, &LABEL_TEXT, 1, LABEL_MAP_MAX),
            "{ pump-7 = 'north' }",
            "what the texts stand for: `{ pump-7 = \"north\" }`",
        ),
        key("default", Optional, LABEL_TEXT, "'other'", "for a text that `map` does not have, or that is not there"),
    ],
    cases: &[],
};

/// `[[streams.availability]]`.
pub static AVAILABILITY: Section = Section {
    id: "availability",
    title: "[[streams.availability]]",
    keys: &[
        key("topic", Required, TOPIC, "'devices/{device}/online'", "in the notation of the stream's `topic`"),
        key("device", Derived("`{device}` when the topic captures it"), TEXT, "'{device}'", "whom it is about"),
        key(
            "below",
            Optional,
            TEXT,
            "'{device}.'",
            "instead of `device`: all devices whose id begins with this; without both, all of the stream",
        ),
        key("field", Optional, POINTER, "'/state'", "where the word is when the payload is JSON"),
        key("online", Derived("`online`"), WORDS, "['online', 'up']", "a word, or a list: they are there"),
        key("offline", Derived("`offline`"), WORDS, "'down'", "a word, or a list: they are not there"),
    ],
    cases: &[case(&[], &["device"]), case(&[], &["below"])],
};

const WORDS: Shape = one_or_more(&TEXT, TOPICS_MAX);
