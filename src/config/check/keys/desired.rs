//! The document that is sent over MQTT: what is to be, in tables of the file.

use core::ops::RangeInclusive;

use super::Need::{Default, Required};
use super::shape::{duration, integer};
use super::{JOINS_KEY, Key, Need, OUTBOX_KEY, STREAMS_KEY, Section, UPLINK_KEY, key};
use crate::model::time::Span;

/// Versions count up.
pub const VERSION: RangeInclusive<usize> = 1..=usize::MAX;
/// Long enough for a slow link to answer, short enough for a mistake to be noticed.
pub const TRIAL: RangeInclusive<Span> = Span::from_secs(10)..=Span::from_secs(3_600);

/// The document.
pub static DESIRED: Section = Section {
    id: "",
    title: "(desired)",
    keys: &[
        key("version", Required, integer(&VERSION, ""), "7", "number of this document, from 1"),
        key(
            "trial",
            Default("120s"),
            duration(&TRIAL),
            "'5m'",
            "how long it may take until a status is acknowledged under it, 10s to 1h; then the one before it is back",
        ),
        instead(STREAMS_KEY),
        instead(JOINS_KEY),
        instead(OUTBOX_KEY),
        instead(UPLINK_KEY),
    ],
    cases: &[],
};

/// A table of the file: present, it takes the place of the file's, and absent, that one stays.
const fn instead(key: Key) -> Key {
    Key { need: Need::Derived("that of the file, which it replaces as a whole"), ..key }
}
