//! What 1,000 clients cost that are connected and say nothing.

use crate::load::Load;
use crate::process::{figure, process_rss_mib};
use crate::server::{Server, servers};

const CLIENTS: usize = 1_000;

pub(crate) fn measure() {
    for start in servers() {
        measure_one(&start());
    }
}

fn measure_one(server: &Server) {
    // One that came and went: what is set up once is not counted as a connection's.
    drop(Load::connect(server.port, 1));
    let (before, _) = process_rss_mib(server.pid);
    let _idle = Load::connect(server.port, CLIENTS);
    let (resident, _) = process_rss_mib(server.pid);
    figure(&format!("{}.idle1000.rss_mib", server.name), resident, "MiB");
    figure(&format!("{}.idle1000.kib_per_client", server.name), (resident - before) * 1024.0 / CLIENTS as f64, "KiB");
}
