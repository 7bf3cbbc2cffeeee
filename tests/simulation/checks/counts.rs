//! The books against the oracle; and what the checks had to check.

use tidegate::engine::outbox::LaneKind;
use tidegate::engine::spec::{
    AllIdle, DedupBy, KeySpec, OnIdle, Records, Resume, Scope, Strategy, StreamSpec, WindowKind, WindowSpec,
};
use tidegate::model::time::Span;

use crate::oracle::{Books, Cell, Oracle, PassedOn, WindowBooks};
use crate::process::World;

impl World {
    /// The books are those of the oracle.
    pub(super) fn check_streams(&self, oracle: &Oracle) -> Result<(), String> {
        for stream in self.status().streams {
            let ledger = &stream.ledger;
            let passed_on = stream.records.as_ref().map_or(PassedOn::default(), |books| PassedOn {
                accepted: books.accepted,
                open: books.open,
                on_time: books.on_time,
                early: books.early,
                side_output: books.side_output,
            });
            let windows = stream.windows.iter().map(|window| {
                let books = WindowBooks {
                    accepted: window.accepted,
                    side_output: window.side_output,
                    backfilled: window.backfilled,
                    no_window: window.no_window,
                    dropped: window.dropped,
                };
                (window.name.clone(), books)
            });
            let found = Books {
                received: ledger.received,
                accepted: ledger.accepted,
                duplicate: ledger.duplicate,
                future: ledger.future,
                ignored: ledger.ignored,
                redelivered: ledger.redelivered,
                unprotected: ledger.unprotected,
                rejected: ledger.rejected_by.clone(),
                fields_left_out: ledger.fields_left_out,
                expired: ledger.expired,
                sequence: [ledger.sequence_gaps, ledger.sequence_restarts, ledger.sequence_missing],
                passed_on,
                windows: windows.collect(),
            };
            let mut expected = oracle.books.get(&stream.name).cloned().unwrap_or_default();
            // When those of a window that is defined no more go, is up to the next snapshot.
            let of_today = self.plan.spec.streams.iter().find(|today| today.name.as_str() == stream.name);
            let is_defined = |name: &String, _: &mut WindowBooks| {
                of_today.is_some_and(|today| today.windows.iter().any(|window| window.name.as_str() == name))
            };
            let mut found = found;
            found.windows.retain(is_defined);
            expected.windows.retain(is_defined);
            if found != expected {
                return Err(format!("books of {}: {found:?}, should be {expected:?}", stream.name));
            }
        }
        Ok(())
    }

    pub(super) fn count_cells(&mut self, oracle: &Oracle) {
        let grown = |cell: &&Cell| !cell.absorbed.is_empty();
        self.trace.count("sessions that took in others", oracle.cells.values().filter(grown).count() as u64);
        let ended = |cell: &&Cell| cell.undefined && !cell.fired;
        self.trace.count("windows cut off by a change", oracle.cells.values().filter(ended).count() as u64);
        let cut = |cell: &&Cell| cell.is_cut;
        self.trace.count("windows that lack what is behind a border", oracle.cells.values().filter(cut).count() as u64);
        for (what, spec_has) in features() {
            let streams = self.plan.spec.streams.iter().filter(|stream| spec_has(stream)).count();
            self.trace.count(&format!("streams: {what}"), streams as u64);
        }
        for (what, spec_has) in window_features() {
            let windows = self.plan.spec.streams.iter().flat_map(|stream| &stream.windows);
            self.trace.count(&format!("windows: {what}"), windows.filter(|window| spec_has(window)).count() as u64);
        }
        for (what, times) in core::mem::take(&mut self.fleet.seen) {
            self.trace.count(what, times);
        }
    }

    /// For the proof that the checks had something to check.
    pub(crate) fn count_what_was(&mut self) {
        for stream in self.status().streams {
            let ledger = &stream.ledger;
            self.trace.count("redelivered", ledger.redelivered);
            self.trace.count("at QoS 0", ledger.unprotected);
            self.trace.count("retained and ignored", ledger.ignored);
            self.trace.count("from the future", ledger.future);
            self.trace.count("duplicates", ledger.duplicate);
            self.trace.count("fields left out", ledger.fields_left_out);
            self.trace.count("sequence gaps", ledger.sequence_gaps);
            self.trace.count("sequence restarts", ledger.sequence_restarts);
            self.trace.count("sequence numbers missing", ledger.sequence_missing);
            if let Some(books) = &stream.records {
                self.trace.count("readings on time", books.on_time);
                self.trace.count("readings early", books.early);
                self.trace.count("readings too late", books.side_output);
            }
            for (reason, count) in &ledger.rejected_by {
                self.trace.count(&format!("rejected: {reason}"), *count);
            }
            for window in &stream.windows {
                self.trace.count("on time", window.on_time);
                self.trace.count("late updates", window.late_update);
                self.trace.count("side output", window.side_output);
                self.trace.count("backfilled", window.backfilled);
                self.trace.count("dropped", window.dropped);
            }
        }
        for kind in LaneKind::ALL.into_iter().filter(|kind| *kind != LaneKind::Alarm) {
            let books = self.driver.engine().outbox().ledger(kind);
            self.trace.count(&format!("lane {}", kind.as_str()), books.acked);
            self.trace.count(&format!("lane {}, evicted", kind.as_str()), books.evicted);
        }
        for (kind, count) in self.cloud.kinds.clone() {
            self.trace.count(&format!("rows {kind}"), count);
        }
        self.trace.count("repeated records at the cloud", self.cloud.receiver.counts().repeats);
    }
}

type Feature<T> = (&'static str, fn(&T) -> bool);

fn features() -> Vec<Feature<StreamSpec>> {
    vec![
        ("scope stream, hold", |stream| stream.watermark.scope == Scope::Stream(Resume::Hold)),
        ("scope stream, catch_up", |stream| stream.watermark.scope == Scope::Stream(Resume::CatchUp)),
        ("scope group, hold", |stream| stream.watermark.scope == Scope::Group(Resume::Hold)),
        ("scope group, catch_up", |stream| stream.watermark.scope == Scope::Group(Resume::CatchUp)),
        ("max_lag", |stream| stream.watermark.max_lag.is_some()),
        ("all_idle stay", |stream| stream.watermark.all_idle == AllIdle::Stay),
        ("on_idle close", |stream| stream.on_idle == OnIdle::Close && stream.watermark.idle_timeout.is_some()),
        ("monotonic", |stream| stream.watermark.strategy == Strategy::Bounded { disorder: Span::ZERO }),
        ("adaptive", |stream| matches!(stream.watermark.strategy, Strategy::Adaptive { .. })),
        ("punctuated", |stream| matches!(stream.watermark.strategy, Strategy::Punctuated { .. })),
        ("processing", |stream| matches!(stream.watermark.strategy, Strategy::Processing { .. })),
        ("without windows", |stream| stream.windows.is_empty()),
        ("readings on arrival", |stream| stream.records == Records::Arrival),
        ("readings in order", |stream| matches!(stream.records, Records::Ordered { .. })),
        ("dedup by sequence", |stream| {
            stream.dedup.as_ref().is_some_and(|dedup| matches!(dedup.by, DedupBy::Sequence { .. }))
        }),
        ("dedup by time and values", |stream| {
            stream.dedup.as_ref().is_some_and(|dedup| dedup.by == DedupBy::TimeAndValues)
        }),
        ("state_ttl", |stream| stream.state_ttl.is_some()),
        ("carry_forward", |stream| stream.carry_forward.is_some()),
    ]
}

fn window_features() -> Vec<Feature<WindowSpec>> {
    vec![
        ("tumbling", |window| matches!(window.kind, WindowKind::Tumbling { .. })),
        ("sliding", |window| matches!(window.kind, WindowKind::Sliding { size, slide, .. } if slide < size)),
        ("sliding with gaps", |window| matches!(window.kind, WindowKind::Sliding { size, slide, .. } if slide > size)),
        ("session", |window| matches!(window.kind, WindowKind::Session { .. })),
        ("session, max_length", |window| matches!(window.kind, WindowKind::Session { max_length: Some(_), .. })),
        ("calendar", |window| matches!(window.kind, WindowKind::Calendar { .. })),
        ("key group", |window| window.key == KeySpec::Group),
        ("key stream", |window| window.key == KeySpec::Stream),
        ("backfill", |window| window.late.is_backfill()),
    ]
}
