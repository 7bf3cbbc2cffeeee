//! Every key there is: whether it is needed, its default, what it may be, an example, what it
//! says. The checker takes its defaults and its notion of "unknown key" from here, the README
//! quotes [`reference()`], and the JSON Schema is made of it, so they cannot drift apart.

use core::fmt::Write as _;

use crate::model::limits::{JOINS_MAX, MQTT_NAME_BYTES, RESERVE_BYTES, STREAMS_MAX};

use super::budget::{INTERVAL_MAX, WRITE_BUDGET};
use super::{COMMIT_INTERVAL, SNAPSHOT_INTERVAL};
use forms::{NAME, PATH, SOCKET};
use shape::{duration, list, size};

pub use brokers::{BROKER, LOCAL, UPLINK, UPLINK_ONLY};
pub use desired::DESIRED;
pub use join::JOIN;
pub use listener::{LISTENER, LISTENER_RULE};
pub use outbox::{OUTBOX, OUTBOX_LANE};
pub use payload::{AVAILABILITY, CSV, DEDUP, FIELD, LABEL, RAW, TIME};
pub use remote::REMOTE;
pub use shape::{Case, Form, Shape};
pub use stream::STREAM;
pub use window::{LATE_UPDATES, WINDOW};

mod brokers;
pub mod desired;
mod forms;
mod join;
mod listener;
mod outbox;
mod payload;
mod remote;
mod shape;
mod stream;
mod window;

/// Whether a key has to be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// It has to.
    Required,
    /// It has to, but for a replay or for the listener alone.
    ToRun,
    /// It may be absent, which means something of its own.
    Optional,
    /// Absent, it is as if this stood there.
    Default(&'static str),
    /// Absent, it follows from other keys as said here.
    Derived(&'static str),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Whether it has to be there.
    pub need: Need,
    /// What it may be.
    #[cfg(feature = "schema")]
    pub shape: Shape,
    /// What may stand there, in TOML.
    #[cfg(feature = "schema")]
    pub example: &'static str,
    /// What it says.
    pub about: &'static str,
}

/// One table of the document.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Its name in the JSON Schema; empty for a whole document.
    pub id: &'static str,
    /// As written in TOML.
    pub title: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
    /// It is as one of these says; empty: its keys stand for themselves.
    pub cases: &'static [Case],
}

#[cfg(feature = "schema")]
const fn key(name: &'static str, need: Need, shape: Shape, example: &'static str, about: &'static str) -> Key {
    Key { name, need, shape, example, about }
}

/// A gateway needs to know neither what may stand there nor how that looks.
#[cfg(not(feature = "schema"))]
const fn key(name: &'static str, need: Need, _: Shape, _: &'static str, about: &'static str) -> Key {
    Key { name, need, about }
}

use Need::{Default, Derived, Optional, Required, ToRun};

/// The document.
pub static ROOT: Section = Section {
    id: "",
    title: "(top)",
    keys: &[
        key("gateway", Required, Shape::Table(&GATEWAY), "{ id = 'gw-17' }", "who this gateway is"),
        key(
            "devices",
            Optional,
            Shape::Table(&BROKER),
            "{ broker = 'mqtt://127.0.0.1:1883' }",
            "the broker that the devices publish to; without it they connect to the agent: see `listener`",
        ),
        key(
            "listener",
            Derived("there is one when `devices` is absent"),
            Shape::Table(&LISTENER),
            "{ tcp = '127.0.0.1:1883' }",
            "where devices connect to the agent itself",
        ),
        UPLINK_KEY,
        key(
            "storage",
            ToRun,
            Shape::Table(&STORAGE),
            "{ path = '/var/lib/tidegate' }",
            "where state lives (not needed for `replay`)",
        ),
        OUTBOX_KEY,
        key(
            "control",
            Optional,
            Shape::Table(&CONTROL),
            "{ socket = '/run/tidegate/control.sock' }",
            "the control socket; without it there is none",
        ),
        key(
            "remote",
            Derived("the defaults of its keys"),
            Shape::Table(&REMOTE),
            "{ public_key = 'MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=' }",
            "configuration and commands over MQTT",
        ),
        key(
            "local",
            Optional,
            Shape::Table(&LOCAL),
            "{ retain = true }",
            "results on the devices' broker and to the listener's clients too; without it there are none",
        ),
        STREAMS_KEY,
        JOINS_KEY,
    ],
    cases: &[],
};

const UPLINK_KEY: Key = key(
    "uplink",
    ToRun,
    Shape::Table(&UPLINK),
    "{ broker = 'mqtts://cloud.example', ca_file = 'system' }",
    "the broker of the cloud (not needed for `replay`)",
);
const OUTBOX_KEY: Key = key(
    "outbox",
    Optional,
    Shape::Table(&OUTBOX),
    "{ max_bytes = '1GiB' }",
    "what is kept while the cloud is away, and how it is sent",
);
const STREAMS_KEY: Key = key(
    "streams",
    Optional,
    list(&STREAM_SHAPE, 0, STREAMS_MAX),
    "[{ name = 'climate', topic = 'devices/{device}/climate', time = { field = '/ts', unit = 'ms' } }]",
    "what is aggregated, and how",
);
const JOINS_KEY: Key = key(
    "joins",
    Optional,
    list(&JOIN_SHAPE, 0, JOINS_MAX),
    "[{ name = 'comfort', windows = ['climate/1m', 'power/1m'] }]",
    "what is joined across streams",
);
const STREAM_SHAPE: Shape = Shape::Table(&STREAM);
const JOIN_SHAPE: Shape = Shape::Table(&JOIN);

/// `[gateway]`.
pub static GATEWAY: Section = Section {
    id: "gateway",
    title: "[gateway]",
    keys: &[
        key("id", Required, NAME, "'gw-17'", "name of this gateway; first part of every outgoing topic and id"),
        key(
            "topic_prefix",
            Default("tidegate"),
            Shape::Text(&TOPIC_PREFIX),
            "'site-7/tidegate'",
            "first levels of the outgoing topics",
        ),
        key("encoding", Default("json"), ENCODING, "'cbor'", "of outgoing batches: `json` or `cbor`"),
    ],
    cases: &[],
};

/// Levels without wildcards, none empty, no `$` at the start.
static TOPIC_PREFIX: Form =
    forms::bounded(1, MQTT_NAME_BYTES, r"^[^$/+#\x00-\x1f\x7f][^/+#\x00-\x1f\x7f]*(?:/[^/+#\x00-\x1f\x7f]+)*$");
const ENCODING: Shape = Shape::Words("json cbor");

/// `[storage]`.
pub static STORAGE: Section = Section {
    id: "storage",
    title: "[storage]",
    keys: &[
        key("path", ToRun, PATH, "'/var/lib/tidegate'", "directory; made when missing"),
        key(
            "commit_interval",
            Default("1s"),
            duration(&COMMIT_INTERVAL),
            "'500ms'",
            "longest time from a message to its commit, 10ms to 1m",
        ),
        key(
            "write_budget",
            Optional,
            size(&WRITE_BUDGET),
            "'500MiB'",
            "bytes in 24 hours that the flash may be given, 1MiB to 1024GiB; commits wait where it takes that",
        ),
        key(
            "commit_interval_max",
            Default("30s"),
            duration(&INTERVAL_MAX),
            "'20s'",
            "how long they may wait for `write_budget`, up to 10m, not below `commit_interval`",
        ),
        key(
            "snapshot_interval",
            Default("120s"),
            duration(&SNAPSHOT_INTERVAL),
            "'60s'",
            "time between snapshots, up to 1d, not below `commit_interval`",
        ),
        key(
            "reserve",
            Default("32MiB"),
            size(&RESERVE_BYTES),
            "'64MiB'",
            "space that the outbox leaves free on the medium, 8MiB to 1GiB",
        ),
    ],
    cases: &[],
};

/// `[control]`.
pub static CONTROL: Section = Section {
    id: "control",
    title: "[control]",
    keys: &[key(
        "socket",
        Required,
        SOCKET,
        "'/run/tidegate/control.sock'",
        "path of a Unix socket, for `tidegate status` and `tidegate outbox`; at most 107 bytes",
    )],
    cases: &[],
};

/// All tables, in the order of the documentation.
pub static SECTIONS: [&Section; 23] = [
    &ROOT,
    &GATEWAY,
    &BROKER,
    &UPLINK_ONLY,
    &LISTENER,
    &LISTENER_RULE,
    &STORAGE,
    &OUTBOX,
    &OUTBOX_LANE,
    &CONTROL,
    &REMOTE,
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
                Required | ToRun => "required".to_owned(),
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
