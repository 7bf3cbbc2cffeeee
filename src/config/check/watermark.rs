//! The watermark of a stream: strategy, scope, idleness. A key that says nothing
//! beside the others is a problem: whoever wrote it expects something of it.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{AllIdle, FieldsSpec, OnIdle, Resume, Scope, Strategy, WatermarkSpec};
use crate::model::limits::{ADAPTIVE_DEVICES_MAX, SPAN_MAX};
use crate::model::time::Span;

use super::table::Table;
use super::{name, scalar};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Bounded,
    Monotonic,
    Adaptive,
    Punctuated,
    Processing,
}

/// The words for `watermark`, and the keys that say something with each.
const STRATEGIES: [(&str, Word, &[&str]); 5] = [
    ("bounded", Word::Bounded, &["disorder"]),
    ("monotonic", Word::Monotonic, &[]),
    ("adaptive", Word::Adaptive, &["quantile", "floor", "ceiling"]),
    ("punctuated", Word::Punctuated, &["marker"]),
    ("processing", Word::Processing, &["delay"]),
];

/// A span that may be off.
pub(super) const OFF: &str = "a duration such as \"60s\", or \"off\"";

/// The watermark of `stream`, whose values are in `fields`.
pub(super) fn check(stream: &Table<'_>, fields: Option<&FieldsSpec>, report: &mut Report) -> Option<WatermarkSpec> {
    let words = STRATEGIES.map(|(text, word, _)| (text, word));
    let chosen = stream.choice("watermark", &words, report);
    if let Some(word) = chosen {
        refuse_keys_of_others(stream, word, report);
    }
    let strategy = chosen.and_then(|word| strategy(stream, word, fields, report));
    let positive = |text: &str| scalar::span(text, Span::MILLI..=SPAN_MAX);
    let idle_timeout = stream.parsed("idle_timeout", OFF, report, |text| scalar::or_off(text, positive));
    let scope = scope(stream, chosen == Some(Word::Processing), report);
    let max_lag = match stream.get("max_lag") {
        Some(item) => item.parsed(OFF, report, |text| scalar::or_off(text, any_span)),
        None => Some(None),
    };
    let all_idle = stream.choice("all_idle", &[("advance", AllIdle::Advance), ("stay", AllIdle::Stay)], report);
    let watermark = WatermarkSpec {
        strategy: strategy?,
        idle_timeout: idle_timeout?,
        scope: scope?,
        max_lag: max_lag?,
        all_idle: all_idle?,
    };
    warn_of_endless_wait(stream, &watermark, report);
    Some(watermark)
}

/// The minimum over devices waits for each of them.
fn warn_of_endless_wait(stream: &Table<'_>, watermark: &WatermarkSpec, report: &mut Report) {
    let waits = matches!(watermark.scope, Scope::Group(_) | Scope::Stream(_));
    let mistyped = ["idle_timeout", "max_lag"].iter().any(|key| stream.means(key) && !stream.has(key));
    if waits && !mistyped && watermark.idle_timeout.is_none() && watermark.max_lag.is_none() {
        let wrong =
            Wrong::new("with scope \"group\" or \"stream\": one device that falls silent stops the windows of all");
        report.warn(&stream.spot_of("idle_timeout"), wrong.hint("a few times the usual interval, or a `max_lag`"));
    }
}

/// What to do with open windows of an idle device.
pub(super) fn on_idle(stream: &Table<'_>, watermark: Option<&WatermarkSpec>, report: &mut Report) -> Option<OnIdle> {
    let words = [("emit", OnIdle::Emit), ("hold", OnIdle::Hold), ("close", OnIdle::Close)];
    let on_idle = stream.choice("on_idle", &words, report);
    let is_shared = watermark.is_some_and(|watermark| watermark.scope != Scope::Device);
    if on_idle == Some(OnIdle::Close) && is_shared {
        let wrong = Wrong::new("closes the windows of one device, whose watermark here is that of others too");
        report.problem(&stream.spot_of("on_idle"), wrong.hint("scope = \"device\", or on_idle = \"emit\""));
    }
    on_idle
}

/// Each device is measured: that is bounded more tightly.
pub(super) fn check_devices_max(
    stream: &Table<'_>,
    watermark: Option<&WatermarkSpec>,
    devices_max: Option<usize>,
    report: &mut Report,
) {
    let each = watermark.is_some_and(|watermark| {
        matches!(watermark.strategy, Strategy::Adaptive { .. }) && watermark.scope != Scope::Shared
    });
    if each && devices_max.is_some_and(|devices| devices > ADAPTIVE_DEVICES_MAX) {
        let wrong = format!("must be at most {ADAPTIVE_DEVICES_MAX} with watermark = \"adaptive\"");
        let hint = "it measures each device; scope = \"shared\" measures all as one";
        report.problem(&stream.spot_of("devices_max"), Wrong::new(wrong).hint(hint));
    }
}

fn any_span(text: &str) -> Result<Span, Wrong> {
    scalar::span(text, Span::ZERO..=SPAN_MAX)
}

fn refuse_keys_of_others(stream: &Table<'_>, chosen: Word, report: &mut Report) {
    let is_chosen = |(_, word, _): &&(&str, Word, &[&str])| *word == chosen;
    let chosen = STRATEGIES.iter().find(is_chosen).map_or("", |(text, ..)| text);
    for (other, _, keys) in STRATEGIES.iter().filter(|strategy| !is_chosen(strategy)) {
        for key in keys.iter().filter(|key| stream.get(key).is_some()) {
            let wrong = Wrong::new(format!("says nothing with watermark = \"{chosen}\""));
            report.problem(&stream.spot_of(key), wrong.hint(format!("remove it, or watermark = \"{other}\"")));
        }
    }
}

fn strategy(stream: &Table<'_>, word: Word, fields: Option<&FieldsSpec>, report: &mut Report) -> Option<Strategy> {
    let span = |key, report: &mut Report| stream.parsed(key, scalar::DURATION, report, any_span);
    Some(match word {
        Word::Monotonic => Strategy::Bounded { disorder: Span::ZERO },
        Word::Adaptive => {
            let quantile = quantile(stream, report);
            let (floor, ceiling) = (span("floor", report), span("ceiling", report));
            if let (Some(floor), Some(ceiling)) = (floor, ceiling)
                && floor > ceiling
            {
                let wrong = Wrong::new(format!("must not be above `ceiling` ({})", scalar::show(ceiling)));
                report.problem(&stream.spot_of("floor"), wrong);
            }
            Strategy::Adaptive { quantile: quantile?, floor: floor?, ceiling: ceiling? }
        }
        Word::Punctuated => Strategy::Punctuated { field: marker(stream, fields, report)? },
        Word::Processing => Strategy::Processing { delay: span("delay", report)? },
        Word::Bounded => Strategy::Bounded { disorder: span("disorder", report)? },
    })
}

/// In parts of 10,000.
fn quantile(stream: &Table<'_>, report: &mut Report) -> Option<u32> {
    const PARTS: f64 = 10_000.0;
    let wrong = || {
        Wrong::new("must be a number above 0.5, up to 1, with at most four decimals")
            .hint("0.99: one record in a hundred may come later than the bound")
    };
    let read = |number: f64| {
        let parts = (number * PARTS).round();
        let exact = (parts / PARTS - number).abs() < 1e-9;
        // Within the range of the integer by the check before it.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "5,001 to 10,000")]
        (exact && parts > PARTS / 2.0 && number <= 1.0).then_some(parts as u32)
    };
    let Some(item) = stream.get("quantile") else {
        let parse = |text: &str| text.parse().ok().and_then(read).ok_or_else(wrong);
        return stream.parsed("quantile", "a number", report, parse);
    };
    let quantile = match item.value {
        Value::Float(number) => read(*number),
        Value::Integer(1) => read(1.0),
        Value::Integer(_) | Value::Text(_) | Value::Bool(_) | Value::Null | Value::List(_) | Value::Table(_) => None,
    };
    if quantile.is_none() {
        report.problem(&item.spot, wrong());
    }
    quantile
}

fn marker(stream: &Table<'_>, fields: Option<&FieldsSpec>, report: &mut Report) -> Option<crate::model::ids::Name> {
    let Some(item) = stream.get("marker") else {
        if !stream.means("marker") {
            let wrong = Wrong::new("is missing: watermark = \"punctuated\" needs the field that is the mark");
            report.problem(&stream.spot_of("marker"), wrong.hint("marker = \"end_of_batch\""));
        }
        return None;
    };
    let marker = item.parsed("a string", report, name)?;
    if let Some(FieldsSpec::Named(named)) = fields
        && !named.iter().any(|known| known.name == marker)
    {
        let wrong = Wrong::new("is none of the `fields`");
        report.problem(&item.spot, wrong.hint(format!("fields = {{ {marker} = \"/{marker}\", … }}")));
    }
    Some(marker)
}

fn scope(stream: &Table<'_>, follows_clock: bool, report: &mut Report) -> Option<Scope> {
    let resume = stream.choice("resume", &[("catch_up", Resume::CatchUp), ("hold", Resume::Hold)], report);
    let resume = resume.unwrap_or(Resume::CatchUp);
    let scopes = [
        ("device", Scope::Device),
        ("group", Scope::Group(resume)),
        ("stream", Scope::Stream(resume)),
        ("shared", Scope::Shared),
    ];
    let given = stream.get("scope").is_some();
    let scope = if follows_clock && !given { Some(Scope::Shared) } else { stream.choice("scope", &scopes, report) };
    if follows_clock && scope.is_some_and(|scope| scope != Scope::Shared) {
        let wrong = Wrong::new("must be \"shared\" with watermark = \"processing\": there is one clock");
        report.problem(&stream.spot_of("scope"), wrong.hint("remove it"));
    }
    if matches!(scope, Some(Scope::Device | Scope::Shared)) {
        for key in ["resume", "max_lag", "all_idle"] {
            if stream.get(key).is_some() {
                let wrong = Wrong::new("says nothing without scope \"stream\" or \"group\"");
                report.problem(&stream.spot_of(key), wrong.hint("remove it, or scope = \"stream\""));
            }
        }
    }
    scope
}
