//! Every limit and default, with the reason beside it.

use std::time::Duration;

/// Connections per target that are open at one time.
pub const CONNECTIONS_PER_TARGET: usize = 16;
/// A target that does not accept within this is passed over for the next one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A gateway answers a request without a wait within 5 s; a little more covers the way.
pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(5_500);
/// The largest reply that is read: a batch of 10,000 results needs less than 4 MiB.
pub const REPLY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long [`crate::Client::hold`] repeats an acquire whose outcome is unknown.
pub const ACQUIRE_PATIENCE: Duration = Duration::from_secs(30);
/// The first pause after an unknown answer.
pub const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest pause between two tries.
pub const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// No try is given less time than this, unless the promise itself has less left.
pub const TRY_TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// A try gets this part of what is left of the promise, so that one that hangs leaves time for
/// others.
pub const TRY_SHARE: u32 = 3;

const _: () = assert!(BACKOFF_MIN.as_millis() < BACKOFF_MAX.as_millis());
const _: () = assert!(CONNECT_TIMEOUT.as_millis() < REQUEST_TIMEOUT.as_millis());
const _: () = assert!(TRY_SHARE >= 2);
