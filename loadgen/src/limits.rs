//! Every limit and constant, with the reason beside it.

use std::time::Duration;

/// Locks of one run; a lock's index is a `u32`, and ten million need about 2 GB.
pub(crate) const LOCKS_MAX: u32 = 10_000_000;
/// Items of one batch request, as the lock API has it.
pub(crate) const BATCH_ITEMS_MAX: usize = 10_000;
/// Longest name prefix: with the seed and the index, names stay below the API's 512 bytes.
pub(crate) const PREFIX_BYTES_MAX: usize = 200;
/// Connections of one run.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;
/// Locks that share one client id, as the locks of one worker process do.
pub(crate) const LOCKS_PER_CLIENT: u32 = 100;
/// Of the connections, this part may be busy with acquires and releases, so that renewals find
/// one free.
pub(crate) const ERRANDS_SHARE: (usize, usize) = (3, 4);
/// A gateway answers within 5 s.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(5);
/// Shorter than this, a timeout measures the scheduler.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// The acquire phase and the release phase end when nothing was achieved for so long.
pub(crate) const STALL: Duration = Duration::from_secs(30);
/// Between tries for a name that someone else holds.
pub(crate) const REFUSED_PAUSE: Duration = Duration::from_millis(500);
/// Between tries after a request that must be changed: it will hardly be heard next time.
pub(crate) const REJECTED_PAUSE: Duration = Duration::from_secs(1);
/// Between tries of one contender.
pub(crate) const CONTENDER_PAUSE: Duration = Duration::from_millis(20);
/// Names that one contender tries in turn.
pub(crate) const NAMES_PER_CONTENDER: u32 = 100;
/// Contenders that look for locks without a holder, when none were asked for.
pub(crate) const POLLERS: usize = 8;
/// How long before its promise ends a stopped holder's lock is tried first: it must be refused.
pub(crate) const POLL_BEFORE: Duration = Duration::from_millis(200);
/// The first pause between two tries for a stopped holder's lock.
pub(crate) const POLL_PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest.
pub(crate) const POLL_PAUSE_MAX: Duration = Duration::from_secs(1);
/// A lock whose renewal is not answered yet is released a little later.
pub(crate) const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// A connection that had to turn to another target tries its own again after this.
pub(crate) const REHOME_AFTER: Duration = Duration::from_secs(10);
/// A target that does not accept within this is passed over.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest sleep of a worker's driver, so that it notices what others have changed.
pub(crate) const DRIVER_SLEEP_MAX: Duration = Duration::from_millis(5);
/// How often workers show what they have done; a phase ends that much late.
pub(crate) const PUBLISH_EVERY: Duration = Duration::from_millis(50);
/// The time over which the latencies are taken that are shown live.
pub(crate) const RECENT: Duration = Duration::from_secs(1);
/// How often a line is printed where no terminal is.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(5);
/// Findings of one kind that are reported with their history; all are counted.
pub(crate) const SAMPLES_PER_KIND_MAX: usize = 100;
/// Past this lateness at the 99th percentile the report warns that it measures the generator.
pub(crate) const LATENESS_WARN: Duration = Duration::from_millis(100);
/// Runs of each measurement of `baseline`; more take hours.
pub(crate) const BASELINE_RUNS_MAX: usize = 1000;
/// Below this part of its time, a server of `baseline` waited for the client.
pub(crate) const BASELINE_BUSY_MIN: f64 = 0.95;
/// Connections over which `baseline` acquires and releases.
pub(crate) const BASELINE_ASKERS: usize = 32;
/// Locks that it acquires or releases with one request.
pub(crate) const BASELINE_BATCH: usize = 100;
/// How often it tries to.
pub(crate) const BASELINE_TRIES: usize = 10;

const _: () = assert!(TIMEOUT_MIN.as_millis() < TIMEOUT_MAX.as_millis());
const _: () = assert!(LOCKS_MAX < u32::MAX);
const _: () = assert!(ERRANDS_SHARE.0 < ERRANDS_SHARE.1);
