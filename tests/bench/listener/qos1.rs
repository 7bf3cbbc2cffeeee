//! `QoS` 1 as fast as clients with a window of 20 send it: few of them are bound by the window
//! and the commit, many by CPU.

use crate::load::{Load, Plan};
use crate::process::{figure, process_cpu_time, process_rss_mib};
use crate::server::{Server, servers};

/// Clients, messages to warm up, messages that count.
const SIZES: [(usize, u64, u64); 4] =
    [(1, 200, 5_000), (10, 2_000, 50_000), (100, 50_000, 500_000), (1_000, 100_000, 1_000_000)];

/// The size whose CPU time is the budget's.
const BUDGET_CLIENTS: usize = 100;

pub(crate) fn measure() {
    for start in servers() {
        for (clients, warm_up, messages) in SIZES {
            measure_one(&start(), clients, warm_up, messages);
        }
    }
}

fn measure_one(server: &Server, clients: usize, warm_up: u64, messages: u64) {
    let plan = |messages| Plan { clients, window: 20, messages, per_second: None };
    let mut load = Load::connect(server.port, clients);
    load.run(plan(warm_up));
    let before = process_cpu_time(server.pid);
    let outcome = load.run(plan(messages));
    let spent = process_cpu_time(server.pid).saturating_sub(before).as_secs_f64() * 1e6 / messages as f64;
    let print = |what: &str, value: f64, unit: &str| {
        figure(&format!("{}.qos1.{what}.{clients}_clients", server.name), value, unit);
    };
    print("msgs_per_s", outcome.per_second(), "1/s");
    print("cpu_us_per_msg", spent, "us");
    if clients == BUDGET_CLIENTS {
        figure(&format!("{}.qos1.cpu_us_per_msg", server.name), spent, "us");
    }
    print("ack_p50_ms", outcome.latency_ms(50), "ms");
    print("ack_p99_ms", outcome.latency_ms(99), "ms");
    let (resident, peak) = process_rss_mib(server.pid);
    print("rss_mib", resident, "MiB");
    print("rss_peak_mib", peak, "MiB");
    print("load_cpu_us_per_msg", outcome.cpu.as_secs_f64() * 1e6 / messages as f64, "us");
}
