//! Reads JSON bodies, and says what is wrong with one and what is allowed instead. Pure.

use super::Bounds;
use super::failure::Failure;
use crate::limits;
use crate::names::Token;
use holdfast_api::Object;
use serde::Deserialize;

/// Reads a body that is one JSON object.
///
/// # Errors
/// When it is not; the text names the field (of which item) and what is allowed, and repeats no
/// value of the body, since values may be secret.
pub(super) fn object<'a, T>(body: &'a [u8], bounds: &Bounds) -> Result<T, Failure>
where
    T: Deserialize<'a>,
{
    // The derived readers also take an array, so what is no object is not shown to them.
    let begins = body.iter().find(|byte| !byte.is_ascii_whitespace());
    if begins == Some(&b'{')
        && let Ok(read) = serde_json::from_slice(body)
    {
        return Ok(read);
    }
    Err(Failure::invalid(explain::<T>(body, bounds)))
}

/// Reads again, slower, to find out where the fault is.
fn explain<'a, T: Deserialize<'a>>(body: &'a [u8], bounds: &Bounds) -> String {
    if body.is_empty() {
        return "the body is empty; send a JSON object".to_owned();
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let Err(error) = serde_path_to_error::deserialize::<_, Object<T>>(&mut reader) else {
        return "something follows the JSON object; send nothing but the object".to_owned();
    };
    let path = error.path().to_string();
    let fault = error.inner();
    if !fault.is_data() {
        // These texts speak of characters and places only.
        return format!("the body is not valid JSON: {fault}");
    }
    let fault = fault.to_string();
    let place = if path == "." { "the body" } else { &path };
    let place = clip(place);
    for told in ["missing field", "unknown field", "duplicate field"] {
        if fault.starts_with(told) {
            return format!("{place}: {}", clip_quoted(&fault));
        }
    }
    if fault.starts_with("duplicate key") {
        return format!("{place}: has a key twice");
    }
    let field = path.split('.').rev().find_map(|part| allowed(part, bounds));
    match field {
        Some(allowed) => format!("{place}: allowed is {allowed}"),
        None => format!("{place}: allowed is a JSON object"),
    }
}

/// What may stand in a field; `None` for what is no field of ours.
fn allowed(field: &str, bounds: &Bounds) -> Option<String> {
    let text = |bytes_max| format!("a string of 1 to {bytes_max} bytes of UTF-8");
    Some(match field {
        "name" => text(limits::NAME_BYTES_MAX),
        "clientId" => text(limits::CLIENT_ID_BYTES_MAX),
        "requestId" => text(limits::REQUEST_ID_BYTES_MAX),
        "reason" => text(limits::REASON_BYTES_MAX),
        "immediate" => "true or false".to_owned(),
        "lockId" => "the string that the acquire answered".to_owned(),
        "fencingToken" => format!("a whole number below {}, without quotes", Token::END),
        "ttlMs" => format!(
            "a whole number of milliseconds from {} to {}, without quotes",
            bounds.ttl_min.as_ms(),
            bounds.ttl_max.as_ms()
        ),
        "waitMs" => format!(
            "a whole number of milliseconds up to {}, without quotes",
            bounds.wait_max.as_ms()
        ),
        "metadata" => format!(
            "an object of strings, {} bytes in all",
            limits::METADATA_BYTES_MAX
        ),
        "renewals" | "acquisitions" | "releases" => {
            format!("an array of up to {} objects", limits::BATCH_ITEMS_MAX)
        }
        _ => return None,
    })
}

/// The beginning of a piece of client input.
fn clip(text: &str) -> &str {
    let end = text.floor_char_boundary(limits::ECHO_BYTES_MAX);
    &text[..end]
}

/// Shortens what stands between the first pair of backticks: a key that the client chose.
fn clip_quoted(text: &str) -> String {
    let mut parts = text.splitn(3, '`');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(before), Some(key), Some(after)) => format!("{before}`{}`{after}", clip(key)),
        _ => clip(text).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_api::{AcquireRequest, RenewBatch};

    fn check_acquire(body: &str, expected: &str) {
        let read = object::<AcquireRequest<'_>>(body.as_bytes(), &Bounds::default());
        let detail = read.map(|_| ()).unwrap_err().detail;
        assert!(detail.contains(expected), "{body}: {detail}");
    }

    #[test]
    fn the_text_names_the_field_and_what_is_allowed() {
        for (body, expected) in [
            ("", "the body is empty"),
            ("{", "not valid JSON"),
            ("{}", "missing field `name`"),
            ("[]", "the body: allowed is a JSON object"),
            (r#"["n",1000,"c"]"#, "the body: allowed is a JSON object"),
            ("null", "the body: allowed is a JSON object"),
            (
                r#"{"name":1}"#,
                "name: allowed is a string of 1 to 512 bytes",
            ),
            (
                r#"{"name":"n","ttlMs":"30000"}"#,
                "ttlMs: allowed is a whole number of milliseconds from 1000 to 600000",
            ),
            (r#"{"name":"n","ttlMs":1e3}"#, "ttlMs: allowed"),
            (r#"{"name":"n","ttlMs":-1}"#, "ttlMs: allowed"),
            (
                r#"{"name":"n","ttlMs":99999999999999999999}"#,
                "ttlMs: allowed",
            ),
            (r#"{"name":"n","ttlMs":1e999}"#, "not valid JSON"),
            (
                r#"{"ttl_ms":1}"#,
                "unknown field `ttl_ms`, expected one of `name`",
            ),
            (r#"{"name":"n","name":"n"}"#, "duplicate field `name`"),
            (r#"{"metadata":{"a":"1","a":"2"}}"#, "has a key twice"),
            (
                r#"{"metadata":{"a":1}}"#,
                "metadata.a: allowed is an object of strings",
            ),
            (
                r#"{"name":"n","ttlMs":1000,"clientId":"c"} x"#,
                "something follows",
            ),
            ("{\"name\":\"\u{0}\"}", "not valid JSON"),
            (r#"{"name":"\ud800"}"#, "not valid JSON"),
        ] {
            check_acquire(body, expected);
        }
    }

    #[test]
    fn the_text_names_the_item_of_a_batch() {
        let body =
            br#"{"renewals":[{"lockId":"a","fencingToken":1},{"lockId":"b","fencingToken":"1"}]}"#;
        let read = object::<RenewBatch<'_>>(body, &Bounds::default());
        let detail = read.map(|_| ()).unwrap_err().detail;
        assert!(
            detail.starts_with("renewals[1].fencingToken: allowed is"),
            "{detail}"
        );
    }

    #[test]
    fn the_text_repeats_no_value_and_no_long_key() {
        let secret = "lock-secret";
        let body = format!(r#"{{"renewals":[{{"lockId":"a","fencingToken":"{secret}"}}]}}"#);
        let read = object::<RenewBatch<'_>>(body.as_bytes(), &Bounds::default());
        let detail = read.map(|_| ()).unwrap_err().detail;
        assert!(!detail.contains(secret), "{detail}");
        check_acquire(
            &format!(r#"{{"{}":1}}"#, "k".repeat(9999)),
            "unknown field `kkkk",
        );
        let body = format!(r#"{{"{}":1}}"#, "k".repeat(9999));
        let read = object::<AcquireRequest<'_>>(body.as_bytes(), &Bounds::default());
        assert!(read.map(|_| ()).unwrap_err().detail.len() < 400);
    }
}
