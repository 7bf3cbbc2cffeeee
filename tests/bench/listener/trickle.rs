//! The worst case for any server: one message per read. 1,000 clients send one message every
//! 200 ms each and wait for its acknowledgement; neither side is near its limit.

use crate::load::{Load, Plan};
use crate::process::{figure, process_cpu_time};
use crate::server::{Server, servers};

const CLIENTS: usize = 1_000;
const PER_SECOND: u64 = 5_000;
const WARM_UP: u64 = 2 * PER_SECOND;
const MESSAGES: u64 = 12 * PER_SECOND;

pub(crate) fn measure() {
    let spent: Vec<f64> = servers().into_iter().map(|start| measure_one(&start())).collect();
    if let [listener, mosquitto] = spent[..] {
        figure("listener.trickle.cpu_vs_mosquitto", listener / mosquitto, "1");
    }
}

/// Returns microseconds of CPU time per message.
fn measure_one(server: &Server) -> f64 {
    let plan = |messages| Plan { clients: CLIENTS, window: 1, messages, per_second: Some(PER_SECOND) };
    let mut load = Load::connect(server.port, CLIENTS);
    load.run(plan(WARM_UP));
    let before = process_cpu_time(server.pid);
    let outcome = load.run(plan(MESSAGES));
    let spent = process_cpu_time(server.pid).saturating_sub(before).as_secs_f64() * 1e6 / MESSAGES as f64;
    let print = |what: &str, value: f64, unit: &str| figure(&format!("{}.trickle.{what}", server.name), value, unit);
    print("cpu_us_per_msg", spent, "us");
    print("msgs_per_s", outcome.per_second(), "1/s");
    print("ack_p50_ms", outcome.latency_ms(50), "ms");
    print("ack_p99_ms", outcome.latency_ms(99), "ms");
    print("load_cpu_us_per_msg", outcome.cpu.as_secs_f64() * 1e6 / MESSAGES as f64, "us");
    spent
}
