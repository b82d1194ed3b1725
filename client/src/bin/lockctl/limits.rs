//! Every limit and default, with the reason beside it.

use std::time::Duration;

/// The longest wait of one request: what gateways allow unless they are configured otherwise.
pub(crate) const WAIT_PER_REQUEST: Duration = Duration::from_secs(30);
/// The usual time between SIGTERM and SIGKILL, or [`GRACE_SHARE`] of the TTL where that is less.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// So that two of three renewals are due before the command is told to end.
pub(crate) const GRACE_SHARE: u32 = 3;
/// With more of the TTL than this as grace, the command would be ended before it was worth it.
pub(crate) const GRACE_SHARE_MAX: u32 = 2;
/// How long a release is repeated after a command has ended. Then the hold ends by its TTL.
pub(crate) const RELEASE_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether what a lost command had started has ended.
pub(crate) const LINGER_LOOK: Duration = Duration::from_millis(50);
/// Locks on a page: as many as gateways give.
pub(crate) const PAGE: usize = 500;
/// Locks of one list; they are kept until all have come.
pub(crate) const LIST_MAX: usize = 100_000;

const _: () = assert!(GRACE_SHARE > GRACE_SHARE_MAX);
