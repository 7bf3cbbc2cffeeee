//! The keys of `[outbox]`.

use super::Need::{Default, Optional};
use super::forms::pattern;
use super::shape::{Form, Shape, duration, integer, size};
use super::{Key, Section, key};
use crate::config::check::outbox::{AGE, BYTES, LANE_BYTES, PAYLOAD, RATE};
use crate::model::limits::{OUTBOX_BYTES, UPLINK_WINDOW};

/// `[outbox]`.
pub static OUTBOX: Section = Section {
    id: "outbox",
    title: "[outbox]",
    keys: &[
        key(
            "max_bytes",
            Default("256MiB"),
            size(&OUTBOX_BYTES),
            "'1GiB'",
            "what is kept while the cloud is away, 64KiB to 4GiB",
        ),
        key(
            "backlog_share",
            Default("50%"),
            Shape::Text(&PERCENT),
            "'20%'",
            "of the uplink, for what waited, while there is something new; 1% to 99%",
        ),
        key(
            "messages_per_second",
            Optional,
            integer(&RATE, "messages per second"),
            "50",
            "at most, 1 to 1000000; a message is a batch",
        ),
        key("bytes_per_second", Optional, size(&BYTES), "'100KiB'", "of payload, at most"),
        key(
            "bytes_per_day",
            Optional,
            size(&BYTES),
            "'20MiB'",
            "of payload (UTC); what waited stops at 80 %, alarms never",
        ),
        key("payload_max_bytes", Default("112KiB"), size(&PAYLOAD), "'64KiB'", "of one message, 4KiB to 896KiB"),
        key(
            "window",
            Default("32"),
            integer(&(1..=UPLINK_WINDOW), "messages"),
            "8",
            "messages without an acknowledgement, 1 to 32",
        ),
        lane("live", "results as they come: bounds of this lane; see `outbox.live`"),
        lane("update", "revisions of results: the same"),
        lane("backlog", "what waited: the same"),
        lane("late", "records beyond lateness: the same"),
    ],
    cases: &[],
};

const fn lane(name: &'static str, about: &'static str) -> Key {
    key(name, Optional, Shape::Table(&OUTBOX_LANE), "{ max_bytes = '64MiB', max_age = '7d' }", about)
}

/// A part of something, neither none nor all of it.
static PERCENT: Form = pattern(r"^\+?0*[1-9][0-9]?%$");

/// `[outbox.live]` and the other lanes.
pub static OUTBOX_LANE: Section = Section {
    id: "lane",
    title: "[outbox.live], [outbox.update], [outbox.backlog], [outbox.late]",
    keys: &[
        key(
            "max_bytes",
            Optional,
            size(&LANE_BYTES),
            "'64MiB'",
            "of this lane, from 64KiB; beyond it the oldest go, with a gap record",
        ),
        key(
            "max_age",
            Optional,
            duration(&AGE),
            "'7d'",
            "how long a record is kept while the agent runs, 10s to 366d; then it goes likewise",
        ),
    ],
    cases: &[],
};
