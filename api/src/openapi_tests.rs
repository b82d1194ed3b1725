//! Holds the OpenAPI document against the wire types.

use crate::{
    AcquireBatch, AcquireReply, AcquireRequest, AcquireResult, BatchReply, EndReason, ErrorCode,
    ForceReleaseReply, ForceReleaseRequest, ItemError, LockInfo, LockPage, OPENAPI_JSON, Object,
    Problem, RefusalReason, ReleaseBatch, ReleaseReply, ReleaseRequest, ReleaseResult, RenewBatch,
    RenewReply, RenewRequest, RenewResult, TokenMismatch, paths,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn document() -> Value {
    serde_json::from_str(OPENAPI_JSON).unwrap()
}

/// A validator of one schema, which may refer to the document's components.
fn validator(schema: &Value) -> jsonschema::Validator {
    let mut schema = schema.clone();
    schema["components"] = document()["components"].clone();
    jsonschema::options()
        .should_validate_formats(true)
        .build(&schema)
        .unwrap()
}

fn component(name: &str) -> jsonschema::Validator {
    validator(&json!({ "$ref": format!("#/components/schemas/{name}") }))
}

fn check_valid(validator: &jsonschema::Validator, what: &str, value: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {value} breaks {errors:?}");
}

/// `value`, whose every optional field is there, is what the document says, and says no field
/// that the document does not have.
fn check_reply<T: Serialize>(name: &str, value: &T) {
    let value = serde_json::to_value(value).unwrap();
    check_valid(&component(name), name, &value);
    let schema = &document()["components"]["schemas"][name];
    for field in value.as_object().unwrap().keys() {
        assert!(
            schema["properties"][field].is_object(),
            "{name} has no {field}"
        );
    }
    let documented = schema["properties"].as_object().unwrap().len();
    assert_eq!(
        value.as_object().unwrap().len(),
        documented,
        "{name}: {value}"
    );
}

/// Reads a request and writes it again.
type Reread = fn(&str) -> Result<Value, serde_json::Error>;

fn reread<'a, T: Serialize + Deserialize<'a>>(text: &'a str) -> Result<Value, serde_json::Error> {
    let read: Object<T> = serde_json::from_str(text)?;
    serde_json::to_value(&read.0)
}

/// Every example of a request reads as its type, and writes back to the same.
fn check_request(path: &str, reread: Reread) {
    let document = document();
    let body = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"];
    for example in body["examples"].as_object().unwrap().values() {
        let sent = &example["value"];
        assert_eq!(reread(&sent.to_string()).unwrap(), *sent);
    }
}

/// The type takes every field that the document has, needs those that the document says are
/// needed, and takes no other.
fn check_fields(name: &str, reread: Reread, full: &Value) {
    check_valid(&component(name), name, full);
    let schema = &document()["components"]["schemas"][name];
    let documented: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let fields: BTreeSet<&String> = full.as_object().unwrap().keys().collect();
    assert_eq!(documented, fields, "{name}");
    assert_eq!(reread(&full.to_string()).unwrap(), *full);
    let required = strings(&schema["required"]);
    for field in fields {
        let mut without = full.clone();
        without.as_object_mut().unwrap().remove(field);
        let taken = reread(&without.to_string()).is_ok();
        assert_eq!(taken, !required.contains(field.as_str()), "{name} {field}");
    }
    let mut more = full.clone();
    more["other"] = json!(1);
    assert!(!component(name).is_valid(&more), "{name}");
    assert!(reread(&more.to_string()).is_err(), "{name}");
}

/// Visits every object of the document with its place.
fn visit(value: &Value, place: &str, look: &mut impl FnMut(&str, &Value)) {
    look(place, value);
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                visit(inner, &format!("{place}/{name}"), look);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                visit(inner, &format!("{place}/{at}"), look);
            }
        }
        _ => {}
    }
}

fn strings(values: &Value) -> BTreeSet<&str> {
    let values = values.as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap()).collect()
}

#[test]
fn every_route_is_documented_and_nothing_else() {
    let document = document();
    let documented: BTreeSet<&str> = document["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(documented, BTreeSet::from_iter(paths::ALL.iter().copied()));
}

#[test]
fn every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
    let document = document();
    let mut names = BTreeSet::new();
    visit(&document, "", &mut |place, value| {
        if let Some(target) = value.get("$ref").and_then(Value::as_str) {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{place}: {target}");
        }
        if let Some(name) = value.get("operationId").and_then(Value::as_str) {
            assert!(names.insert(name.to_owned()), "{name} twice");
            assert!(value["summary"].is_string() && value["responses"].is_object());
        }
    });
    assert_eq!(names.len(), paths::ALL.len());
}

#[test]
fn every_error_code_is_documented_with_its_status_and_an_example() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let codes: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(strings(&schemas["ErrorCode"]["enum"]), codes);
    let mut exampled = BTreeMap::new();
    visit(&document["components"]["responses"], "", &mut |_, value| {
        if let Ok(problem) = serde_json::from_value::<Problem>(value.clone()) {
            assert_eq!(problem.status, problem.code.status());
            assert_eq!(problem.title, problem.code.title());
            exampled.insert(problem.code.as_str(), problem.status);
        }
    });
    assert_eq!(exampled.keys().copied().collect::<BTreeSet<_>>(), codes);
}

#[test]
fn every_response_that_refers_to_an_error_does_so_under_its_status() {
    let document = document();
    visit(&document["paths"], "", &mut |place, value| {
        let Some(responses) = value.get("responses").and_then(Value::as_object) else {
            return;
        };
        for (status, response) in responses {
            let Some(target) = response["$ref"].as_str() else {
                continue;
            };
            visit(
                document.pointer(&target[1..]).unwrap(),
                "",
                &mut |_, inner| {
                    if let Ok(problem) = serde_json::from_value::<Problem>(inner.clone()) {
                        assert_eq!(problem.status.to_string(), *status, "{place}");
                    }
                },
            );
        }
    });
}

#[test]
fn every_example_is_what_its_schema_says() {
    let mut examples = 0;
    visit(&document(), "", &mut |place, value| {
        if let (Some(schema), Some(given)) = (value.get("schema"), value.get("examples")) {
            let validator = validator(schema);
            for (name, example) in given.as_object().unwrap() {
                check_valid(&validator, &format!("{place} {name}"), &example["value"]);
                examples += 1;
            }
        }
    });
    assert!(examples > 30, "only {examples} examples");
}

#[test]
fn every_example_of_a_request_reads_as_its_type() {
    check_request(paths::ACQUIRE, |text| reread::<AcquireRequest<'_>>(text));
    check_request(paths::RENEW, |text| reread::<RenewRequest<'_>>(text));
    check_request(paths::RELEASE, |text| reread::<ReleaseRequest<'_>>(text));
    check_request(paths::FORCE_RELEASE, |text| {
        reread::<ForceReleaseRequest<'_>>(text)
    });
    check_request(paths::ACQUIRE_BATCH, |text| {
        reread::<AcquireBatch<'_>>(text)
    });
    check_request(paths::RENEW_BATCH, |text| reread::<RenewBatch<'_>>(text));
    check_request(paths::RELEASE_BATCH, |text| {
        reread::<ReleaseBatch<'_>>(text)
    });
}

#[test]
fn every_documented_field_of_a_request_is_taken_and_no_other() {
    let acquire = json!({
        "name": "n", "ttlMs": 1000, "clientId": "c", "waitMs": 0,
        "metadata": { "a": "b" }, "requestId": "r",
    });
    let renew = json!({ "lockId": "l", "fencingToken": 1, "ttlMs": 1000 });
    let release = json!({ "lockId": "l", "fencingToken": 1 });
    check_fields(
        "AcquireRequest",
        |text| reread::<AcquireRequest<'_>>(text),
        &acquire,
    );
    check_fields(
        "RenewRequest",
        |text| reread::<RenewRequest<'_>>(text),
        &renew,
    );
    let force = json!({ "name": "n", "reason": "r", "immediate": true });
    check_fields(
        "ForceReleaseRequest",
        |text| reread::<ForceReleaseRequest<'_>>(text),
        &force,
    );
    check_fields(
        "ReleaseRequest",
        |text| reread::<ReleaseRequest<'_>>(text),
        &release,
    );
}

#[test]
fn the_words_for_reasons_are_those_of_the_types() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let words = |reasons: &[Value]| {
        let words = reasons
            .iter()
            .map(|reason| reason.as_str().unwrap().to_owned());
        words.collect::<BTreeSet<String>>()
    };
    let word = |reason: RefusalReason| serde_json::to_value(reason).unwrap();
    let refusals = [
        RefusalReason::Held,
        RefusalReason::HeldByYou,
        RefusalReason::Timeout,
    ];
    let documented = schemas["RefusalReason"]["enum"].as_array().unwrap();
    assert_eq!(words(documented), words(&refusals.map(word)));
    let word = |reason: EndReason| serde_json::to_value(reason).unwrap();
    let documented = schemas["EndReason"]["enum"].as_array().unwrap();
    assert_eq!(
        words(documented),
        words(&[EndReason::Expired, EndReason::Stolen].map(word))
    );
}

fn acquired() -> AcquireReply {
    AcquireReply {
        acquired: true,
        lock_id: Some("lock-x".to_owned()),
        fencing_token: Some(1),
        expires_at: "2026-01-02T03:04:05.678Z".to_owned(),
        ttl_ms: Some(1),
        renew_after_ms: Some(1),
        already_held: Some(true),
        waited_ms: Some(1),
        reason: None,
    }
}

fn refused() -> AcquireReply {
    AcquireReply {
        acquired: false,
        lock_id: None,
        fencing_token: None,
        ttl_ms: None,
        renew_after_ms: None,
        already_held: None,
        reason: Some(RefusalReason::Held),
        ..acquired()
    }
}

fn renewed() -> RenewReply {
    RenewReply {
        renewed: true,
        expires_at: Some("2026-01-02T03:04:05.678Z".to_owned()),
        ttl_ms: Some(1),
        renew_after_ms: Some(1),
        reason: None,
    }
}

fn ended() -> RenewReply {
    RenewReply {
        renewed: false,
        expires_at: None,
        ttl_ms: None,
        renew_after_ms: None,
        reason: Some(EndReason::Stolen),
    }
}

fn released(mismatch: bool) -> ReleaseReply {
    ReleaseReply {
        released: !mismatch,
        reason: mismatch.then_some(TokenMismatch::TokenMismatch),
    }
}

fn lock_info() -> LockInfo {
    LockInfo {
        name: "n".to_owned(),
        held: true,
        client_id: Some("c".to_owned()),
        fencing_token: Some(1),
        expires_at: Some("2026-01-02T03:04:05.678Z".to_owned()),
        held_for_ms: Some(1),
        metadata: Some(BTreeMap::new()),
        force_released: Some(true),
        waiters: 1,
        shard: 1,
        cluster: "alpha".to_owned(),
    }
}

fn item_error() -> ItemError {
    ItemError {
        code: ErrorCode::Overloaded,
        detail: Some("d".to_owned()),
        retry_after_ms: Some(1),
    }
}

#[test]
fn what_the_types_write_is_what_the_document_says() {
    check_reply("Acquired", &acquired());
    check_reply("NotAcquired", &refused());
    check_reply("Renewed", &renewed());
    check_reply("NotRenewed", &ended());
    check_reply("Released", &released(false));
    check_reply("NotReleased", &released(true));
    check_reply("Lock", &lock_info());
    check_reply(
        "LockPage",
        &LockPage {
            locks: vec![lock_info()],
            next_cursor: Some("AW4".to_owned()),
        },
    );
    let forced = ForceReleaseReply {
        released: true,
        fencing_token: Some(1),
        free_at: Some("2026-01-02T03:04:05.678Z".to_owned()),
    };
    check_reply("ForceReleased", &forced);
    let nobody = ForceReleaseReply {
        released: false,
        fencing_token: None,
        free_at: None,
    };
    check_reply("NobodyHeldIt", &nobody);
    check_reply("ItemError", &item_error());
    check_reply(
        "Problem",
        &Problem {
            kind: "urn:holdfast:error:overloaded".to_owned(),
            title: "t".to_owned(),
            status: 503,
            detail: "d".to_owned(),
            code: ErrorCode::Overloaded,
            instance: "/".to_owned(),
            retry_after_ms: Some(1),
            cluster: Some("alpha".to_owned()),
        },
    );
    let error = item_error;
    let acquires = vec![
        AcquireResult::Answered(acquired()),
        AcquireResult::Answered(refused()),
        AcquireResult::Failed { error: error() },
    ];
    check_reply("AcquireBatchReply", &BatchReply { results: acquires });
    let renewals = vec![
        RenewResult::Answered(renewed()),
        RenewResult::Answered(ended()),
        RenewResult::Failed { error: error() },
    ];
    check_reply("RenewBatchReply", &BatchReply { results: renewals });
    let releases = vec![
        ReleaseResult::Answered(released(false)),
        ReleaseResult::Answered(released(true)),
        ReleaseResult::Failed { error: error() },
    ];
    check_reply("ReleaseBatchReply", &BatchReply { results: releases });
}
