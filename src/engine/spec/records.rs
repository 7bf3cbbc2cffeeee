//! Whether a stream's readings are passed on as they are.

/// What becomes of single readings, beside the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// They are in the windows only.
    Off,
    /// Each is sent on when it arrives, in the order of arrival.
    Arrival,
    /// They are sent on in the order of event time, when the watermark has passed them.
    Ordered {
        /// Readings that may wait, 1 ..= `limits::ORDERED_MAX`. Full: the one with the
        /// lowest event time goes early.
        held_max: usize,
    },
}

impl Records {
    /// Readings that may wait.
    pub fn held_max(self) -> usize {
        match self {
            Records::Off | Records::Arrival => 0,
            Records::Ordered { held_max } => held_max,
        }
    }
}
