//! What may be promised, and what a client may be told of it.

use crate::limits;
use crate::lock_id::Secret;
use crate::service::Renewed;
use crate::time::{Instant, Millis};

/// How far a lease is proven by a keepalive that was sent at `sent` and answered with `ttl`:
/// never later than etcd itself would end the lease, clocks drifting by less than the margin.
pub(crate) fn proven_until(sent: Instant, ttl: Millis) -> Instant {
    sent + (ttl - margin(ttl))
}

fn margin(ttl: Millis) -> Millis {
    ttl.percent(1) + limits::PROOF_MARGIN
}

/// What a client may be told of a hold that lasts `held` from now: a hundredth less, for the
/// drift of its clock, and to renew after about a third of it. The jitter of ±10 % spreads a
/// fleet that started at once; it comes from the hold's own random bits and the time, so that no
/// generator is shared between threads.
pub(crate) fn told(held: Millis, now: Instant, secret: Secret) -> Renewed {
    let ttl = held.percent(99);
    let third = ttl.as_ms() / 3;
    let spread = third / 5;
    let jitter = if spread == 0 {
        0
    } else {
        mix(secret, now) % (spread + 1)
    };
    Renewed {
        ttl,
        renew_after: Millis::from_ms(third - spread / 2 + jitter),
    }
}

/// A well-spread hash of both (the finaliser of SplitMix64).
fn mix(secret: Secret, now: Instant) -> u64 {
    let low = u64::try_from(secret.0 & u128::from(u64::MAX)).unwrap_or(0);
    let mut hash = low ^ now.as_ms().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_proof_counts_from_the_send_and_keeps_a_margin() {
        let until = proven_until(Instant::from_ms(1_000), Millis::from_secs(9));
        assert_eq!(until, Instant::from_ms(1_000 + 9_000 - 90 - 250));
    }

    #[test]
    fn a_ttl_within_the_margin_proves_nothing() {
        let sent = Instant::from_ms(1_000);
        assert_eq!(proven_until(sent, Millis::from_ms(200)), sent);
        assert_eq!(proven_until(sent, Millis::ZERO), sent);
    }

    proptest! {
        #[test]
        fn a_client_is_told_a_hundredth_less_and_to_renew_after_about_a_third(
            held in 0u64..2_000_000, now: u64, bits: u128,
        ) {
            let held = Millis::from_ms(held);
            let told = told(held, Instant::from_ms(now), Secret(bits));
            prop_assert!(told.ttl <= held.percent(99));
            let third = told.ttl.as_ms() / 3;
            prop_assert!(told.renew_after.as_ms() >= third * 9 / 10);
            prop_assert!(told.renew_after.as_ms() <= third * 11 / 10 + 1);
        }
    }
}
