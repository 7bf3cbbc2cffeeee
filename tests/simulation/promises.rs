//! What holds for each row of a lane as it comes, whatever the end will be: panes in their order,
//! none that was not asked for, readings in the order of their times.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::engine::spec::{LateUpdates, OnIdle, PipelineSpec, Records, Scope, Strategy, WindowKind, WindowSpec};
use tidegate::model::time::Span;

#[derive(Default)]
pub(crate) struct Promises {
    /// By stream and window.
    windows: BTreeMap<(String, String), Asked>,
    /// By stream: whether the order is that of each device.
    orders: BTreeMap<String, bool>,
    /// By lane and id: the last pane.
    last: BTreeMap<(String, String), Last>,
    /// Times of readings, by lane, stream and, where each has its own order, device.
    times: BTreeMap<(String, String, String), i64>,
}

/// What was ever asked for under that name.
#[expect(clippy::struct_excessive_bools, reason = "each was asked for on its own")]
struct Asked {
    now: WindowSpec,
    early: bool,
    r#final: bool,
    late: bool,
    idle: bool,
    closes: bool,
    is_session: bool,
    may_be_partial: bool,
}

struct Last {
    count: u64,
    fired: bool,
    ended: bool,
}

impl Promises {
    /// The configuration is this one from now on.
    pub(crate) fn follow(&mut self, spec: &PipelineSpec) {
        for (name, asked) in &mut self.windows {
            let stream = spec.streams.iter().find(|stream| stream.name.as_str() == name.0);
            let window = stream.and_then(|stream| stream.windows.iter().find(|window| window.name.as_str() == name.1));
            asked.may_be_partial |= window != Some(&asked.now);
        }
        for stream in &spec.streams {
            if matches!(stream.records, Records::Ordered { .. }) && !matches!(stream.watermark.scope, Scope::Group(_)) {
                self.orders.insert(stream.name.to_string(), stream.watermark.scope == Scope::Device);
            }
            // A watermark that follows the clock has passed windows before they have records.
            let by_clock = matches!(stream.watermark.strategy, Strategy::Processing { .. });
            for window in &stream.windows {
                let name = (stream.name.to_string(), window.name.to_string());
                let asked = self.windows.entry(name).or_insert_with(|| Asked::nothing(window));
                asked.now = window.clone();
                // An update that waits in a session that grows back is shown as an early pane.
                let is_session = matches!(window.kind, WindowKind::Session { .. });
                asked.early |= window.early.is_some() || is_session && window.late_updates != LateUpdates::Each;
                asked.r#final |= window.final_pane;
                asked.late |= window.lateness > Span::ZERO || by_clock;
                asked.idle |= stream.on_idle != OnIdle::Hold;
                asked.closes |= stream.on_idle == OnIdle::Close;
                asked.is_session |= is_session;
            }
        }
    }

    pub(crate) fn check_pane(&mut self, record: &Value) -> Result<(), String> {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let asked = self.windows.get(&(text("stream"), text("window"))).ok_or("a pane of an unknown window")?;
        if record["partial"] != false && !asked.may_be_partial {
            return Err("partial, although nothing was lost".to_owned());
        }
        let (kind, count) = (text("pane"), record["count"].as_u64().unwrap_or(0));
        let is_asked = match kind.as_str() {
            "early" => asked.early,
            "idle" => asked.idle,
            "on_time" => true,
            // A session that has grown back may need one to end.
            "late" => asked.late,
            "final" => asked.r#final,
            _ => false,
        };
        if !is_asked {
            return Err(format!("nobody has asked for a pane {kind}"));
        }
        let fires = matches!(kind.as_str(), "on_time" | "late" | "final") || kind == "idle" && asked.closes;
        let last = self.last.entry((text("lane"), text("id"))).or_insert(Last { count: 0, fired: false, ended: false });
        if last.ended {
            return Err("a pane after the final one".to_owned());
        }
        if count < last.count {
            return Err(format!("fewer records than before, {}", last.count));
        }
        // A session that grows beyond the watermark is open again.
        if last.fired && !asked.is_session && !matches!(kind.as_str(), "late" | "final") {
            return Err(format!("a pane {kind} of a window that had fired"));
        }
        *last = Last { count, fired: fires, ended: kind == "final" };
        Ok(())
    }

    pub(crate) fn check_reading(&mut self, record: &Value) -> Result<(), String> {
        let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
        let Some(by_device) = self.orders.get(&text("stream")) else { return Ok(()) };
        let device = if *by_device { text("key") } else { String::new() };
        let at = record["event_ms"].as_i64().ok_or("no time")?;
        let last = self.times.entry((text("lane"), text("stream"), device)).or_insert(at);
        if at < *last {
            return Err(format!("a reading before one of {last} that came first"));
        }
        *last = at;
        Ok(())
    }
}

impl Asked {
    fn nothing(window: &WindowSpec) -> Asked {
        Asked {
            now: window.clone(),
            early: false,
            r#final: false,
            late: false,
            idle: false,
            closes: false,
            is_session: false,
            may_be_partial: false,
        }
    }
}
