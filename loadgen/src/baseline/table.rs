//! The result as a table. Pure.

use super::course::Report;
use super::figures::Spread;
use super::{Server, Work};
use crate::limits::BASELINE_BUSY_MIN;
use std::fmt::Write as _;

/// The table, with what makes it doubtful below it.
pub(super) fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(report, &mut text);
    text
}

fn write(report: &Report, text: &mut String) -> std::fmt::Result {
    writeln!(
        text,
        "{:<20} {:>26} {:>24} {:>24} {:>7} {:>7}",
        "", "requests/s", "CPU ns/request", "renewals/CPU s", "server", "client"
    )?;
    for row in &report.rows {
        let name = format!("{}, {}", work(row.work, report.batch), server(row.server));
        let rate = row.spread(|run| run.requests_per_sec);
        let cost = row.spread(|run| run.cpu_ns_per_request);
        let renewals = row.spread(|run| run.renewals_per_cpu_sec);
        let server_busy = row.spread(|run| run.server_busy).median * 100.0;
        let client_busy = row.spread(|run| run.client_busy).median * 100.0;
        writeln!(
            text,
            "{name:<20} {:>26} {:>24} {:>24} {server_busy:>6.1}% {client_busy:>6.1}%",
            spread(rate, 0),
            spread(cost, 0),
            spread(renewals, 0),
        )?;
    }
    let ratios = &report.ratios;
    for (name, ratio) in [
        (
            "single, gateway / bare: requests per second",
            ratios.single_requests_per_sec,
        ),
        (
            "single, gateway / bare: requests per CPU time",
            ratios.single_per_cpu_time,
        ),
        (
            "batch, gateway / bare: requests per CPU time",
            ratios.batch_per_cpu_time,
        ),
        (
            "gateway, batch / single: renewals per CPU time",
            ratios.batch_over_single,
        ),
    ] {
        writeln!(text, "{name:<48} {}", spread(ratio, 3))?;
    }
    writeln!(
        text,
        "median [least to most] of {} runs in turn; {} locks, {} connections",
        report.runs, report.locks, report.connections
    )?;
    if !report.sound {
        writeln!(
            text,
            "WARNING: a server was less than {:.0} % busy: its requests per second are the client's limit",
            BASELINE_BUSY_MIN * 100.0
        )?;
    }
    Ok(())
}

fn work(work: Work, batch: usize) -> String {
    match work {
        Work::Single => "single".to_owned(),
        Work::Batch => format!("batch of {batch}"),
    }
}

fn server(server: Server) -> &'static str {
    match server {
        Server::Bare => "bare",
        Server::Gateway => "gateway",
    }
}

fn spread(of: Spread, digits: usize) -> String {
    let Spread { median, min, max } = of;
    format!("{median:.digits$} [{min:.digits$} to {max:.digits$}]")
}
