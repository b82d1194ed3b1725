//! Waiting for a condition.

use anyhow::{Result, anyhow};
use std::time::Duration;

/// How long a wait rests between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Looks again and again until `probe` gives a value, for at most `limit` of real time.
///
/// # Errors
/// When `limit` has passed: names `what` was waited for, and the last error of `probe`.
pub async fn wait_until<T, F>(
    what: &str,
    limit: Duration,
    mut probe: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut last = anyhow!("the first look did not come back");
    let polling = async {
        loop {
            match probe().await {
                Ok(value) => return value,
                Err(error) => last = error,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(limit, polling).await {
        Ok(value) => Ok(value),
        Err(_) => Err(last.context(format!("waited {limit:?} for {what}"))),
    }
}
