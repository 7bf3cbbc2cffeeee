//! What keeps ids from being used twice grows with the devices, and with each change of the
//! configuration: fences and borders (`fence.rs`, `retire.rs`) are bounded together.
//!
//! Beyond the bound the stream that takes the most is coarser, step by step: fences in front of
//! devices that may never come again become one in front of all; then the oldest definition that
//! finishes is ended as it is, and its open windows are emitted `partial`; then fences in front of
//! each device become one. So a record may be `redefined` that would have found its window open:
//! none is lost, and no id is used twice.

use crate::engine::Engine;
use crate::engine::emit::Emit;
use crate::engine::stream::Stream;
use crate::model::limits::BORDERS_COST_MAX;
use crate::model::time::Now;

use super::windows::drain;

impl Engine {
    /// True when something had to give way. Streams that are `untouched` have no more than before.
    pub(super) fn bound_borders(&mut self, now: Now, untouched: &[usize]) -> bool {
        let mut any = false;
        while self.streams.iter().map(Stream::borders_cost).sum::<usize>() > BORDERS_COST_MAX {
            let touched = (0..self.streams.len()).filter(|index| !untouched.contains(index));
            let Some(index) = touched.max_by_key(|index| self.streams[*index].borders_cost()) else { return any };
            let (stream, out, _) = self.parts(index, now);
            // What has no definition any more is in no join.
            let gave_way = give_way(&mut Emit { taps: None, ..out }, stream);
            if !gave_way {
                return any;
            }
            any = true;
        }
        any
    }
}

/// False: there is nothing that could.
fn give_way(out: &mut Emit<'_>, stream: &mut Stream) -> bool {
    if stream.fences.merge_names() {
        return true;
    }
    if !stream.retiring.is_empty() {
        let oldest = stream.defined();
        drain(out, stream, |window| window == oldest);
        stream.drop_oldest_retired();
        return true;
    }
    stream.fences.merge_slots()
}

impl Stream {
    fn borders_cost(&self) -> usize {
        self.fences.cost() + self.tenures_cost()
    }
}
