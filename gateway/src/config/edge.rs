//! What clients may ask for, and how long the edge waits for them. Pure.

use super::check::{millis, whole};
use super::problems::Problems;
use super::raw::{RawHttp, RawLimits};
use crate::auth::Rates;
use crate::http::{Bounds, ConnectionsMax, EdgeSettings, Timeouts};
use crate::limits;
use crate::time::Millis;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;

const AT_LEAST_1_MS: Millis = Millis::from_ms(1);
/// Of what principals and addresses may ask for and have.
const ALLOWANCES: RangeInclusive<u32> = 0..=limits::ALLOWANCE_CONFIGURED_MAX;

pub(super) fn edge(limits: &RawLimits, http: &RawHttp, problems: &mut Problems) -> EdgeSettings {
    let bounds = bounds(limits, problems);
    let mut timeout = |place, given, default| {
        let allowed = AT_LEAST_1_MS..=limits::CONFIGURED_MAX;
        millis(place, given, default, allowed, problems)
    };
    let defaults = Timeouts::default();
    let (header, body) = (http.header_timeout_ms, http.body_timeout_ms);
    let (idle, write) = (http.idle_timeout_ms, http.write_timeout_ms);
    let timeouts = Timeouts {
        header: timeout("http.header_timeout_ms", header, defaults.header),
        body: timeout("http.body_timeout_ms", body, defaults.body),
        idle: timeout("http.idle_timeout_ms", idle, defaults.idle),
        write: timeout("http.write_timeout_ms", write, defaults.write),
    };
    // A connection must not count as idle while its request is being answered.
    let longest = timeouts.body + bounds.wait_max + limits::ANSWER_MAX;
    if timeouts.idle <= longest || timeouts.idle <= timeouts.header {
        let text = format!(
            "must be longer than http.header_timeout_ms, and than http.body_timeout_ms + \
             limits.wait_ms_max + {} = {}",
            limits::ANSWER_MAX.as_ms(),
            longest.as_ms()
        );
        problems.add("http.idle_timeout_ms", text);
    }
    EdgeSettings {
        bounds,
        timeouts,
        connections_max: ConnectionsMax(whole(
            "limits.connections_max",
            limits.connections_max,
            limits::CONNECTIONS_MAX,
            1..=limits::CONNECTIONS_CONFIGURED_MAX,
            problems,
        )),
        // None by default: behind a load balancer all clients have one address.
        address_connections_max: Some(whole(
            "limits.address_connections_max",
            limits.address_connections_max,
            0,
            0..=limits::CONNECTIONS_CONFIGURED_MAX,
            problems,
        ))
        .filter(|max| *max > 0),
    }
}

/// 0 means any number.
pub(super) fn principal_locks_max(raw: &RawLimits, problems: &mut Problems) -> Option<NonZeroU32> {
    NonZeroU32::new(whole(
        "limits.principal_locks_max",
        raw.principal_locks_max,
        limits::PRINCIPAL_LOCKS_MAX,
        ALLOWANCES,
        problems,
    ))
}

/// Those of a principal and of an address; 0 means any number. Addresses have none by default:
/// behind a load balancer all clients have one.
pub(super) fn rates(raw: &RawLimits, problems: &mut Problems) -> [Rates; 2] {
    let mut rate =
        |place, given, default| NonZeroU32::new(whole(place, given, default, ALLOWANCES, problems));
    let principal = Rates {
        acquires: rate(
            "limits.principal_acquires_per_s",
            raw.principal_acquires_per_s,
            limits::PRINCIPAL_ACQUIRES_PER_S,
        ),
        upkeep: rate(
            "limits.principal_renewals_per_s",
            raw.principal_renewals_per_s,
            limits::PRINCIPAL_RENEWALS_PER_S,
        ),
        waits: rate(
            "limits.principal_waits_max",
            raw.principal_waits_max,
            limits::PRINCIPAL_WAITS_MAX,
        ),
    };
    let address = Rates {
        acquires: rate(
            "limits.address_acquires_per_s",
            raw.address_acquires_per_s,
            0,
        ),
        upkeep: rate(
            "limits.address_renewals_per_s",
            raw.address_renewals_per_s,
            0,
        ),
        waits: None,
    };
    [principal, address]
}

fn bounds(raw: &RawLimits, problems: &mut Problems) -> Bounds {
    let defaults = Bounds::default();
    let ttls = limits::TTL_MIN..=limits::CONFIGURED_MAX;
    let (least, most) = (raw.ttl_ms_min, raw.ttl_ms_max);
    let bounds = Bounds {
        ttl_min: millis(
            "limits.ttl_ms_min",
            least,
            defaults.ttl_min,
            ttls.clone(),
            problems,
        ),
        ttl_max: millis("limits.ttl_ms_max", most, defaults.ttl_max, ttls, problems),
        wait_max: millis(
            "limits.wait_ms_max",
            raw.wait_ms_max,
            defaults.wait_max,
            Millis::ZERO..=limits::CONFIGURED_MAX,
            problems,
        ),
    };
    if bounds.ttl_max < bounds.ttl_min {
        let least = bounds.ttl_min.as_ms();
        let text = format!("must be at least limits.ttl_ms_min ({least})");
        problems.add("limits.ttl_ms_max", text);
    }
    bounds
}
