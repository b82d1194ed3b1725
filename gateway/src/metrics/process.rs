//! What the process uses, as the kernel says. What it does not say is left out.

use super::exposition::{Exposition, Kind};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Writes what is known; `tasks` has how many have not ended, by the kind of thread that runs them.
pub(super) fn render(out: &mut Exposition, tasks: &[(&str, usize)]) {
    let samples = [
        (
            "holdfast_process_cpu_seconds_total",
            Kind::Counter,
            "Processor time of this process so far.",
            Some(cpu_seconds()),
        ),
        (
            "holdfast_process_resident_memory_bytes",
            Kind::Gauge,
            "Resident memory of this process.",
            resident_bytes(),
        ),
        (
            "holdfast_process_open_fds",
            Kind::Gauge,
            "Open file descriptors; every connection is one.",
            std::fs::read_dir("/proc/self/fd")
                .ok()
                .map(|entries| entries.count() as f64),
        ),
        (
            "holdfast_process_max_fds",
            Kind::Gauge,
            "File descriptors that this process may have open.",
            getrlimit(Resource::Nofile).current.map(|most| most as f64),
        ),
    ];
    for (name, kind, help, value) in samples {
        out.family(name, kind, help);
        if let Some(value) = value {
            out.sample(name, &[], value);
        }
    }
    let name = "holdfast_process_tasks";
    out.family(
        name,
        Kind::Gauge,
        "Tasks that have not ended, by the kind of thread that runs them.",
    );
    for (threads, count) in tasks {
        out.sample(name, &[("threads", threads)], *count as f64);
    }
}

fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

fn resident_bytes() -> Option<f64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some((pages * rustix::param::page_size() as u64) as f64)
}
