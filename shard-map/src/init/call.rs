//! Asking a store, more than once if need be.

use holdfast_store::{DefiniteError, Op, Reply, Store, StoreError, Txn, TxnReply};
use std::time::Duration;

/// How long one attempt may take: longer than an election.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a transaction is sent before its failure is reported.
const ATTEMPTS_MAX: u32 = 3;
/// Between two attempts: enough for another endpoint to be chosen.
const RETRY_PAUSE: Duration = Duration::from_millis(300);

/// Carries out a transaction that may be repeated: one that reads, or whose writes are guarded so
/// that a second time changes nothing. An unknown outcome is therefore simply tried again.
pub(super) async fn call_txn(store: &dyn Store, txn: Txn) -> Result<TxnReply, StoreError> {
    let mut attempt = 1;
    loop {
        let worth_another = match store.call(Op::Txn(txn.clone()), CALL_TIMEOUT).await {
            Ok(Reply::Txn(reply)) => return Ok(reply),
            Ok(other) => {
                StoreError::Ambiguous(format!("not the reply to a transaction: {other:?}"))
            }
            Err(error @ StoreError::Ambiguous(_)) => error,
            Err(error @ StoreError::Definite(DefiniteError::Unreachable(_))) => error,
            Err(error) => return Err(error),
        };
        if attempt == ATTEMPTS_MAX {
            return Err(worth_another);
        }
        attempt += 1;
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}
