//! The contract of a store, checked against etcd 3.4, etcd 3.5 and the model.
//!
//! [`checks`] is one list of checks, each written once against `dyn Store`. [`differential`] sends
//! random sequences of operations to etcd and to the model and compares the answers. [`etcd_only`]
//! holds what the model cannot do: not answer.
//!
//! The modules are for tests alone, which is what lets them unwrap and panic.

#[cfg(test)]
mod checks;
#[cfg(test)]
mod differential;
#[cfg(test)]
mod etcd_only;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod model;
#[cfg(test)]
mod ops;
#[cfg(test)]
mod sequences;
#[cfg(test)]
mod target;

use fixture::Fixture;
use holdfast_rig::EtcdVersion;
use std::sync::Arc;
use target::Target;

mod etcd {
    use super::*;

    #[tokio::test]
    async fn etcd_3_4_keeps_the_contract() {
        run_all_checks(Target::etcd(EtcdVersion::V3_4).await).await;
    }

    #[tokio::test]
    async fn etcd_3_5_keeps_the_contract() {
        run_all_checks(Target::etcd(EtcdVersion::V3_5).await).await;
    }
}

/// Runs every check, one after the other (some raise alarms), and fails with the names of all
/// those that failed.
async fn run_all_checks(target: Target) {
    let target = Arc::new(target);
    let mut failed = Vec::new();
    for (number, (name, check)) in checks::CHECKS.iter().enumerate() {
        let fixture = Fixture::new(Arc::clone(&target), number);
        if tokio::spawn(check(fixture)).await.is_err() {
            failed.push(*name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} checks failed on {}: {failed:#?}",
        failed.len(),
        checks::CHECKS.len(),
        target.name(),
    );
}
