//! Shapes that several keys have.

use crate::model::limits::{DEVICE_ID_BYTES, MQTT_NAME_BYTES, NAME_BYTES, SPAN_MAX, TOPICS_MAX};
use crate::model::time::Span;
use crate::model::topic::PATTERN_BYTES_MAX;

use super::super::SOCKET_PATH_BYTES;
use super::shape::{Form, Shape, duration, one_or_more};

const fn form(min: usize, max: usize, pattern: &'static str) -> Form {
    Form { min, max, pattern }
}

const ANY: usize = usize::MAX;
const PLAIN: &str = r"^[^\x00-\x1f\x7f]*$";

pub(super) static NAME_FORM: Form = form(1, NAME_BYTES, PLAIN);
pub(super) static ANYTHING_FORM: Form = form(0, ANY, "");
pub(super) static LABEL_NAME_FORM: Form = form(1, ANY, "^[A-Za-z0-9_]+$");
static TEXT_FORM: Form = form(1, ANY, "");
static PATH_FORM: Form = form(1, ANY, r"^[^\x00]*$");
static SOCKET_FORM: Form = form(1, SOCKET_PATH_BYTES, r"^[^\x00]*$");
static ID_FORM: Form = form(1, MQTT_NAME_BYTES, PLAIN);
static LABEL_FORM: Form = form(1, DEVICE_ID_BYTES, PLAIN);
static TOPIC_FORM: Form = form(1, PATTERN_BYTES_MAX, r"^[^#\x00]*$");
static POINTER_FORM: Form = form(1, ANY, "^(?:/(?:[^~/]|~[01])*)+$");

/// A name of ours: gateway, stream, window, field.
pub(super) const NAME: Shape = Shape::Text(&NAME_FORM);
/// Any text, and be it empty.
pub(super) const ANYTHING: Shape = Shape::Text(&ANYTHING_FORM);
/// Any text that is not empty.
pub(super) const TEXT: Shape = Shape::Text(&TEXT_FORM);
pub(super) const PATH: Shape = Shape::Text(&PATH_FORM);
pub(super) const SOCKET: Shape = Shape::Text(&SOCKET_FORM);
/// Of a client.
pub(super) const ID: Shape = Shape::Text(&ID_FORM);
/// The text of a label, which is as long as a device's id.
pub(super) const LABEL_TEXT: Shape = Shape::Text(&LABEL_FORM);
/// With captures.
pub(super) const TOPIC: Shape = Shape::Text(&TOPIC_FORM);
pub(super) const TOPICS: Shape = one_or_more(&TOPIC, TOPICS_MAX);
pub(super) const POINTER: Shape = Shape::Text(&POINTER_FORM);
pub(super) const BOOL: Shape = Shape::Bool;
/// Any finite number.
pub(super) const NUMBER: Shape = Shape::Number { min: f64::NEG_INFINITY, max: f64::INFINITY, above: false };
pub(super) const OFF: Shape = Shape::Words("off");
/// A duration, 0 too.
pub(super) const SPAN: Shape = duration(&(Span::ZERO..=SPAN_MAX));
/// A duration above 0.
pub(super) const POSITIVE: Shape = duration(&(Span::MILLI..=SPAN_MAX));
pub(super) const SPAN_OR_OFF: Shape = Shape::AnyOf(&[OFF, SPAN]);
pub(super) const POSITIVE_OR_OFF: Shape = Shape::AnyOf(&[OFF, POSITIVE]);

/// A text that only one key has.
pub(super) const fn pattern(pattern: &'static str) -> Form {
    form(1, ANY, pattern)
}

/// A text that only one key has, with a bound.
pub(super) const fn bounded(min: usize, max: usize, pattern: &'static str) -> Form {
    form(min, max, pattern)
}
