//! What time alone brings, and when it will next bring something.

use crate::model::time::{Now, ProcTime};

use super::Engine;
use super::broker::Broker;
use super::stream::Stream;
use super::timers::LiveTime;

impl Engine {
    /// Does what time alone has brought: watermarks that follow the clock move, devices
    /// fall idle, panes are shown, deltas go, and what was silent for too long ends.
    /// Calling early is harmless.
    pub(super) fn handle_deadlines(&mut self, now: Now) {
        if self.follows_clock {
            self.handle_clock(now);
        }
        let live = self.idle_clock.read(now.proc);
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            if stream.timers.earliest().is_some_and(|at| at <= live)
                || stream.next_by_clock().is_some_and(|at| at <= now.proc)
            {
                self.handle_deadlines_of(index, now, live);
            }
            if self.streams[index].expiry.earliest().is_some_and(|at| at <= live) {
                let (stream, mut out, _) = self.parts(index, now);
                stream.handle_expiry(&mut out, live);
                self.settle_joins(now, index);
            }
        }
        self.expire_joins(now);
        self.handle_client_deadlines(now);
    }

    /// In the order of the deadlines, also when several are past.
    fn handle_deadlines_of(&mut self, index: usize, now: Now, live: LiveTime) {
        loop {
            let stream = &self.streams[index];
            let idle = stream.timers.earliest().filter(|at| *at <= live);
            let clock = stream.next_by_clock().filter(|at| *at <= now.proc);
            // Due while the idle clock stands still: it was due when it stopped.
            let idle_at = idle.map(|at| self.idle_clock.proc_time_of(at).unwrap_or_default());
            let (stream, mut out, _) = self.parts(index, now);
            let clock_first = clock.filter(|at| idle_at.is_none_or(|idle_at| *at < idle_at));
            match (clock_first, idle) {
                (Some(at), _) => {
                    stream.show_due(&mut out, at);
                    stream.emit_due_deltas(&mut out, at);
                }
                (None, Some(live)) => stream.handle_idle(&mut out, live),
                (None, None) => return,
            }
            self.settle_joins(now, index);
        }
    }

    #[cold]
    fn handle_clock(&mut self, now: Now) {
        self.seen = Some(now);
        for index in 0..self.streams.len() {
            let (stream, mut out, _) = self.parts(index, now);
            stream.follow_clock(&mut out);
            self.settle_joins(now, index);
        }
    }

    /// When time alone will next change something.
    pub fn next_deadline(&self) -> Option<ProcTime> {
        let silence = |stream: &Stream| stream.timers.earliest().into_iter().chain(stream.expiry.earliest()).min();
        let idle = self.streams.iter().filter_map(silence).chain(self.joins.earliest_deadline()).min();
        let idle = idle.and_then(|at| self.idle_clock.proc_time_of(at));
        let clock = self.seen.and_then(|now| {
            let streams = self.streams.iter().enumerate();
            streams.filter_map(|(index, stream)| stream.clock_deadline(now, self.joins.earliest_wait(index))).min()
        });
        let streams = self.streams.iter().filter_map(Stream::next_by_clock);
        let clients = self.broker.as_ref().and_then(Broker::next_deadline);
        streams.chain(idle).chain(clock).chain(self.outbox.next_deadline()).chain(clients).min()
    }
}
