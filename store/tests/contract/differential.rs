//! The model and etcd give the same answers.
//!
//! A sequence runs on one etcd that all sequences share, with keys and leases of its own, and on
//! a fresh model. Every answer must be the same, then everything that is left and every event. What
//! is made the same first, because it cannot be: cluster, member and term; revisions, which
//! count from the sequence's beginning; how much of a lease is left; error texts.
//!
//! Differences between the versions that a store shows: none was found. (3.4 answers a question for
//! alarms without a header; [`Reply::Alarms`] has none.)

use crate::fixture::LIMIT;
use crate::sequences::{Names, Step, runner, sequences};
use crate::target::Target;
use futures::StreamExt;
use holdfast_rig::EtcdVersion;
use holdfast_store::{
    DefiniteError, Get, Header, KeyValue, Model, ModelTime, Op, Reply, Revision, StoreError, Txn,
    TxnOpReply, WatchEvent,
};
use proptest::test_runner::{TestCaseError, TestError};
use std::cell::Cell;
use tokio::runtime::Runtime;

/// Sequences per version.
const SEQUENCES: u32 = 300;

#[test]
fn etcd_3_4_answers_random_sequences_as_the_model_does() {
    compare_with_the_model(EtcdVersion::V3_4);
}

#[test]
fn etcd_3_5_answers_random_sequences_as_the_model_does() {
    compare_with_the_model(EtcdVersion::V3_5);
}

fn compare_with_the_model(version: EtcdVersion) {
    let runtime = Runtime::new().unwrap();
    let etcd = runtime.block_on(Target::etcd(version));
    let number = Cell::new(0);
    let (mut runner, seed) = runner(SEQUENCES);
    let outcome = runner.run(&sequences(), |steps| {
        // Shrinking a failure goes on with fresh keys, too.
        number.set(number.get() + 1);
        runtime
            .block_on(run_sequence(&etcd, number.get(), &steps))
            .map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, steps)) => panic!(
            "the model and {} differ: {why}\nsmallest sequence found: {steps:#?}\n\
             run it again with PROPTEST_RNG_SEED={seed}",
            etcd.name()
        ),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// Runs one sequence; an error says what differs.
async fn run_sequence(etcd: &Target, number: i64, steps: &[Step]) -> Result<(), String> {
    let mut model = Model::new(1, 1);
    let names = |base| Names {
        prefix: format!("/sequence/{number}/"),
        first_lease: number * 100,
        base,
    };
    let in_model = names(model.header().revision);
    let in_etcd = names(revision_of(etcd).await);

    let last = Step::read_all();
    for (at, step) in steps.iter().chain(&last).enumerate() {
        let expected = model.apply(ModelTime::default(), &step.to_op(&in_model));
        let answer = etcd.store().call(step.to_op(&in_etcd), LIMIT).await;
        let expected = normalised(expected, in_model.base);
        let answer = normalised(answer, in_etcd.base);
        if answer != expected {
            return Err(format!(
                "step {at}: {step:?}\netcd: {answer:?}\nmodel: {expected:?}"
            ));
        }
        model.check_invariants();
    }
    compare_events(etcd, &in_etcd, &model, &in_model).await?;
    for lease in in_etcd.leases() {
        // It may be gone.
        let _ = etcd.store().call(Op::LeaseRevoke { lease }, LIMIT).await;
    }
    Ok(())
}

async fn revision_of(etcd: &Target) -> Revision {
    let read = Txn::read([Get::keys(holdfast_store::KeyRange::one("a"))]);
    match etcd.store().call(Op::Txn(read), LIMIT).await {
        Ok(Reply::Txn(reply)) => reply.header.revision,
        other => panic!("{other:?}"),
    }
}

async fn compare_events(
    etcd: &Target,
    in_etcd: &Names,
    model: &Model,
    in_model: &Names,
) -> Result<(), String> {
    let range = in_model.everything();
    let expected: Vec<_> = model
        .events_from(Revision(in_model.base.0 + 1), &range)
        .map_err(|compacted| compacted.to_string())?
        .map(|event| normalised_event(event, in_model.base))
        .collect();
    if expected.is_empty() {
        return Ok(());
    }
    let from = Revision(in_etcd.base.0 + 1);
    let watch = etcd.store().watch(in_etcd.everything(), Some(from));
    let events = watch.take(expected.len()).collect::<Vec<_>>();
    let events: Vec<_> = tokio::time::timeout(LIMIT, events)
        .await
        .map_err(|_| format!("fewer events than {expected:?}"))?
        .into_iter()
        .map(|event| normalised_event(event, in_etcd.base))
        .collect();
    if events == expected {
        Ok(())
    } else {
        Err(format!("events\netcd: {events:?}\nmodel: {expected:?}"))
    }
}

fn normalised(answer: Result<Reply, StoreError>, base: Revision) -> Result<Reply, StoreError> {
    let mut reply = match answer {
        Err(StoreError::Definite(DefiniteError::Invalid(_))) => {
            return Err(DefiniteError::Invalid(String::new()).into());
        }
        Err(error) => return Err(error),
        Ok(reply) => reply,
    };
    match &mut reply {
        Reply::Txn(txn) => {
            normalise_header(&mut txn.header, base);
            normalise_ops(&mut txn.ops, base);
        }
        Reply::LeaseKeys {
            header,
            ttl_s,
            keys,
        } => {
            normalise_header(header, base);
            *ttl_s = (*ttl_s).min(0);
            keys.sort();
        }
        Reply::KeepAlive(answers) => {
            for answer in answers.iter_mut() {
                normalise_header(&mut answer.header, base);
            }
            answers.sort_by_key(|answer| answer.lease);
        }
        Reply::LeaseGranted { header, .. } | Reply::LeaseRevoked { header } => {
            normalise_header(header, base);
        }
        Reply::Alarms { .. } => {}
    }
    Ok(reply)
}

fn normalise_header(header: &mut Header, base: Revision) {
    header.revision = counted_from(header.revision, base);
    (header.cluster_id, header.member_id, header.raft_term) = (0, 0, 0);
}

fn normalise_ops(ops: &mut [TxnOpReply], base: Revision) {
    for op in ops {
        match op {
            TxnOpReply::Get(read) => {
                for kv in &mut read.kvs {
                    normalise_key_value(kv, base);
                }
            }
            TxnOpReply::Txn { ops, .. } => normalise_ops(ops, base),
            TxnOpReply::Put | TxnOpReply::Delete(_) => {}
        }
    }
}

fn normalise_key_value(kv: &mut KeyValue, base: Revision) {
    kv.create_revision = counted_from(kv.create_revision, base);
    kv.mod_revision = counted_from(kv.mod_revision, base);
}

fn normalised_event(event: WatchEvent, base: Revision) -> WatchEvent {
    match event {
        WatchEvent::Put(mut kv) => {
            normalise_key_value(&mut kv, base);
            WatchEvent::Put(kv)
        }
        WatchEvent::Delete(key, revision) => WatchEvent::Delete(key, counted_from(revision, base)),
        ended @ WatchEvent::Ended(_) => ended,
    }
}

fn counted_from(revision: Revision, base: Revision) -> Revision {
    Revision(revision.0 - base.0)
}
