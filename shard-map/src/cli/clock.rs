//! The wall clock, for what is printed and for the history.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the operator's command is a shell: what it writes is for people"
)]
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// RFC 3339, in UTC, to the second.
pub(super) fn when(unix_ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(unix_ms);
    humantime::format_rfc3339_seconds(at).to_string()
}

/// `1h 2m 3s`
pub(super) fn took(ms: u64) -> String {
    humantime::format_duration(Duration::from_secs(ms / 1_000)).to_string()
}
