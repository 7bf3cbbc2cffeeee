//! Holds what came against what had to come. Each difference is a line for a person.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::super::receiver::Receiver;
use super::{Books, Content, Device, Stream, Window};
use crate::model::time::EventTime;

/// What is known of the times at which the gateway received messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveTimes {
    /// They are those that the books were told.
    Known,
    /// The gateway has a clock of its own: for devices without one, only what all their
    /// windows have together can be said.
    Unknown,
}

/// Stream, window, device and start.
type Place = (String, String, String, i64);

impl Books {
    /// Readings in all windows that have to stand at the cloud, each once per window.
    pub fn readings_shown(&self, times: ReceiveTimes) -> u64 {
        let devices = self.streams.values().flat_map(|stream| stream.devices.values());
        let shown = |device: &Device| {
            let exact = device.has_clock || times == ReceiveTimes::Known;
            let content = |window: &Window| {
                let standing = if exact { window.shown.as_ref() } else { Some(&window.now) };
                standing.map_or(0, |content| content.count)
            };
            device.windows.values().map(content).sum::<u64>()
        };
        devices.map(shown).sum()
    }

    /// The windows that stand at the cloud.
    pub fn check_windows(&self, receiver: &Receiver, times: ReceiveTimes) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut came: BTreeMap<Place, &Value> = receiver.panes().map(|(_, pane)| (place(pane), pane)).collect();
        for (system, stream) in &self.streams {
            for (name, device) in &stream.devices {
                let exact = device.has_clock || times == ReceiveTimes::Known;
                for ((window, start), expected) in device.windows.iter().filter(|_| exact) {
                    let place = ((*system).to_owned(), (*window).to_owned(), name.clone(), start.as_millis());
                    let pane = came.remove(&place);
                    let source = if device.has_clock { "device" } else { "receive" };
                    match (pane, &expected.shown) {
                        (None, None) => {}
                        (Some(pane), Some(shown)) => {
                            wrong.extend(content_of(pane).differences(shown).map(|what| format!("{place:?}: {what}")));
                            if pane["time_source"] != source {
                                wrong.push(format!("{place:?}: the time is not of the {source}"));
                            }
                        }
                        (Some(_), None) => wrong.push(format!("{place:?}: must not be there yet")),
                        (None, Some(_)) => wrong.push(format!("{place:?}: is missing")),
                    }
                }
                for window in self.rules.windows.iter().map(|(window, _)| *window).filter(|_| !exact) {
                    let (mut sum, mut expected) = (Content::default(), Content::default());
                    came.retain(|place, pane| {
                        let is_of = place.0 == *system && place.1 == window && place.2 == *name;
                        if is_of {
                            sum.merge(&content_of(pane));
                        }
                        !is_of
                    });
                    let of_window = device.windows.iter().filter(|((name, _), _)| *name == window);
                    of_window.for_each(|(_, content)| expected.merge(&content.now));
                    let differences = sum.differences(&expected);
                    wrong.extend(differences.map(|what| format!("all {window} of {name} of {system}: {what}")));
                }
            }
        }
        wrong.extend(came.keys().map(|place| format!("{place:?}: nobody expected it")));
        wrong
    }

    /// The readings that no window took.
    pub fn check_late(&self, receiver: &Receiver) -> Vec<String> {
        let mut came: Vec<Place> = receiver.late().map(late_place).collect();
        let of_stream = |(system, stream): (&&'static str, &Stream)| -> Vec<Place> {
            let owned = |(window, device, at): &(&'static str, String, EventTime)| {
                ((*system).to_owned(), (*window).to_owned(), device.clone(), at.as_millis())
            };
            stream.late.iter().map(owned).collect()
        };
        let mut expected: Vec<Place> = self.streams.iter().flat_map(of_stream).collect();
        came.sort();
        expected.sort();
        differences("late", &came, &expected)
    }

    /// The panes of some systems that came because their device fell idle, among all that
    /// came. Of devices without a clock: only where receive times are known.
    pub fn check_idle<'v>(
        &self,
        came: impl Iterator<Item = &'v Value>,
        times: ReceiveTimes,
        of: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let is_exact = |system: &str, device: &str| {
            let device = self.streams.get(system).and_then(|stream| stream.devices.get(device));
            of(system) && (times == ReceiveTimes::Known || device.is_some_and(|device| device.has_clock))
        };
        let idle = came.filter(|pane| pane["pane"] == "idle").map(|pane| (place(pane), pane["count"].as_u64()));
        let mut came: Vec<_> = idle.filter(|((system, _, device, _), _)| is_exact(system, device)).collect();
        let mut expected = Vec::new();
        for (system, stream) in &self.streams {
            for (window, device, start, count) in stream.idle.iter().filter(|(_, device, ..)| is_exact(system, device))
            {
                let place = ((*system).to_owned(), (*window).to_owned(), device.clone(), start.as_millis());
                expected.push((place, Some(*count)));
            }
        }
        came.sort();
        expected.sort();
        differences("idle", &came, &expected)
    }

    /// The counts in the status document of an engine.
    pub fn check_counts(&self, engine: &Value, times: ReceiveTimes) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut number = |what: String, came: &Value, expected: u64| {
            if came.as_u64().unwrap_or(0) != expected {
                wrong.push(format!("{what}: {came}, not {expected}"));
            }
        };
        number("unknown devices".to_owned(), &engine["unknown_devices"], self.unknown_devices);
        for (system, stream) in &self.streams {
            let status = engine["streams"].as_array().into_iter().flatten().find(|status| status["name"] == *system);
            let Some(status) = status else {
                wrong.push(format!("{system}: no such stream"));
                return wrong;
            };
            number(format!("devices of {system}"), &status["devices"], stream.devices.len() as u64);
            for what in
                ["received", "accepted", "rejected", "duplicate", "ignored", "filtered", "availability", "future"]
            {
                let expected = stream.counts.get(what).copied().unwrap_or(0);
                number(format!("{what} of {system}"), &status["ledger"][what], expected);
            }
            let reasons = status["ledger"]["rejected_by"].as_object().into_iter().flatten();
            let reasons = reasons.map(|(reason, _)| reason.as_str()).chain(stream.rejected.keys().copied());
            for reason in reasons.collect::<std::collections::BTreeSet<_>>() {
                let expected = stream.rejected.get(reason).copied().unwrap_or(0);
                number(format!("{reason} of {system}"), &status["ledger"]["rejected_by"][reason], expected);
            }
            for window in status["windows"].as_array().into_iter().flatten() {
                let name = window["name"].as_str().unwrap_or_default();
                let books = stream.windows.get(name);
                let expected = |what| books.and_then(|books| books.get(what)).copied().unwrap_or(0);
                let settled = expected("on_time") + expected("late_update") + expected("side_output");
                let alone_exact: &[&str] = &["accepted", "late_update", "side_output"];
                for what in alone_exact {
                    number(format!("{what} of {name} of {system}"), &window[*what], expected(what));
                }
                // What is over and what is open depends on when it was received.
                if times == ReceiveTimes::Known || stream.devices.values().all(|device| device.has_clock) {
                    number(format!("on_time of {name} of {system}"), &window["on_time"], expected("on_time"));
                    number(format!("open of {name} of {system}"), &window["open"], expected("accepted") - settled);
                }
            }
        }
        if engine["balanced"] != true {
            wrong.push("the books do not balance".to_owned());
        }
        wrong
    }
}

impl Content {
    fn merge(&mut self, other: &Content) {
        self.count += other.count;
        for (name, totals) in &other.fields {
            let mine = self.fields.entry(name.clone());
            mine.and_modify(|mine| {
                mine.count += totals.count;
                mine.sum += totals.sum;
                mine.min = mine.min.min(totals.min);
                mine.max = mine.max.max(totals.max);
            })
            .or_insert(*totals);
        }
    }

    fn differences(&self, expected: &Content) -> impl Iterator<Item = String> + use<> {
        let mut wrong = Vec::new();
        if self.count != expected.count {
            wrong.push(format!("{} readings, not {}", self.count, expected.count));
        }
        for (name, totals) in &expected.fields {
            if self.fields.get(name) != Some(totals) {
                wrong.push(format!("{name} is {:?}, not {totals:?}", self.fields.get(name)));
            }
        }
        wrong.extend(
            self.fields.keys().filter(|name| !expected.fields.contains_key(*name)).map(|name| format!("has {name}")),
        );
        wrong.into_iter()
    }
}

fn text(record: &Value, key: &str) -> String {
    record[key].as_str().unwrap_or_default().to_owned()
}

fn place(pane: &Value) -> Place {
    (text(pane, "stream"), text(pane, "window"), text(pane, "key"), pane["start_ms"].as_i64().unwrap_or(i64::MIN))
}

fn late_place(late: &Value) -> Place {
    (text(late, "stream"), text(late, "window"), text(late, "key"), late["event_ms"].as_i64().unwrap_or(i64::MIN))
}

/// What a pane says is in its window.
fn content_of(pane: &Value) -> Content {
    let number = |results: &Value, what: &str| results[what].as_f64().unwrap_or(f64::NAN);
    let field = |(name, results): (&String, &Value)| {
        let totals = crate::fleet::oracle::Totals {
            count: results["count"].as_u64().unwrap_or(0),
            sum: number(results, "sum"),
            min: number(results, "min"),
            max: number(results, "max"),
        };
        // A field that no reading of the window had is null throughout.
        (totals.count > 0).then(|| (name.clone(), totals))
    };
    let fields = pane["values"].as_object().into_iter().flatten().filter_map(field).collect();
    Content { count: pane["count"].as_u64().unwrap_or(0), fields }
}

/// What only one of two sorted lists has.
fn differences<T: Ord + core::fmt::Debug>(what: &str, came: &[T], expected: &[T]) -> Vec<String> {
    let mut counts = BTreeMap::<&T, i64>::new();
    for one in came {
        *counts.entry(one).or_default() += 1;
    }
    for one in expected {
        *counts.entry(one).or_default() -= 1;
    }
    let differs = counts.into_iter().filter(|(_, count)| *count != 0);
    differs.map(|(one, count)| format!("{what} {one:?}: {count:+}")).collect()
}
