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

pub use stream::{AVAILABILITY, CSV, DEDUP, FIELD, LABEL, RAW, STREAM, TIME};
pub use window::WINDOW;

pub use brokers::{BROKER, LOCAL, UPLINK, UPLINK_ONLY};
pub use listener::{LISTENER, LISTENER_RULE};

mod brokers;
mod listener;
mod stream;
mod window;

/// The document.
pub static ROOT: Section = Section {
    title: "(top)",
    keys: &[
        key("gateway", Required, "who this gateway is"),
        key(
            "devices",
            Optional,
            "the broker that the devices publish to; without it they connect to the agent: see `listener`",
        ),
        key("listener", Derived("there is one when `devices` is absent"), "where devices connect to the agent itself"),
        key("uplink", Required, "the broker of the cloud (not needed for `replay`)"),
        key("storage", Required, "where state lives (not needed for `replay`)"),
        key("outbox", Optional, "what is kept while the cloud is away, and how it is sent"),
        key("control", Optional, "the control socket; without it there is none"),
        key(
            "local",
            Optional,
            "results on the devices' broker and to the listener's clients too; without it there are none",
        ),
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
pub static SECTIONS: [&Section; 22] = [
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
