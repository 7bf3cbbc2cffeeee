//! How far event time has come: strategy, scope, idleness.

use crate::model::ids::Name;
use crate::model::time::Span;

/// Watermark of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatermarkSpec {
    /// What a record says about those that are still to come.
    pub strategy: Strategy,
    /// Silence after which a device is idle; `None`: never.
    pub idle_timeout: Option<Span>,
    /// Which records share one watermark.
    pub scope: Scope,
    /// Scopes `group` and `stream`: a device that is further than this behind the
    /// leading one is left out like an idle one; `None`: however far.
    pub max_lag: Option<Span>,
    /// Scopes `group` and `stream`: the watermark when nobody is active.
    pub all_idle: AllIdle,
}

/// What a record says about those that are still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The highest event time seen minus `disorder` minus 1 ms. With a disorder of
    /// zero it is what is called monotonic.
    Bounded {
        /// Out-of-orderness bound.
        disorder: Span,
    },
    /// As `Bounded`, with a bound that follows each device's own measured lateness:
    /// the given quantile of it, between floor and ceiling.
    Adaptive {
        /// In parts of 10,000, 1 ..= 10,000.
        quantile: u32,
        /// The bound is never below.
        floor: Span,
        /// The bound is never above; and this until enough was measured.
        ceiling: Span,
    },
    /// Only records that carry a mark move the watermark, to their time minus 1 ms.
    Punctuated {
        /// The field that is the mark, when it is there and not zero.
        field: Name,
    },
    /// The gateway's clock minus `delay` minus 1 ms, whatever comes.
    Processing {
        /// How long records are waited for.
        delay: Span,
    },
}

impl Strategy {
    /// How far the watermark is behind the newest record (or the clock), at most;
    /// zero where marks decide.
    pub fn longest_wait(&self) -> Span {
        match self {
            Strategy::Bounded { disorder: wait }
            | Strategy::Adaptive { ceiling: wait, .. }
            | Strategy::Processing { delay: wait } => *wait,
            Strategy::Punctuated { .. } => Span::ZERO,
        }
    }
}

/// The watermark of a scope in which nobody is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllIdle {
    /// It goes to the highest of all, as in Flink since 2.2 (FLINK-38454).
    Advance,
    /// It stays, as in Flink up to 2.1.
    Stay,
}

impl WatermarkSpec {
    /// Bounded disorder, each device for itself, nobody ever idle.
    pub fn bounded(disorder: Span) -> WatermarkSpec {
        WatermarkSpec {
            strategy: Strategy::Bounded { disorder },
            idle_timeout: None,
            scope: Scope::Device,
            max_lag: None,
            all_idle: AllIdle::Advance,
        }
    }
}

/// The set of devices that share a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each device has its own.
    Device,
    /// One maximum over all records of the stream.
    Shared,
    /// The minimum over the devices of the stream that are not idle.
    Stream(Resume),
    /// The minimum over the devices with the same group label that are not idle.
    Group(Resume),
}

/// What a device that is behind the common watermark does to it when it comes
/// back (scopes `group` and `stream`). The watermark never moves back either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// It is ignored until it has caught up: it stalls nobody.
    CatchUp,
    /// The watermark waits for it, as in Flink.
    Hold,
}

/// What to do with open windows of a device that falls idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnIdle {
    /// Emit them as panes `idle`; they stay open and the watermark stays.
    Emit,
    /// Wait for the watermark.
    Hold,
    /// The device's watermark goes to the end of its newest open window: all of them
    /// fire, as panes `idle`, and what comes later for them is late. Scope `device` only.
    Close,
}
