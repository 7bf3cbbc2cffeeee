//! One decoded reading, and the reasons for which a message is none.

use super::ids::{FieldIx, StateIx};
use super::time::EventTime;

/// Where the event time of a record came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimeSource {
    /// The device said so.
    #[default]
    Device,
    /// The gateway's clock when the message arrived.
    Receive,
}

/// One reading of one device, borrowed from the message and the decoder's
/// buffers: nothing is allocated per record.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The device, verbatim.
    pub device: &'a str,
    /// The label of its group; empty without one.
    pub group: &'a str,
    /// Its event time.
    pub at: EventTime,
    /// Where `at` came from.
    pub source: TimeSource,
    /// Finite numbers by field; a field appears at most once.
    pub values: &'a [(FieldIx, f64)],
    /// Texts and bools of fields that are states; a field appears at most once, and not
    /// among the numbers.
    pub states: &'a [(FieldIx, StateIx)],
}

impl<'a> Record<'a> {
    /// A reading of numbers, with a time of its own, of a device in no group.
    pub fn new(device: &'a str, at: EventTime, values: &'a [(FieldIx, f64)]) -> Record<'a> {
        Record { device, group: "", at, source: TimeSource::Device, values, states: &[] }
    }
}

/// Why a message or a record was rejected. Counted per stream and reason.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum RejectReason {
    /// No bytes at all (on MQTT also: a retained message was cleared).
    Empty,
    /// More than `limits::PAYLOAD_BYTES_MAX`.
    TooLarge,
    /// Not JSON, or JSON cut short.
    NotJson,
    /// Nested deeper than `limits::PAYLOAD_DEPTH_MAX`.
    TooDeep,
    /// JSON, but not an object (or an array of objects) where one is expected.
    WrongShape,
    /// The device id is empty, too long or has control characters.
    BadDevice,
    /// The configured time field is not there, or null.
    MissingTime,
    /// The time is not a number or not in the configured format.
    BadTime,
    /// Earlier than `min_time`: a device without a clock, or a wrong unit.
    BeforeMinTime,
    /// No configured field holds a number, or a state where one is configured.
    NoValues,
    /// A configured field holds something that is not a number (or not a state).
    WrongType,
    /// A number too large for a 64-bit float.
    NotFinite,
    /// The stream has reached `devices_max`.
    TooManyDevices,
    /// A group is needed, and its label is empty, too long or has control characters.
    BadGroup,
    /// The stream has as many groups as it may have devices.
    TooManyGroups,
    /// Not in the configured format, or cut short. JSON has a reason of its own.
    NotInFormat,
    /// A checksum in the payload does not fit its bytes.
    BadChecksum,
    /// Sparkplug: a metric by an alias that no birth has named. A rebirth is asked for.
    UnknownAlias,
    /// The payload says that there is no value: `nan`, `unavailable`, null.
    MissingValue,
    /// No value is in its configured range.
    OutOfRange,
    /// The stream's `allow` and `deny` keep the device out.
    DeviceDenied,
    /// The filter, or every computed value, could not be calculated.
    Expression,
    /// On an availability topic, and neither of its words.
    BadAvailability,
    /// It has numbers, and the stream has as many fields as it can have.
    TooManyFields,
}

impl RejectReason {
    /// Every reason, for tables and documentation.
    pub const ALL: [RejectReason; 24] = [
        RejectReason::Empty,
        RejectReason::TooLarge,
        RejectReason::NotJson,
        RejectReason::TooDeep,
        RejectReason::WrongShape,
        RejectReason::BadDevice,
        RejectReason::MissingTime,
        RejectReason::BadTime,
        RejectReason::BeforeMinTime,
        RejectReason::NoValues,
        RejectReason::WrongType,
        RejectReason::NotFinite,
        RejectReason::TooManyDevices,
        RejectReason::BadGroup,
        RejectReason::TooManyGroups,
        RejectReason::NotInFormat,
        RejectReason::BadChecksum,
        RejectReason::UnknownAlias,
        RejectReason::MissingValue,
        RejectReason::OutOfRange,
        RejectReason::DeviceDenied,
        RejectReason::Expression,
        RejectReason::BadAvailability,
        RejectReason::TooManyFields,
    ];

    /// What it means, for a person.
    pub fn about(self) -> &'static str {
        match self {
            RejectReason::Empty => "there are no bytes",
            RejectReason::TooLarge => "there are more bytes than a payload may have",
            RejectReason::NotJson => "it is not JSON, or JSON cut short",
            RejectReason::TooDeep => "it is nested too deeply",
            RejectReason::WrongShape => {
                "an object or an array of objects was expected, or one value, or as many cells as there are columns"
            }
            RejectReason::BadDevice => "what makes the device id is not there, too long, or not printable",
            RejectReason::MissingTime => "the time is not there",
            RejectReason::BadTime => "the time is not in the configured format",
            RejectReason::BeforeMinTime => "the time is before `min_time`: a clock that is not set, or another unit",
            RejectReason::NoValues => "no field has a number, or a state where one is configured",
            RejectReason::WrongType => "the fields that are there are no numbers (or no states)",
            RejectReason::NotFinite => "the numbers are beyond a 64-bit float, or NaN",
            RejectReason::TooManyDevices => "the stream has reached `devices_max`",
            RejectReason::BadGroup => "the label of the group is not there, too long, or not printable",
            RejectReason::TooManyGroups => "the stream has as many groups as it may have devices",
            RejectReason::NotInFormat => "it is not in the configured format, or cut short",
            RejectReason::BadChecksum => "its checksum is that of other bytes",
            RejectReason::UnknownAlias => "its metrics are named by aliases that no birth has explained yet",
            RejectReason::MissingValue => "it says that there is no value",
            RejectReason::OutOfRange => "its values are outside the configured range",
            RejectReason::DeviceDenied => "`allow` or `deny` keeps the device out",
            RejectReason::Expression => "the `filter` has no answer for it",
            RejectReason::BadAvailability => "it is on an availability topic, and neither of its words",
            RejectReason::TooManyFields => "its fields are new, and the stream has 64 of them already",
        }
    }

    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            RejectReason::Empty => "empty",
            RejectReason::TooLarge => "too_large",
            RejectReason::NotJson => "not_json",
            RejectReason::TooDeep => "too_deep",
            RejectReason::WrongShape => "wrong_shape",
            RejectReason::BadDevice => "bad_device",
            RejectReason::MissingTime => "missing_time",
            RejectReason::BadTime => "bad_time",
            RejectReason::BeforeMinTime => "before_min_time",
            RejectReason::NoValues => "no_values",
            RejectReason::WrongType => "wrong_type",
            RejectReason::NotFinite => "not_finite",
            RejectReason::TooManyDevices => "too_many_devices",
            RejectReason::BadGroup => "bad_group",
            RejectReason::TooManyGroups => "too_many_groups",
            RejectReason::NotInFormat => "not_in_format",
            RejectReason::BadChecksum => "bad_checksum",
            RejectReason::UnknownAlias => "unknown_alias",
            RejectReason::MissingValue => "missing_value",
            RejectReason::OutOfRange => "out_of_range",
            RejectReason::DeviceDenied => "device_denied",
            RejectReason::Expression => "expression",
            RejectReason::BadAvailability => "bad_availability",
            RejectReason::TooManyFields => "too_many_fields",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_reasons_is_in_the_order_of_their_numbers() {
        for (index, reason) in RejectReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index, "{}", reason.as_str());
        }
    }
}
