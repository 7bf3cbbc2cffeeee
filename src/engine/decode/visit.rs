//! What a payload holds, told piece by piece: the language between the formats and the
//! rules of the stream.
//!
//! A format is a function from bytes to calls of [`Visit`]. It knows nothing of fields,
//! fallbacks, units or limits of a stream; the mapper (`mapper.rs`) knows nothing of
//! formats. Every payload is a tree of named members, like a JSON document:
//!
//! ```text
//! start_record                                       {
//!   member "temp" Number("18.4")                       "temp": 18.4,
//!   enter "io" · member "66" Int(13800) · leave        "io": { "66": 13800 },
//!   own_time At { digits: "1773480413", unit: s }      (beside the tree)
//! ```
//!
//! A format reports nothing that it has not understood, and may stop at any point with
//! the reason: then nothing of the payload counts. Where records are told apart without
//! being understood, as lines are, one can be rejected alone.

use crate::engine::spec::TimeUnit;
use crate::model::record::RejectReason;

/// One value that is no tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar<'p> {
    /// A number as text, in the syntax of JSON: digits of any length, read once, by whoever
    /// knows what they mean.
    Number(&'p str),
    /// A number of a binary format.
    Float(f64),
    /// An integer of a binary format.
    Int(i64),
    /// As [`Scalar::Int`], beyond its range too.
    Uint(u64),
    /// A text.
    Text(&'p str),
    /// A truth value.
    Bool(bool),
    /// Explicitly nothing: JSON's null, Sparkplug's `is_null`, "not available" of a sensor.
    Null,
    /// Something that is none of these and no number either, such as bytes.
    Opaque,
}

/// The time that a format itself gives a record, beside its members.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OwnTime<'p> {
    /// Digits of an epoch (no exponent needed, but allowed) in the unit that the format
    /// prescribes; the stream's configuration may say otherwise.
    Epoch(&'p str, TimeUnit),
    /// Milliseconds since 1970, of a binary format. Not checked for sense.
    Millis(i64),
    /// So many milliseconds before (negative) or after the message arrived: the device
    /// has no clock and counts back.
    Relative(i64),
}

/// Takes what a format finds.
pub trait Visit {
    /// A record begins; what follows is its. Formats that have one record call it once.
    fn start_record(&mut self);

    /// A tree below the present place. `false`: nothing below is of interest; the format
    /// may pass over it, and must not call `leave`.
    fn enter(&mut self, key: &str) -> bool;

    /// The end of the tree that `enter` has begun.
    fn leave(&mut self);

    /// The value of the present place.
    fn scalar(&mut self, value: Scalar<'_>);

    /// The present place holds a tree, which `enter` goes into: whoever wanted a value here
    /// finds none. Need not be called at the top of a record.
    fn tree(&mut self) {}

    /// The record's own time.
    fn own_time(&mut self, time: OwnTime<'_>);

    /// The record that has begun last is not usable, and only it: nothing of it counts, the
    /// others do. Called at its top and the last that is said of it. A format in which no
    /// record at all is usable returns the reason instead, so that the payload counts once.
    fn reject_record(&mut self, reason: RejectReason);

    /// The payload is about something else: that no record is told, or that one has no value
    /// of interest, is no mistake. Called before the records.
    fn nothing(&mut self) {}

    /// The names of all fields begin with this; its `/` are levels. Called before the records.
    fn name_below(&mut self, _levels: &str) {}

    /// A member that is no tree.
    fn member(&mut self, key: &str, value: Scalar<'_>) {
        if self.enter(key) {
            self.scalar(value);
            self.leave();
        }
    }
}

/// What every format is: all of it, or why there is nothing.
pub type Outcome = Result<(), RejectReason>;

/// A [`Visit`] that writes down what it is told, for the tests of the formats:
///
/// ```text
/// record @1773480413s temp=18.4 io.66=13800
/// rejected: wrong_shape
/// ```
#[cfg(test)]
pub(super) mod spy {
    use core::fmt::Write as _;

    use super::{Outcome, OwnTime, Scalar, Visit};
    use crate::model::record::RejectReason;

    #[derive(Default)]
    pub(in crate::engine::decode) struct Spy {
        text: String,
        path: Vec<String>,
    }

    /// What `format` makes of a payload, one record a line; or the reason's word.
    pub(in crate::engine::decode) fn told(format: impl FnOnce(&mut dyn Visit) -> Outcome) -> String {
        let mut spy = Spy::default();
        match format(&mut spy) {
            Ok(()) => spy.text,
            Err(reason) => format!("rejected: {}", reason.as_str()),
        }
    }

    impl Visit for Spy {
        fn start_record(&mut self) {
            assert!(self.path.is_empty(), "a record begins at the top");
            self.text.push_str(if self.text.is_empty() { "record" } else { "\nrecord" });
        }

        fn enter(&mut self, key: &str) -> bool {
            self.path.push(key.to_owned());
            true
        }

        fn leave(&mut self) {
            self.path.pop().expect("as many leaves as enters");
        }

        fn scalar(&mut self, value: Scalar<'_>) {
            let path = self.path.join(".");
            match value {
                Scalar::Number(digits) => write!(self.text, " {path}={digits}"),
                Scalar::Float(number) => write!(self.text, " {path}={number:?}"),
                Scalar::Int(number) => write!(self.text, " {path}={number}"),
                Scalar::Uint(number) => write!(self.text, " {path}={number}"),
                Scalar::Text(text) => write!(self.text, " {path}={text:?}"),
                Scalar::Bool(truth) => write!(self.text, " {path}={truth}"),
                Scalar::Null => write!(self.text, " {path}=null"),
                Scalar::Opaque => write!(self.text, " {path}=opaque"),
            }
            .expect("memory does not fail");
        }

        fn reject_record(&mut self, reason: RejectReason) {
            assert!(self.path.is_empty(), "a record ends at the top");
            let start = self.text.rfind("record").expect("a record has begun");
            self.text.truncate(start);
            self.text.push_str("rejected: ");
            self.text.push_str(reason.as_str());
        }

        fn own_time(&mut self, time: OwnTime<'_>) {
            match time {
                OwnTime::Epoch(digits, unit) => write!(self.text, " @{digits}{}", unit.as_str()),
                OwnTime::Millis(millis) => write!(self.text, " @{millis}ms"),
                OwnTime::Relative(millis) => write!(self.text, " @now{millis:+}ms"),
            }
            .expect("memory does not fail");
        }
    }
}
