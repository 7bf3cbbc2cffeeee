//! Joins across streams: of windows (`window_join.rs`) and of records
//! (`interval_join.rs`).
//!
//! While a stream takes an input in it only notes what joins want to hear
//! (`tap.rs`). Then each join that names it looks: first at panes and records, then
//! at watermarks that have risen, so that what a watermark fired is known before
//! the watermark decides. Keys are text: a device has another slot in each stream.
//!
//! Everything that waits, waits for one watermark at a time (`waiting.rs`) and for a
//! deadline in live time; nothing is ever searched through for a record.

mod books;
mod cell;
mod interval_join;
mod keys;
mod persist;
mod tap;
mod waiting;
mod window_join;

use std::sync::Arc;

use crate::model::limits::JOINS_BYTES_MAX;
use crate::model::time::{EventTime, Now};

use super::Engine;
use super::outbox::{LaneKind, Outbox};
use super::spec::{JoinKind, JoinSpec, KeySpec, Scope, WindowKind};
use super::stream::Stream;
use super::timers::LiveTime;
use super::watermark::Watermark;

use interval_join::IntervalJoin;
use waiting::Wait;
use window_join::WindowJoin;

pub use books::{IntervalSideLedger, WindowJoinLedger};
pub(super) use tap::{Rise, Taps};

/// What a join at work needs beside its state.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub now: Now,
    pub live: LiveTime,
    pub outbox: &'a mut Outbox,
    pub uplink_up: bool,
    pub streams: &'a [Stream],
    /// Windows that start before this may lack records, and sides.
    pub partial_before: Option<EventTime>,
    /// The input has ended: nothing more will come of any side.
    pub ended: bool,
}

impl Scene<'_> {
    fn watermark(&self, stream: usize, scope: &str) -> Watermark {
        if self.ended { Watermark::END } else { self.streams[stream].watermark_of_scope(scope) }
    }

    fn watermark_of_key(&self, stream: usize, kind: KeySpec, key: &str) -> Watermark {
        if self.ended { Watermark::END } else { self.streams[stream].watermark_of_key(kind, key) }
    }

    /// What there is to wait for, if the watermark of a key in the stream of a side is not
    /// at `until` yet.
    fn wait_for(&self, (side, stream): (usize, usize), kind: KeySpec, key: &str, until: EventTime) -> Option<Wait> {
        let there = self.watermark_of_key(stream, kind, key).time().is_some_and(|time| time >= until);
        let scope = || Arc::from(&*self.streams[stream].scope_of_key(kind, key));
        (!there).then(|| Wait { side, scope: scope(), until })
    }

    fn lane(&self, late: bool) -> LaneKind {
        match (self.uplink_up, late) {
            (false, _) => LaneKind::Backlog,
            (true, false) => LaneKind::Live,
            (true, true) => LaneKind::Update,
        }
    }
}

/// One join at work.
#[derive(Clone, Debug)]
enum Join {
    Window(WindowJoin),
    Interval(IntervalJoin),
}

/// A side of a join, seen from its stream.
#[derive(Clone, Copy, Debug)]
struct Route {
    join: usize,
    side: usize,
    /// Window join: which of the stream's windows.
    window: Option<u8>,
}

/// All joins, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Joins {
    specs: Vec<JoinSpec>,
    /// What the windows of a window join have in common.
    geometry: Vec<Option<(WindowKind, KeySpec)>>,
    list: Vec<Join>,
    /// By stream.
    routes: Vec<Vec<Route>>,
    wants: Vec<tap::Wants>,
}

/// The books of one join, for the status document.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum JoinStatus {
    /// A window join.
    Window {
        /// Its name.
        name: String,
        /// Windows of a key that it keeps.
        kept: usize,
        /// See [`WindowJoinLedger`].
        ledger: WindowJoinLedger,
    },
    /// An interval join.
    Interval {
        /// Its name.
        name: String,
        /// Pairs that were made.
        pairs: u64,
        /// See [`IntervalSideLedger`].
        left: IntervalSideLedger,
        /// See [`IntervalSideLedger`].
        right: IntervalSideLedger,
    },
}

impl Joins {
    /// Joins that have seen nothing. `None` when a stream or window is not there.
    pub(super) fn new(specs: &[JoinSpec], streams: &[Stream]) -> Option<Joins> {
        let mut joins = Joins {
            specs: specs.to_vec(),
            routes: vec![Vec::new(); streams.len()],
            wants: vec![tap::Wants::default(); streams.len()],
            ..Joins::default()
        };
        let budget = JOINS_BYTES_MAX / specs.len().max(1);
        for spec in specs {
            joins.add(spec, streams, budget)?;
        }
        Some(joins)
    }

    fn add(&mut self, spec: &JoinSpec, streams: &[Stream], budget: usize) -> Option<()> {
        let place_of = |name: &_| streams.iter().position(|stream| stream.spec.name == *name);
        let join = self.list.len();
        match &spec.kind {
            JoinKind::Window { sides, outer } => {
                let mut geometry = None;
                let mut resolved = Vec::new();
                for (side, reference) in sides.iter().enumerate() {
                    let stream = place_of(&reference.stream)?;
                    let windows = &streams[stream].spec.windows;
                    let place = windows.iter().position(|window| window.name == reference.window)?;
                    let window = u8::try_from(place).ok()?;
                    geometry.get_or_insert((windows[place].kind, windows[place].key));
                    self.routes[stream].push(Route { join, side, window: Some(window) });
                    self.wants[stream].windows |= 1 << window;
                    let (name, lateness) = (reference.stream.clone(), windows[place].lateness);
                    resolved.push(window_join::Side { stream, name, lateness });
                }
                self.geometry.push(geometry);
                let key = geometry.map(|(_, key)| key)?;
                let state = WindowJoin::new(spec.name.clone(), resolved, key, *outer, spec.ttl, budget);
                self.list.push(Join::Window(state));
            }
            JoinKind::Interval { left, right, lower_ms, upper_ms, key } => {
                let places = [place_of(left)?, place_of(right)?];
                for (side, stream) in places.into_iter().enumerate() {
                    self.routes[stream].push(Route { join, side, window: None });
                    self.wants[stream].records = true;
                }
                let sides = [(places[0], left), (places[1], right)]
                    .map(|(stream, name)| interval_join::Side { stream, name: name.clone() });
                let bounds = (*lower_ms, *upper_ms);
                let state = IntervalJoin::new(spec.name.clone(), sides, bounds, *key, spec.ttl, budget);
                self.geometry.push(None);
                self.list.push(Join::Interval(state));
            }
        }
        Some(())
    }

    /// The tap of a stream, if any join wants to hear of it.
    pub(super) fn tap<'t>(&self, stream: usize, taps: &'t mut Taps) -> Option<&'t mut Taps> {
        let wants = *self.wants.get(stream)?;
        if wants == tap::Wants::default() {
            return None;
        }
        taps.wants = wants;
        Some(taps)
    }

    /// Looks at what a stream has noted. `rises`: at its watermarks too; else panes are
    /// taken in, and looked at with everything.
    fn handle_taps(&mut self, scene: &mut Scene<'_>, stream: usize, taps: &Taps, rises: bool) {
        let Joins { routes, list, .. } = self;
        for pane in taps.panes() {
            for route in routes[stream].iter().filter(|route| route.window == Some(pane.window)) {
                if let Join::Window(join) = &mut list[route.join] {
                    join.handle_pane(scene, route.side, &pane);
                }
            }
        }
        for route in routes[stream].iter().filter(|_| rises) {
            if let Join::Window(join) = &mut list[route.join] {
                join.settle(scene);
            }
        }
        for record in taps.records() {
            for route in &routes[stream] {
                if let Join::Interval(join) = &mut list[route.join] {
                    join.handle_record(scene, u8::from(route.side == 1), &record);
                }
            }
        }
        for rise in taps.rises().filter(|_| rises) {
            let source = &scene.streams[stream];
            let scope = match rise {
                Rise::Device(slot) | Rise::Group(slot) => source.devices.name(slot),
                Rise::Stream => "",
            };
            let moved = matches!(rise, Rise::Device(_)) && matches!(source.spec.watermark.scope, Scope::Group(_));
            for route in &routes[stream] {
                match &mut list[route.join] {
                    Join::Window(join) if moved => join.look_at_key(scene, scope),
                    Join::Interval(join) if moved => join.look_at_key(scene, scope),
                    Join::Window(join) => join.advance(scene, route.side, scope),
                    Join::Interval(join) => join.advance(scene, route.side, scope),
                }
            }
        }
    }

    fn expire(&mut self, scene: &mut Scene<'_>) {
        for join in &mut self.list {
            match join {
                Join::Window(join) => join.expire(scene),
                Join::Interval(join) => join.expire(scene.live),
            }
        }
    }

    fn look_at_all(&mut self, scene: &mut Scene<'_>) {
        for join in &mut self.list {
            match join {
                Join::Window(join) => join.look_at_all(scene),
                Join::Interval(join) => join.look_at_all(scene),
            }
        }
    }

    /// The earliest deadline of anything that waits.
    pub(super) fn earliest_deadline(&self) -> Option<LiveTime> {
        let earliest = self.list.iter().filter_map(|join| match join {
            Join::Window(join) => join.deadlines.first().map(|(at, _)| *at),
            Join::Interval(join) => join.deadlines.first().map(|(at, _)| *at),
        });
        earliest.min()
    }

    /// The earliest time at which something waits for the watermark of a stream.
    pub(super) fn earliest_wait(&self, stream: usize) -> Option<EventTime> {
        let routes = self.routes.get(stream)?.iter();
        let earliest = routes.filter_map(|route| match &self.list[route.join] {
            Join::Window(join) => join.waiting.earliest(route.side),
            Join::Interval(join) => join.waiting.earliest(route.side),
        });
        earliest.min()
    }

    /// True when the books balance and `open` is what really waits.
    pub(super) fn balances(&self) -> bool {
        self.list.iter().all(|join| match join {
            Join::Window(join) => {
                let open = join.cells.values().filter(|cell| !cell.settled).count() as u64;
                join.books.balances() && join.books.open == open
            }
            Join::Interval(join) => (0..2_u8).all(|side| {
                let books = &join.books[usize::from(side)];
                let open = join.records.keys().filter(|id| id.side == side).count() as u64;
                books.balances() && books.open == open
            }),
        })
    }

    /// The books, join by join.
    pub(super) fn status(&self) -> Vec<JoinStatus> {
        let status = self.list.iter().map(|join| match join {
            Join::Window(join) => {
                JoinStatus::Window { name: join.name.as_str().to_owned(), kept: join.cells.len(), ledger: join.books }
            }
            Join::Interval(join) => JoinStatus::Interval {
                name: join.name.as_str().to_owned(),
                pairs: join.pairs,
                left: join.books[0],
                right: join.books[1],
            },
        });
        status.collect()
    }
}

impl Engine {
    fn joins_at_work(&mut self, now: Now) -> (&mut Joins, &mut Taps, Scene<'_>) {
        let scene = Scene {
            now,
            live: self.idle_clock.read(now.proc),
            outbox: &mut self.outbox,
            uplink_up: self.uplink_up,
            streams: &self.streams,
            partial_before: self.partial_before,
            ended: false,
        };
        (&mut self.joins, &mut self.taps, scene)
    }

    /// Lets joins look at what a stream has noted.
    pub(super) fn settle_joins(&mut self, now: Now, stream: usize) {
        if self.taps.is_empty() {
            return;
        }
        let (joins, taps, mut scene) = self.joins_at_work(now);
        joins.handle_taps(&mut scene, stream, taps, true);
        taps.clear();
    }

    /// Closes what has waited long enough.
    pub(super) fn expire_joins(&mut self, now: Now) {
        if self.joins.list.is_empty() {
            return;
        }
        let (joins, _, mut scene) = self.joins_at_work(now);
        if joins.earliest_deadline().is_some_and(|at| at <= scene.live) {
            joins.expire(&mut scene);
        }
    }

    /// As [`Engine::settle_joins`], while the watermarks of streams do not belong
    /// together: they decide when all have been fitted or finished.
    pub(super) fn collect_for_joins(&mut self, now: Now, stream: usize) {
        let (joins, taps, mut scene) = self.joins_at_work(now);
        joins.handle_taps(&mut scene, stream, taps, false);
        taps.clear();
    }

    /// Looks at everything that waits. `ended`: nothing more will come of any side.
    pub(super) fn look_at_joins(&mut self, now: Now, ended: bool) {
        let (joins, _, mut scene) = self.joins_at_work(now);
        scene.ended = ended;
        joins.look_at_all(&mut scene);
    }
}
