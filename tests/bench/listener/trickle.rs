//! The worst case for any server: one message per read. 1,000 clients wait for each
//! acknowledgement before they send the next message. `trickle`: as fast as they are answered,
//! which is once a commit. `sparse`: one message every 200 ms each, so that what a server does
//! once a commit is shared by 100 messages instead of 1,000.

use crate::load::{Load, Plan};
use crate::process::{figure, process_cpu_time};
use crate::server::{Server, servers};

const CLIENTS: usize = 1_000;
const PER_SECOND: u64 = 5_000;
const WARM_UP: u64 = 10_000;

/// A load of one message per read.
struct Kind {
    name: &'static str,
    messages: u64,
    per_second: Option<u64>,
}

const KINDS: [Kind; 2] = [
    Kind { name: "trickle", messages: 300_000, per_second: None },
    Kind { name: "sparse", messages: 60_000, per_second: Some(PER_SECOND) },
];

pub(crate) fn measure() {
    for kind in &KINDS {
        let spent: Vec<f64> = servers().into_iter().map(|start| measure_one(&start(), kind)).collect();
        if let [listener, mosquitto] = spent[..] {
            figure(&format!("listener.{}.cpu_vs_mosquitto", kind.name), listener / mosquitto, "1");
        }
    }
}

/// Returns microseconds of CPU time per message.
fn measure_one(server: &Server, kind: &Kind) -> f64 {
    let &Kind { name, messages, per_second } = kind;
    let plan = |messages| Plan { clients: CLIENTS, window: 1, messages, per_second };
    let mut load = Load::connect(server.port, CLIENTS);
    load.run(plan(WARM_UP));
    let before = process_cpu_time(server.pid);
    let outcome = load.run(plan(messages));
    let spent = process_cpu_time(server.pid).saturating_sub(before).as_secs_f64() * 1e6 / messages as f64;
    let print = |what: &str, value: f64, unit: &str| figure(&format!("{}.{name}.{what}", server.name), value, unit);
    print("cpu_us_per_msg", spent, "us");
    print("msgs_per_s", outcome.per_second(), "1/s");
    print("ack_p50_ms", outcome.latency_ms(50), "ms");
    print("ack_p99_ms", outcome.latency_ms(99), "ms");
    print("load_cpu_us_per_msg", outcome.cpu.as_secs_f64() * 1e6 / messages as f64, "us");
    spent
}
