//! What it costs that a device falls idle: the deadline comes up, is found to have moved
//! since, is put back, and comes up again. Panes are held, so that none are written.

use tidegate::engine::spec::OnIdle;

use crate::load::Load;
use crate::pipeline;
use crate::process::figure;

const COUNTS: [(&str, usize); 2] = [("1k", 1_000), ("50k", 50_000)];
/// All devices, several times, so that clock ticks do not show.
const EXPIRIES: usize = 500_000;

pub(crate) fn measure() {
    for (name, devices) in COUNTS {
        let mut pipeline = pipeline::tumbling();
        pipeline.streams[0].on_idle = OnIdle::Hold;
        let mut load = Load::new(pipeline, devices);
        let rounds = EXPIRIES / devices;
        let mut spent = 0.0;
        for _ in 0..rounds {
            load.run(devices as u64 * 2);
            spent += load.fall_silent().as_secs_f64();
        }
        load.check();
        let expiries = (rounds * devices) as f64;
        figure(&format!("engine.idle{name}.cpu_ns_per_expiry"), spent * 1e9 / expiries, "ns");
    }
}
