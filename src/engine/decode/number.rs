//! Numbers in texts.

use crate::engine::spec::NumberRules;

pub(super) fn text_number(text: &str, _rules: NumberRules) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
