//! What a gateway uses, and what it has in etcd.

use crate::stack::{Gateway, Stack};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt;
use std::fs;

/// Of files, threads, tasks and leases there may be so many more at the end: a link to another gateway
/// that was not there at the start.
const MORE_MAX: u64 = 8;
/// Of so many restarts one may leave a lease to its TTL, which is half an hour for a group's: the gateway had
/// it granted and no key written yet, or the key deleted and the lease not revoked.
const RESTARTS_PER_LEASE: u64 = 4;
/// Memory may be so much more: a part, and an amount.
const MEMORY_MORE_PER_CENT: u64 = 25;
const MEMORY_MORE_KIB: u64 = 8 * 1024;

/// What one gateway uses, and what etcd has of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Levels {
    /// Open file descriptors.
    pub files: u64,
    /// Threads.
    pub threads: u64,
    /// Tasks that have not ended.
    pub tasks: u64,
    /// Resident memory, in KiB.
    pub memory_kib: u64,
    /// Leases in all clusters that are neither a session's nor a group's: each gateway has a spare one
    /// in each.
    pub spare_leases: u64,
}

type Of = fn(&Levels) -> u64;
const COUNTED: [(&str, Of); 3] = [
    ("files", |levels| levels.files),
    ("threads", |levels| levels.threads),
    ("tasks", |levels| levels.tasks),
];

impl Levels {
    /// As they are now.
    pub(super) async fn of(gateway: &Gateway, stack: &Stack) -> Result<Self> {
        let pid = gateway.process().await.pid();
        let process = format!("/proc/{}", pid.context("the gateway does not run")?);
        let status = fs::read_to_string(format!("{process}/status"))?;
        let metrics = metrics(gateway).await?;
        Ok(Self {
            files: fs::read_dir(format!("{process}/fd"))?.count() as u64,
            threads: number_after(&status, "Threads:")?,
            tasks: sum_of(&metrics, "holdfast_process_tasks{")?,
            memory_kib: number_after(&status, "VmRSS:")?,
            spare_leases: spare_leases(stack).await?,
        })
    }

    /// What has grown beyond what is usual after so many restarts of other gateways, in words.
    pub(super) fn grown_since(&self, start: &Self, restarts: u64) -> Vec<String> {
        let memory_max = start.memory_kib * (100 + MEMORY_MORE_PER_CENT) / 100 + MEMORY_MORE_KIB;
        let memory = (
            "KiB of memory",
            start.memory_kib,
            self.memory_kib,
            memory_max,
        );
        let counted = COUNTED.map(|(what, of)| (what, of(start), of(self), of(start) + MORE_MAX));
        let leases = (
            "spare leases",
            start.spare_leases,
            self.spare_leases,
            start.spare_leases + MORE_MAX + restarts / RESTARTS_PER_LEASE,
        );
        let all = counted.into_iter().chain([memory, leases]);
        all.filter(|(_, _, now, max)| now > max)
            .map(|(what, then, now, _)| format!("{now} {what} instead of {then}"))
            .collect()
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} threads, {} tasks, {} KiB of memory, {} spare leases",
            self.files, self.threads, self.tasks, self.memory_kib, self.spare_leases
        )
    }
}

async fn spare_leases(stack: &Stack) -> Result<u64> {
    let sessions = stack.keys("/holdfast/sessions/").await?.len();
    let groups = stack.keys("/holdfast/groups/").await?.len();
    let leases = stack.leases().await?;
    let spare = leases.checked_sub(sessions + groups);
    Ok(spare.context("a session or a group without a lease")? as u64)
}

/// What a gateway lets go of when its clients have gone: connections, locks, and requests.
const LET_GO: [&str; 6] = [
    "holdfast_http_connections ",
    "holdfast_cluster_locks{",
    "holdfast_waiting_names{",
    "holdfast_waiting_requests{",
    "holdfast_requests_open{",
    "holdfast_queue_depth{",
];

/// What of that it still has, in words.
pub(super) async fn in_hand(gateway: &Gateway) -> Result<Vec<String>> {
    in_hand_as_shown(&metrics(gateway).await?)
}

fn in_hand_as_shown(metrics: &str) -> Result<Vec<String>> {
    let mut in_hand = Vec::new();
    for series in LET_GO {
        let count = sum_of(metrics, series)?;
        if count > 0 {
            let name = series.trim_end_matches([' ', '{']);
            in_hand.push(format!("{name} is {count}"));
        }
    }
    Ok(in_hand)
}

async fn metrics(gateway: &Gateway) -> Result<String> {
    Ok(gateway.admin("/metrics").await?.body)
}

fn number_after(text: &str, what: &str) -> Result<u64> {
    let rest = text.split_once(what).map(|(_, rest)| rest);
    let word = rest.and_then(|rest| rest.split_whitespace().next());
    Ok(word.context(what.to_owned())?.parse()?)
}

/// Of all samples that begin so.
fn sum_of(metrics: &str, series: &str) -> Result<u64> {
    let samples: Vec<u64> = metrics
        .lines()
        .filter(|line| line.starts_with(series))
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    ensure!(!samples.is_empty(), "no {series} among the metrics");
    Ok(samples.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Levels = Levels {
        files: 40,
        threads: 9,
        tasks: 30,
        memory_kib: 20_000,
        spare_leases: 10,
    };

    #[test]
    fn what_grows_beyond_the_usual_is_named_and_nothing_else() {
        assert_eq!(START.grown_since(&START, 0), [""; 0]);
        let shrunk = Levels { files: 3, ..START };
        assert_eq!(shrunk.grown_since(&START, 0), [""; 0]);
        let more = Levels {
            tasks: 39,
            memory_kib: 33_193,
            spare_leases: 20,
            ..START
        };
        let expected = [
            "39 tasks instead of 30",
            "33193 KiB of memory instead of 20000",
            "20 spare leases instead of 10",
        ];
        assert_eq!(more.grown_since(&START, 7), expected);
        assert_eq!(more.grown_since(&START, 8), expected[..2]);
    }

    #[test]
    fn what_is_not_let_go_is_named() {
        let shown = |waiting| {
            format!(
                "holdfast_http_connections 0\nholdfast_cluster_locks{{cluster=\"a\"}} 0\n\
                 holdfast_waiting_names{{cluster=\"a\"}} 0\n\
                 holdfast_waiting_requests{{cluster=\"a\"}} 0\n\
                 holdfast_waiting_requests{{cluster=\"b\"}} {waiting}\n\
                 holdfast_requests_open{{cluster=\"a\"}} 0\n\
                 holdfast_queue_depth{{cluster=\"a\",queue=\"acquires\"}} 0\n"
            )
        };
        assert_eq!(in_hand_as_shown(&shown(0)).unwrap(), [""; 0]);
        let named = in_hand_as_shown(&shown(2)).unwrap();
        assert_eq!(named, ["holdfast_waiting_requests is 2"]);
        assert!(in_hand_as_shown("").is_err());
    }

    #[test]
    fn samples_are_summed_over_their_labels() {
        let text =
            "# HELP tasks x\ntasks{threads=\"a\"} 3\ntasks{threads=\"b\"} 4\ntasks_other 9\n";
        assert_eq!(sum_of(text, "tasks{").unwrap(), 7);
        assert!(sum_of(text, "files ").is_err());
        assert_eq!(number_after("VmRSS:\t  120 kB\n", "VmRSS:").unwrap(), 120);
    }
}
