//! Checks of single values. Pure: each notes what is wrong and goes on with a default.

use super::problems::Problems;
use crate::time::Millis;
use http::Uri;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// A whole number within `allowed`, or `default` when none is given.
pub(super) fn whole<N>(
    place: &str,
    given: Option<u64>,
    default: N,
    allowed: RangeInclusive<N>,
    problems: &mut Problems,
) -> N
where
    N: Copy + PartialOrd + TryFrom<u64> + std::fmt::Display,
{
    let Some(given) = given else {
        return default;
    };
    match N::try_from(given) {
        Ok(number) if allowed.contains(&number) => number,
        _ => {
            let (least, most) = (allowed.start(), allowed.end());
            problems.add(place, format!("is {given}; allowed are {least} to {most}"));
            default
        }
    }
}

/// Milliseconds within `allowed`.
pub(super) fn millis(
    place: &str,
    given: Option<u64>,
    default: Millis,
    allowed: RangeInclusive<Millis>,
    problems: &mut Problems,
) -> Millis {
    let allowed = allowed.start().as_ms()..=allowed.end().as_ms();
    let ms = whole(place, given, default.as_ms(), allowed, problems);
    Millis::from_ms(ms)
}

/// Milliseconds within `allowed` that are whole seconds, because etcd counts in seconds.
pub(super) fn whole_seconds(
    place: &str,
    given: Option<u64>,
    default: Millis,
    allowed: RangeInclusive<Millis>,
    problems: &mut Problems,
) -> Millis {
    let time = millis(place, given, default, allowed, problems);
    if time.as_ms().is_multiple_of(1000) {
        return time;
    }
    problems.add(place, "must be a multiple of 1000: etcd counts in seconds");
    default
}

/// An address to listen on.
pub(super) fn address(
    place: &str,
    given: Option<&str>,
    default: SocketAddr,
    problems: &mut Problems,
) -> SocketAddr {
    let Some(given) = given else {
        return default;
    };
    given.parse().unwrap_or_else(|_| {
        let text = "is no address; write an IP address and a port, such as 127.0.0.1:8080";
        problems.add(place, text);
        default
    })
}

/// The base URL of a server such as `example`, without a slash at the end: http or https, a host, and
/// nothing else but perhaps a port.
pub(super) fn base_url(
    place: &str,
    given: &str,
    example: &str,
    problems: &mut Problems,
) -> Option<String> {
    let good = |uri: &Uri| {
        let scheme = uri
            .scheme_str()
            .is_some_and(|scheme| matches!(scheme, "http" | "https"));
        let user = uri
            .authority()
            .is_some_and(|host| host.as_str().contains('@'));
        scheme && !user && matches!(uri.path(), "" | "/") && uri.query().is_none()
    };
    match given.parse::<Uri>() {
        Ok(uri) if good(&uri) => Some(given.trim_end_matches('/').to_owned()),
        _ => {
            problems.add(place, format!("is no URL of a server such as {example}"));
            None
        }
    }
}

/// Two keys that only make sense together.
pub(super) fn both<A, B>(
    places: (&str, &str),
    given: (Option<A>, Option<B>),
    problems: &mut Problems,
) -> Option<(A, B)> {
    let (one, other) = places;
    match given {
        (Some(a), Some(b)) => Some((a, b)),
        (None, None) => None,
        (Some(_), None) => {
            problems.add(other, format!("is needed with `{one}`"));
            None
        }
        (None, Some(_)) => {
            problems.add(one, format!("is needed with `{other}`"));
            None
        }
    }
}
