//! What a process costs, and how a figure is printed.

use std::time::Duration;

/// CPU time that this process has used, user and system.
#[allow(dead_code, reason = "shared by several benchmarks, each uses a part")]
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

/// One line that tools can read.
pub(crate) fn figure(name: &str, value: f64, unit: &str) {
    println!("figure {name} {value:.3} {unit}");
}

/// CPU time that another process has used, user and system. The kernel counts in
/// hundredths of a second.
#[allow(dead_code, reason = "shared by several benchmarks, each uses a part")]
pub(crate) fn process_cpu_time(pid: u32) -> Duration {
    ticks_of(&pid.to_string(), [11, 12])
}

/// CPU time of the children of this process that have ended and were waited for.
#[allow(dead_code, reason = "shared by several benchmarks, each uses a part")]
pub(crate) fn children_cpu_time() -> Duration {
    ticks_of("self", [13, 14])
}

fn ticks_of(process: &str, places: [usize; 2]) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    // Behind the name, which may hold anything, in parentheses.
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name in parentheses").split_whitespace().collect();
    let ticks: u64 = places.iter().map(|place| fields[*place].parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

/// Resident set of another process, now and at its peak, in MiB.
#[allow(dead_code, reason = "shared by several benchmarks, each uses a part")]
pub(crate) fn process_rss_mib(pid: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let kib = |name: &str| -> f64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells");
        line.trim_start_matches(':').split_whitespace().next().expect("a number and kB").parse().expect("a number")
    };
    (kib("VmRSS") / 1024.0, kib("VmHWM") / 1024.0)
}
