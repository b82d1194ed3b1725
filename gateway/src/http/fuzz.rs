//! What must hold of the readers of requests ([`crate::fuzz`]).

use super::failure::Failure;
use super::{Bounds, parse, usual, validate};
use crate::auth::{Auth, Budgets, Caller, Rates, Who};
use crate::names::Token;
use crate::service::{Acquire, Renew};
use holdfast_api::{
    AcquireBatch, AcquireRequest, ReleaseBatch, ReleaseRequest, RenewBatch, RenewRequest,
};
use serde::Deserialize;
use std::net::Ipv4Addr;

pub use super::guard::fuzz::heads;

/// The first byte says for which route the rest is a body. What is accepted is within its bounds
/// and the same for both readers; what is refused is the client's fault, and told briefly.
pub fn bodies(bytes: &[u8]) {
    let Some((route, body)) = bytes.split_first() else {
        return;
    };
    match route % 6 {
        0 => acquire(body),
        1 => renewal(body),
        2 => release(body),
        3 => ignore(read::<AcquireBatch<'_>>(body)),
        4 => renewals(body),
        _ => ignore(read::<ReleaseBatch<'_>>(body)),
    }
}

/// What was read is only to be readable.
fn ignore<T>(_: Option<T>) {}

fn acquire(body: &[u8]) {
    let bounds = Bounds::default();
    let Some(sent) = read::<AcquireRequest<'_>>(body) else {
        return;
    };
    let accepted = validate::acquire(sent, &bounds, &anybody());
    check_refusal(accepted.map(|Acquire { ttl, principal, .. }| {
        assert!((bounds.ttl_min..=bounds.ttl_max).contains(&ttl));
        assert!(principal.is_none());
    }));
}

fn renewal(body: &[u8]) {
    let bounds = Bounds::default();
    let sent = read::<RenewRequest<'_>>(body);
    if let Some(usual) = usual::renewal(body) {
        assert_eq!(Some(&usual), sent.as_ref());
    }
    let Some(sent) = sent else { return };
    let accepted = validate::renew(&sent, &bounds, &anybody());
    check_refusal(accepted.map(|Renew { ttl, token, .. }| {
        assert!(ttl.is_none_or(|ttl| (bounds.ttl_min..=bounds.ttl_max).contains(&ttl)));
        assert!(token.0 < Token::END);
    }));
}

fn release(body: &[u8]) {
    let Some(sent) = read::<ReleaseRequest<'_>>(body) else {
        return;
    };
    let accepted = validate::release(&sent, &anybody());
    check_refusal(accepted.map(|release| assert!(release.token.0 < Token::END)));
}

fn renewals(body: &[u8]) {
    let sent = read::<RenewBatch<'_>>(body);
    if let Some(usual) = usual::renewals(body) {
        assert_eq!(Some(usual), sent);
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    let read = parse::object(body, &Bounds::default());
    if read.is_ok() {
        let value: serde_json::Value = serde_json::from_slice(body).expect("it is JSON");
        assert!(value.is_object());
    }
    check_refusal(read)
}

fn check_refusal<T>(result: Result<T, Failure>) -> Option<T> {
    result
        .map_err(|failure| {
            assert!(matches!(failure.code.status(), 400 | 501), "{failure:?}");
            assert!((1..1_000).contains(&failure.detail.len()), "{failure:?}");
        })
        .ok()
}

fn anybody() -> Who {
    let auth = Auth::open(Budgets::new(Rates::default(), Rates::default()));
    let caller = Caller::new(auth, Ipv4Addr::LOCALHOST.into(), None);
    caller.identify(None).expect("everybody may in")
}
