//! The routes for operators: inspecting locks, and ending somebody's hold.
//!
//! They ask etcd, as acquires do, and are paid for like those: whoever looks again and again keeps what it
//! holds. A client's disconnect changes nothing: a force-release that reached the service is carried out.

use super::edge::{Answer, Edge, json};
use super::failure::Failure;
use super::query::Query;
use super::{reply, validate};
use crate::auth::{Right, Share, Who};
use crate::limits;
use crate::logs;
use crate::metrics::Outcome;
use crate::names::{LockName, Token};
use crate::service::{CloseOutcome, ForceRelease, Locks, PageOf, ServiceError};
use crate::time::{Clock, Millis};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_api::ForceReleaseRequest;
use http::{StatusCode, Uri};

/// What is asked to be shown.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    One(LockName),
    Page(PageOf),
}

/// The first byte of a cursor: what it means may change.
const CURSOR_VERSION: u8 = 1;

pub(super) async fn inspect<L: Locks, C: Clock>(edge: &Edge<L, C>, who: &Who, uri: &Uri) -> Answer {
    let wanted = wanted(uri.query().unwrap_or_default())?;
    let of = match &wanted {
        Wanted::One(name) => name.as_str(),
        Wanted::Page(page) => &page.prefix,
    };
    validate::check_right(who, Right::Inspect, of)?;
    who.spend(Share::Acquires)?;
    match wanted {
        Wanted::One(name) => {
            let view = edge.locks.inspect(name).await.map_err(Failure::from)?;
            let body = reply::lock_info(view, edge.clock.unix_ms());
            json(StatusCode::OK, &body, Outcome::Ok)
        }
        Wanted::Page(page) => {
            let page = edge.locks.list(page).await.map_err(Failure::from)?;
            let cursor = page.next_after.as_ref().map(cursor_after);
            let body = reply::lock_page(page.locks, cursor, edge.clock.unix_ms());
            json(StatusCode::OK, &body, Outcome::Ok)
        }
    }
}

fn wanted(query: &str) -> Result<Wanted, Failure> {
    let query = Query::read(query, &["name", "prefix", "limit", "cursor"])?;
    match (query.get("name"), query.get("prefix")) {
        (Some(name), None) => {
            if query.get("limit").or(query.get("cursor")).is_some() {
                let detail = "limit, cursor: go with `prefix`, not with `name`";
                return Err(Failure::invalid(detail));
            }
            Ok(Wanted::One(LockName::new(name)?))
        }
        (None, Some(prefix)) => page(prefix, &query).map(Wanted::Page),
        _ => Err(Failure::invalid(
            "the query: one of `name=...` and `prefix=...` (empty for all) is needed",
        )),
    }
}

fn page(prefix: &str, query: &Query<'_>) -> Result<PageOf, Failure> {
    if !prefix.is_empty() {
        LockName::check(prefix)
            .map_err(|invalid| Failure::invalid(format!("prefix: {}", invalid.problem)))?;
    }
    let limit = match query.get("limit") {
        None => limits::PAGE_LOCKS_USUAL,
        Some(limit) => limit
            .parse()
            .ok()
            .filter(|limit| (1..=limits::PAGE_LOCKS_MAX).contains(limit))
            .ok_or_else(|| {
                let max = limits::PAGE_LOCKS_MAX;
                Failure::invalid(format!("limit: allowed are whole numbers from 1 to {max}"))
            })?,
    };
    let after = match query.get("cursor") {
        None => None,
        Some(cursor) => {
            let name = name_of(cursor).filter(|name| name.starts_with(prefix));
            Some(name.ok_or_else(|| {
                let detail = "cursor: send `nextCursor` of the page before, with the same prefix";
                Failure::invalid(detail)
            })?)
        }
    };
    Ok(PageOf {
        prefix: prefix.to_owned(),
        after,
        limit,
    })
}

fn cursor_after(name: &LockName) -> String {
    let mut bytes = vec![CURSOR_VERSION];
    bytes.extend_from_slice(name.as_str().as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn name_of(cursor: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (version, name) = bytes.split_first()?;
    let name = std::str::from_utf8(name).ok()?;
    (*version == CURSOR_VERSION && LockName::check(name).is_ok()).then(|| name.to_owned())
}

pub(super) async fn force_release<L: Locks, C: Clock>(
    edge: &Edge<L, C>,
    who: &Who,
    body: &[u8],
) -> Answer {
    let sent: ForceReleaseRequest<'_> = edge.parse(body)?;
    let force = validate::force_release(&sent, who)?;
    who.spend(Share::Acquires)?;
    // The name is not free before what is told, so it is told as of now.
    let unix_ms = edge.clock.unix_ms();
    let result = edge.locks.force_release(force.clone()).await;
    audit(who, &force, &sent.reason, &result);
    let outcome = result.map_err(Failure::from)?;
    let counts = match outcome {
        CloseOutcome::Closed { .. } => Outcome::Ok,
        CloseOutcome::NotHeld => Outcome::Ended,
    };
    json(StatusCode::OK, &reply::forced(outcome, unix_ms), counts)
}

/// Notes who ended whose hold, or tried to, and why.
fn audit(
    who: &Who,
    force: &ForceRelease,
    reason: &str,
    result: &Result<CloseOutcome, ServiceError>,
) {
    let (outcome, token, free_in) = match result {
        Ok(CloseOutcome::Closed { token, free_in }) => ("released", Some(*token), Some(*free_in)),
        Ok(CloseOutcome::NotHeld) => ("not held", None, None),
        Err(error) => (error.code.as_str(), None, None),
    };
    tracing::warn!(
        target: logs::AUDIT,
        principal = who.as_str(),
        name = force.name.as_str(),
        reason,
        immediate = force.immediate,
        outcome,
        fencing_token = token.map(|Token(token)| token),
        free_in_ms = free_in.map(Millis::as_ms),
        "force-release"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(prefix: &str, after: Option<&str>, limit: usize) -> Wanted {
        Wanted::Page(PageOf {
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
            limit,
        })
    }

    #[test]
    fn a_query_means_one_lock_or_a_page() {
        let cursor = cursor_after(&LockName::new("a/1").unwrap());
        for (query, expected) in [
            (
                "name=a+b".to_owned(),
                Wanted::One(LockName::new("a b").unwrap()),
            ),
            (
                "prefix=".to_owned(),
                page("", None, limits::PAGE_LOCKS_USUAL),
            ),
            ("prefix=a%2F&limit=500".to_owned(), page("a/", None, 500)),
            (
                format!("limit=1&cursor={cursor}&prefix=a"),
                page("a", Some("a/1"), 1),
            ),
        ] {
            assert_eq!(wanted(&query), Ok(expected), "{query}");
        }
    }

    #[test]
    fn a_query_that_means_nothing_is_refused_with_what_is_allowed() {
        let cursor = cursor_after(&LockName::new("a/1").unwrap());
        for (query, expected) in [
            ("", "one of `name=...` and `prefix=...`"),
            ("limit=1", "one of `name=...`"),
            ("name=a&prefix=a", "one of `name=...`"),
            ("name=", "name: "),
            ("name=a%00", "name: "),
            ("name=a&limit=1", "limit, cursor: go with `prefix`"),
            ("prefix=%0A", "prefix: "),
            ("prefix=&limit=0", "from 1 to 500"),
            ("prefix=&limit=501", "from 1 to 500"),
            ("prefix=&limit=1e2", "from 1 to 500"),
            ("prefix=&cursor=", "cursor: send"),
            ("prefix=&cursor=AAA", "cursor: send"),
            ("prefix=&cursor=AWEK", "cursor: send"),
            (&format!("prefix=b&cursor={cursor}"), "cursor: send"),
        ] {
            let detail = wanted(query).unwrap_err().detail;
            assert!(detail.contains(expected), "{query}: {detail}");
        }
    }

    #[test]
    fn the_longest_name_fits_into_a_cursor() {
        let name = LockName::new(&"ü".repeat(limits::NAME_BYTES_MAX / 2)).unwrap();
        let cursor = cursor_after(&name);
        assert_eq!(name_of(&cursor).as_deref(), Some(name.as_str()));
        assert!(cursor.len() < limits::HEADER_BYTES_MAX / 2);
    }
}
