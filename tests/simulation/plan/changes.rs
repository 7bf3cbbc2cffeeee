//! The configuration of another day.

use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::spec::{FieldSpec, FieldsSpec, Records, Strategy, StreamSpec, WindowKind};
use tidegate::model::rng::Rng;
use tidegate::model::time::Span;

use super::{Plan, as_len, name, stream, window};

impl Plan {
    /// Another order of windows and fields, and perhaps a field that nobody sends.
    pub(crate) fn reorder(&mut self, rng: &mut Rng) {
        for stream in &mut self.spec.streams {
            if rng.chance(2) {
                stream.windows.reverse();
            }
            let FieldsSpec::Named(fields) = &mut stream.mapping.fields else { continue };
            fields.retain(|field| field.name.as_str() != "x");
            if rng.chance(2) {
                fields.reverse();
            }
            if rng.chance(2) {
                let place = as_len(rng.below(3));
                fields.insert(place, FieldSpec::number(name("x"), "/x"));
            }
        }
    }

    /// A change of what is computed. Returns what it is; `None`: there is none that can be.
    ///
    /// Joined streams stay as they are, and so do those with `state_ttl`: what a device
    /// that is gone may open again after such a change is more than one rule, and has its
    /// own tests. And so do those whose watermark follows the clock: how far it was when the
    /// agent stopped is not in the log.
    pub(crate) fn redefine(&mut self, rng: &mut Rng) -> Option<&'static str> {
        if !self.spec.joins.is_empty() {
            return None;
        }
        match rng.below(8) {
            0 if self.spec.streams.len() < 4 => {
                let added = stream::stream(rng, self.next_line, true);
                // What the plan says about all streams was decided without it.
                let fits = !matches!(added.records, Records::Ordered { .. }) && !follows_clock(&added);
                self.next_line += 1;
                fits.then(|| self.spec.streams.push(added))?;
                return Some("streams added");
            }
            1 if self.spec.streams.len() > 1 => {
                let place = as_len(rng.below(self.spec.streams.len() as u64));
                if follows_clock(&self.spec.streams[place]) {
                    return None;
                }
                self.spec.streams.remove(place);
                return Some("streams removed");
            }
            2 => {
                let place = as_len(rng.below(self.spec.streams.len() as u64));
                let carry_forward = stream::carry_forward(rng);
                let stream = &mut self.spec.streams[place];
                let before = core::mem::replace(&mut stream.carry_forward, carry_forward);
                return (before != carry_forward).then_some("values carried otherwise");
            }
            _ => {}
        }
        let place = as_len(rng.below(self.spec.streams.len() as u64));
        let next_window = &mut self.next_window;
        let stream = &mut self.spec.streams[place];
        if stream.state_ttl.is_some() || follows_clock(stream) {
            None
        } else {
            redefine_windows(stream, next_window, rng)
        }
    }
}

fn follows_clock(stream: &StreamSpec) -> bool {
    matches!(stream.watermark.strategy, Strategy::Processing { .. })
}

fn redefine_windows(stream: &mut StreamSpec, next_window: &mut u64, rng: &mut Rng) -> Option<&'static str> {
    let choice = rng.below(6);
    if choice == 0 && stream.windows.len() < 4 {
        let added = window::window(rng, *next_window, stream);
        *next_window += 1;
        stream.windows.push(added);
        return Some("windows added");
    }
    if stream.windows.is_empty() {
        return None;
    }
    let place = as_len(rng.below(stream.windows.len() as u64));
    let windows = stream.windows.len();
    let window = &mut stream.windows[place];
    match choice {
        1 if windows > 1 => {
            stream.windows.remove(place);
            Some("windows removed")
        }
        2 => {
            let missing: Vec<Kind> = Kind::ALL
                .iter()
                .copied()
                .filter(|kind| !window.aggregates.kinds.contains(kind))
                .filter(|kind| !window.late.is_backfill() || !kind.is_order_dependent())
                .collect();
            let mut kinds = window.aggregates.kinds.clone();
            kinds.push(*missing.get(as_len(rng.below(missing.len().max(1) as u64)))?);
            let (quantiles, bounds) = (shares(&window.aggregates), window.aggregates.histogram().to_vec());
            window.aggregates = Aggregates::of(&kinds).with_quantiles(&quantiles).with_histogram(&bounds);
            Some("aggregates added")
        }
        3 if window.aggregates.len() > 1 => {
            let mut kinds = window.aggregates.kinds.clone();
            kinds.pop();
            let (quantiles, bounds) = (shares(&window.aggregates), window.aggregates.histogram().to_vec());
            window.aggregates = Aggregates::of(&kinds).with_quantiles(&quantiles).with_histogram(&bounds);
            Some("aggregates removed")
        }
        4 => {
            window.lateness = window.lateness + Span::from_millis(rng.between(1, 10_000));
            Some("lateness grown")
        }
        5 => {
            window.kind = match window.kind {
                WindowKind::Tumbling { size, .. } => WindowKind::Tumbling { size: size + size, offset_ms: 0 },
                WindowKind::Sliding { size, slide, .. } => {
                    WindowKind::Sliding { size: size + slide, slide, offset_ms: 0 }
                }
                WindowKind::Session { gap, .. } => WindowKind::Session { gap: gap + gap, max_length: None },
                WindowKind::Calendar { .. } => return None,
            };
            Some("sizes changed")
        }
        _ => None,
    }
}

fn shares(aggregates: &Aggregates) -> Vec<f64> {
    aggregates.quantiles().iter().map(|quantile| quantile.share).collect()
}
