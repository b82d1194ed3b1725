//! Hostile bodies.

use super::Case;
use crate::raw::post;
use holdfast_api::paths;

const INVALID: &str = "invalid_request";

pub(crate) fn cases() -> Vec<Case> {
    [
        not_json(),
        fields_of_an_acquire(),
        limits_of_an_acquire(),
        holds(),
        batches(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn bad(path: &str, body: impl AsRef<[u8]>, says: &'static str) -> Case {
    let body = body.as_ref();
    let shown: String = String::from_utf8_lossy(body).chars().take(80).collect();
    Case::new(format!("{path} {shown}"), post(path, "", body))
        .is(400, INVALID)
        .says(says)
}

fn not_json() -> Vec<Case> {
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    let deep_field = format!(r#"{{"name":{deep}}}"#);
    let deep_metadata = format!(r#"{{"name":"n","metadata":{}"#, r#"{"a":"#.repeat(9_000));
    let mut cases = Vec::new();
    for path in [
        paths::ACQUIRE,
        paths::RENEW,
        paths::RELEASE,
        paths::RENEW_BATCH,
    ] {
        for (body, says) in [
            (&b""[..], "the body is empty"),
            (b" \n", "not valid JSON"),
            (b"{", "not valid JSON"),
            (b"}", "not valid JSON"),
            (b"nonsense", "not valid JSON"),
            (b"{'name':'a'}", "not valid JSON"),
            (b"{\"name\":\"a\",}", ""),
            (b"// comment\n{}", "not valid JSON"),
            (b"\xef\xbb\xbf{}", "not valid JSON"),
            (b"{\"\xff\":1}", ""),
            (b"\xff\xfe{\0}\0", "not valid JSON"),
            (b"\0", "not valid JSON"),
            (b"null", "JSON object"),
            (b"true", "JSON object"),
            (b"1", "JSON object"),
            (b"\"{}\"", "JSON object"),
            (b"[]", "JSON object"),
            (b"[{}]", "JSON object"),
            (b"{}", "missing field"),
            (b"{\"unknown\":1}", "unknown field `unknown`"),
            (b"{\"a\":{\"b\":[NaN]}}", "unknown field `a`"),
        ] {
            cases.push(bad(path, body, says));
        }
        cases.push(bad(path, &deep, ""));
    }
    cases.push(bad(paths::ACQUIRE, deep_field, "name: allowed is a string"));
    cases.push(bad(paths::ACQUIRE, deep_metadata, "metadata"));
    cases
}

fn fields_of_an_acquire() -> Vec<Case> {
    let mut cases = Vec::new();
    for (field, value, says) in [
        ("name", "1", "name: allowed is a string of 1 to 512 bytes"),
        ("name", "null", "name: allowed"),
        ("name", "{}", "name: allowed"),
        ("name", r#"["a"]"#, "name: allowed"),
        ("name", r#""""#, "name: is empty"),
        ("name", r#""a\u0000b""#, "name: has a control character"),
        ("name", r#""a\nb""#, "name: has a control character"),
        ("name", r#""\u007f""#, "name: has a control character"),
        ("name", "\"a\0b\"", "not valid JSON"),
        ("name", "\"a\nb\"", "not valid JSON"),
        ("name", r#""\ud800""#, "not valid JSON"),
        ("name", r#""\udc00\ud800""#, "not valid JSON"),
        ("name", r#""\x41""#, "not valid JSON"),
        (
            "ttlMs",
            r#""30000""#,
            "ttlMs: allowed is a whole number of milliseconds",
        ),
        ("ttlMs", "1e3", "ttlMs: allowed is a whole number"),
        ("ttlMs", "30000.0", "ttlMs: allowed is a whole number"),
        ("ttlMs", "30000.5", "ttlMs: allowed is a whole number"),
        ("ttlMs", "-1", "ttlMs: allowed is a whole number"),
        ("ttlMs", "-30000", "ttlMs: allowed is a whole number"),
        (
            "ttlMs",
            "18446744073709551616",
            "ttlMs: allowed is a whole number",
        ),
        ("ttlMs", "1e400", "not valid JSON"),
        ("ttlMs", "030000", "not valid JSON"),
        ("ttlMs", "+30000", "not valid JSON"),
        ("ttlMs", "0x7530", "not valid JSON"),
        ("ttlMs", "NaN", "not valid JSON"),
        ("ttlMs", "null", "ttlMs: allowed"),
        ("ttlMs", "true", "ttlMs: allowed"),
        ("ttlMs", "[30000]", "ttlMs: allowed"),
        (
            "clientId",
            "7",
            "clientId: allowed is a string of 1 to 256 bytes",
        ),
        ("clientId", r#""""#, "clientId: is empty"),
        (
            "clientId",
            r#""a\u0000""#,
            "clientId: has a control character",
        ),
        ("waitMs", r#""0""#, "waitMs: allowed"),
        ("waitMs", "-1", "waitMs: allowed"),
        ("requestId", r#""""#, "requestId: is empty"),
        ("requestId", "1", "requestId: allowed"),
        (
            "metadata",
            r#""a""#,
            "metadata: allowed is an object of strings",
        ),
        ("metadata", "[]", "metadata: allowed"),
        ("metadata", r#"{"a":1}"#, "metadata.a: allowed"),
        ("metadata", r#"{"a":{"b":"c"}}"#, "metadata.a: allowed"),
        ("metadata", r#"{"a":"1","a":"2"}"#, "has a key twice"),
    ] {
        cases.push(bad(paths::ACQUIRE, acquire(field, value), says));
    }
    for twice in ["name", "ttlMs", "clientId"] {
        let body = acquire("waitMs", "0");
        let field = format!("{{\"{twice}\":");
        let value = if twice == "ttlMs" { "1000" } else { "\"a\"" };
        let body = body.replacen('{', &format!("{field}{value},"), 1);
        cases.push(bad(paths::ACQUIRE, body, "duplicate field"));
    }
    for wrong in ["ttl_ms", "TTLMS", "ttlMs ", "leaseId", "lockId"] {
        let body = acquire("waitMs", "0").replacen('{', &format!("{{\"{wrong}\":1000,"), 1);
        cases.push(bad(paths::ACQUIRE, body, "unknown field"));
    }
    for missing in ["name", "ttlMs", "clientId"] {
        let body = acquire("waitMs", "0").replace(&format!("\"{missing}\""), "\"waitMs\"");
        cases.push(bad(paths::ACQUIRE, body, ""));
    }
    let positional = r#"["hostile",1000,"c"]"#;
    cases.push(bad(paths::ACQUIRE, positional, "JSON object"));
    for rest in ["x", "{}", ",", "\0", "]"] {
        let body = format!("{}{rest}", acquire("waitMs", "0"));
        cases.push(bad(paths::ACQUIRE, body, "something follows"));
    }
    let mut invalid_utf8 = acquire("name", "\"#\"").into_bytes();
    let at = invalid_utf8.iter().position(|byte| *byte == b'#').unwrap();
    invalid_utf8[at] = 0xff;
    cases.push(bad(paths::ACQUIRE, invalid_utf8, "not valid JSON"));
    cases
}

/// A good acquire but for this field.
fn acquire(field: &str, value: &str) -> String {
    let fields = [
        ("name", "\"hostile\""),
        ("ttlMs", "1000"),
        ("clientId", "\"c\""),
    ];
    let others = fields.iter().filter(|(name, _)| *name != field);
    let others = others.map(|(name, value)| format!(",\"{name}\":{value}"));
    format!("{{\"{field}\":{value}{}}}", others.collect::<String>())
}

fn limits_of_an_acquire() -> Vec<Case> {
    let text = |bytes: usize| format!("\"{}\"", "n".repeat(bytes));
    let metadata = |bytes: usize| format!("{{\"k\":{}}}", text(bytes));
    let mut cases = Vec::new();
    for (field, value, says) in [
        (
            "name",
            text(513),
            "name: has 513 bytes; allowed are 1 to 512",
        ),
        (
            "name",
            format!("\"{}\"", "ü".repeat(257)),
            "name: has 514 bytes",
        ),
        ("clientId", text(257), "clientId: has 257 bytes"),
        ("requestId", text(129), "requestId: has 129 bytes"),
        ("metadata", metadata(1024), "metadata: has 1025 bytes"),
        ("ttlMs", "0".to_owned(), "ttlMs: allowed are 1000 to 600000"),
        ("ttlMs", "999".to_owned(), "ttlMs: allowed are"),
        ("ttlMs", "600001".to_owned(), "ttlMs: allowed are"),
        ("ttlMs", u64::MAX.to_string(), "ttlMs: allowed are"),
        (
            "waitMs",
            "30001".to_owned(),
            "waitMs: allowed are 0 to 30000",
        ),
    ] {
        cases.push(bad(paths::ACQUIRE, acquire(field, &value), says));
    }
    for (field, value) in [
        ("name", text(512)),
        ("name", format!("\"{}\"", "\\u00fc".repeat(256))),
        ("name", "\"%2F/%00\\\"'<>\"".to_owned()),
        ("clientId", text(256)),
        ("requestId", text(128)),
        ("metadata", metadata(1023)),
        ("metadata", "null".to_owned()),
        ("waitMs", "0".to_owned()),
    ] {
        let send = post(paths::ACQUIRE, "", acquire(field, &value).as_bytes());
        cases.push(Case::new(format!("the longest {field}"), send));
    }
    cases
}

fn holds() -> Vec<Case> {
    let hold = |id: &str, token: &str| format!(r#"{{"lockId":{id},"fencingToken":{token}}}"#);
    let long = format!("\"lock-{}\"", "A".repeat(5_000));
    let mut cases = Vec::new();
    for path in [paths::RENEW, paths::RELEASE] {
        for id in [
            r#""""#,
            r#""lock-""#,
            r#""lock-AAAA""#,
            r#""lock-====""#,
            r#""4711""#,
            r#""lock-\u0000""#,
            r#""LOCK-AQ""#,
            r#""lock-ü""#,
            &long,
        ] {
            let send = post(path, "", hold(id, "1").as_bytes());
            let case = Case::new(format!("the lock id {id:.40}"), send);
            cases.push(case.is(400, "invalid_lock_id").says("lockId"));
        }
        for (id, token, says) in [
            ("1", "1", "lockId: allowed is the string"),
            ("null", "1", "lockId: allowed"),
            (
                r#""a""#,
                r#""1""#,
                "fencingToken: allowed is a whole number below",
            ),
            (r#""a""#, "1.0", "fencingToken: allowed"),
            (r#""a""#, "1e3", "fencingToken: allowed"),
            (r#""a""#, "-1", "fencingToken: allowed"),
            (r#""a""#, "null", "fencingToken: allowed"),
            (r#""a""#, "99999999999999999999", "fencingToken: allowed"),
        ] {
            cases.push(bad(path, hold(id, token), says));
        }
    }
    let ttl = r#"{"lockId":"a","fencingToken":1,"ttlMs":"5000"}"#;
    cases.push(bad(paths::RENEW, ttl, "ttlMs: allowed"));
    let ttl = r#"{"lockId":"a","fencingToken":1,"ttlMs":5000}"#;
    cases.push(bad(paths::RELEASE, ttl, "unknown field `ttlMs`"));
    cases
}

fn batches() -> Vec<Case> {
    let mut cases = Vec::new();
    for (path, field) in [
        (paths::RENEW_BATCH, "renewals"),
        (paths::ACQUIRE_BATCH, "acquisitions"),
        (paths::RELEASE_BATCH, "releases"),
    ] {
        let of = |items: &str| format!("{{\"{field}\":{items}}}");
        for (items, says) in [
            ("null", "allowed is an array of up to 10000"),
            ("{}", "allowed is an array"),
            ("\"a\"", "allowed is an array"),
            ("[1]", "[0]"),
            ("[null]", "[0]"),
            ("[[]]", "[0]"),
            ("[{}]", "[0]: missing field"),
            ("[{\"x\":1}]", "unknown field `x`"),
            ("[", "not valid JSON"),
            ("[]]", "not valid JSON"),
        ] {
            cases.push(bad(path, of(items), says));
        }
        let twice = format!("{{\"{field}\":[],\"{field}\":[]}}");
        cases.push(bad(path, twice, "duplicate field"));
        cases.push(Case::new(
            format!("an empty {field}"),
            post(path, "", of("[]").as_bytes()),
        ));
    }
    let item = r#"{"lockId":"a","fencingToken":1}"#;
    let many = vec![item; 10_001].join(",");
    let says = "renewals: has 10001 items; allowed are up to 10000";
    cases.push(bad(
        paths::RENEW_BATCH,
        format!("{{\"renewals\":[{many}]}}"),
        says,
    ));
    cases
}
