//! Processes: where they may run, and how much they have run.

use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::PathBuf;
use std::time::Duration;

/// Of `/proc/PID/stat`: clock ticks per second, the same on every Linux that programs see.
const TICKS_PER_SEC: u64 = 100;

/// Binds the calling thread, and those that it starts, to one core.
///
/// # Errors
/// When there is no such core.
pub(super) fn pin_this_thread(core: usize) -> anyhow::Result<()> {
    sched_setaffinity(None, &only(core)?).with_context(|| no_core(core))
}

/// The threads of a process, bound to one core for as long as this lives.
#[derive(Debug)]
pub(super) struct Pinned(Vec<(Pid, CpuSet)>);

impl Pinned {
    /// Binds every thread that the process has. One that ends meanwhile needs no core.
    ///
    /// # Errors
    /// When there is no such process or core, or it is another user's.
    pub(super) fn new(pid: Pid, core: usize) -> anyhow::Result<Self> {
        let set = only(core)?;
        let mut pinned = Self(Vec::new());
        for thread in threads(pid)? {
            let before = match sched_getaffinity(Some(thread)) {
                Err(Errno::SRCH) => continue,
                before => before.with_context(|| format!("process {pid:?} cannot be looked at"))?,
            };
            match sched_setaffinity(Some(thread), &set) {
                Err(Errno::SRCH) => continue,
                set => set.with_context(|| no_core(core))?,
            }
            pinned.0.push((thread, before));
        }
        Ok(pinned)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for (thread, before) in &self.0 {
            // A thread that has ended needs no core.
            let _ = sched_setaffinity(Some(*thread), before);
        }
    }
}

fn only(core: usize) -> anyhow::Result<CpuSet> {
    if core >= CpuSet::MAX_CPU {
        bail!(no_core(core));
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(set)
}

fn no_core(core: usize) -> String {
    format!("core {core} cannot be used")
}

fn threads(pid: Pid) -> anyhow::Result<Vec<Pid>> {
    let folder = PathBuf::from(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("no process {}", pid.as_raw_nonzero()))?;
    let mut threads = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        threads.extend(number.and_then(Pid::from_raw));
    }
    Ok(threads)
}

/// Processor time that all threads of a process have used, in user and kernel mode, to 10 ms.
///
/// # Errors
/// When there is no such process.
pub(super) fn cpu_time(pid: Pid) -> anyhow::Result<Duration> {
    let number = pid.as_raw_nonzero();
    let path = format!("/proc/{number}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("no process {number}"))?;
    ticks(&text)
        .map(|ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SEC))
        .with_context(|| format!("{path} cannot be understood"))
}

/// utime + stime. The process's name, in parentheses, may have any characters.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_whatever_the_process_is_called() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 4 0 1 2 3";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_said_to_be_missing() {
        let pid = Pid::from_raw(i32::MAX).unwrap();
        let said = cpu_time(pid).unwrap_err().to_string();
        assert!(said.contains("no process"), "{said}");
        assert!(Pinned::new(pid, 0).is_err());
    }

    #[test]
    fn a_thread_runs_where_it_ran_before_when_the_pin_is_dropped() {
        let pid = rustix::process::getpid();
        let before = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core));
        let pinned = Pinned::new(pid, first.unwrap()).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);

        // In the same test, since it binds every thread of this process.
        for _ in 0..100 {
            let brief: Vec<_> = (0..4).map(|_| std::thread::spawn(|| ())).collect();
            let pinned = Pinned::new(pid, first.unwrap());
            pinned.expect("threads that end meanwhile are passed over");
            for thread in brief {
                thread.join().unwrap();
            }
        }
    }
}
