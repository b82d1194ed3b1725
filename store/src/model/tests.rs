//! What the contract suite cannot see from outside: the model's controls and its own time.

use super::*;
use crate::{Compare, Put, Relation, Txn, TxnOp};

const LEASE: LeaseId = LeaseId(7);

fn model() -> Model {
    Model::new(1, 2)
}

fn at(ms: u64) -> ModelTime {
    ModelTime::from_ms(ms)
}

fn grant(model: &mut Model, ms: u64, lease: LeaseId, ttl_s: u32) {
    model
        .apply(at(ms), &Op::LeaseGrant { lease, ttl_s })
        .unwrap();
}

fn put_op(key: &str, lease: Option<LeaseId>) -> Op {
    Op::Txn(Txn {
        then: vec![TxnOp::Put(Put {
            key: key.into(),
            value: b"v".to_vec(),
            lease,
        })],
        ..Txn::default()
    })
}

fn put(model: &mut Model, ms: u64, key: &str, lease: Option<LeaseId>) -> Revision {
    model.apply(at(ms), &put_op(key, lease)).unwrap();
    model.header().revision
}

fn keep_alive(model: &mut Model, ms: u64, leases: &[LeaseId]) -> Vec<(LeaseId, i64)> {
    let leases = leases.to_vec();
    match model.apply(at(ms), &Op::KeepAlive { leases }).unwrap() {
        Reply::KeepAlive(answers) => answers.iter().map(|a| (a.lease, a.ttl_s)).collect(),
        other => panic!("{other:?}"),
    }
}

fn events(model: &Model, from: i64) -> Vec<WatchEvent> {
    let everything = KeyRange::between([0], [0]);
    model
        .events_from(Revision(from), &everything)
        .unwrap()
        .collect()
}

fn deleted(key: &str, revision: i64) -> WatchEvent {
    WatchEvent::Delete(key.into(), Revision(revision))
}

#[test]
fn an_empty_cluster_is_at_revision_1_and_has_elected_its_member() {
    let header = model().header();
    assert_eq!((header.cluster_id, header.member_id), (1, 2));
    assert_eq!((header.revision, header.raft_term), (Revision(1), 2));
}

#[test]
fn a_lease_ends_exactly_when_its_time_is_over() {
    let mut model = model();
    grant(&mut model, 1_000, LEASE, 5);
    put(&mut model, 1_000, "a", Some(LEASE));
    assert_eq!(model.next_expiry(), Some(at(6_000)));

    model.advance(at(5_999));
    assert!(model.get(&"a".into()).is_some());
    model.advance(at(6_000));
    assert!(model.get(&"a".into()).is_none());
    assert_eq!(model.next_expiry(), None);
    assert_eq!(model.leases().count(), 0);
    model.check_invariants();
}

#[test]
fn leases_end_in_the_order_of_their_times_then_ids_each_in_a_revision_of_its_own() {
    let mut model = model();
    for (lease, ttl_s) in [(3, 5), (1, 9), (2, 5), (4, 5)] {
        grant(&mut model, 0, LeaseId(lease), ttl_s);
    }
    for (key, lease) in [("a", 1), ("y", 3), ("x", 3), ("b", 2)] {
        put(&mut model, 0, key, Some(LeaseId(lease)));
    }
    let before = model.header().revision.0;
    assert_eq!(before, 5);

    model.advance(at(60_000));

    let expected = [
        deleted("b", 6),
        deleted("x", 7),
        deleted("y", 7),
        deleted("a", 8),
    ];
    assert_eq!(events(&model, before + 1), expected);
    assert_eq!(
        model.header().revision,
        Revision(8),
        "none for the empty lease"
    );
    model.check_invariants();
}

#[test]
fn a_keepalive_postpones_the_end_and_time_never_goes_back() {
    let mut model = model();
    grant(&mut model, 0, LEASE, 5);
    assert_eq!(keep_alive(&mut model, 4_000, &[LEASE]), [(LEASE, 5)]);
    assert_eq!(model.next_expiry(), Some(at(9_000)));
    assert_eq!(keep_alive(&mut model, 1_000, &[LEASE]), [(LEASE, 5)]);
    assert_eq!(model.next_expiry(), Some(at(9_000)));
    assert_eq!(model.now(), at(4_000));
}

#[test]
fn an_expired_lease_that_is_not_revoked_yet_stalls_the_keepalives_behind_it() {
    let other = LeaseId(8);
    let mut model = model();
    model.set_expiry_lag_ms(500);
    grant(&mut model, 0, LEASE, 5);
    grant(&mut model, 0, other, 60);
    put(&mut model, 0, "a", Some(LEASE));

    assert_eq!(model.next_expiry(), Some(at(5_500)));
    assert_eq!(
        keep_alive(&mut model, 5_200, &[other, LEASE, other]),
        [(other, 60)]
    );
    assert!(model.get(&"a".into()).is_some());
    assert_eq!(
        keep_alive(&mut model, 5_500, &[LEASE, other]),
        [(LEASE, 0), (other, 60)]
    );
    assert!(model.get(&"a".into()).is_none());
}

#[test]
fn a_new_leader_has_a_higher_term_and_gives_every_lease_its_time_again() {
    let mut model = model();
    grant(&mut model, 0, LEASE, 5);
    grant(&mut model, 0, LeaseId(8), 60);
    model.elect_leader(at(4_999));
    assert_eq!(model.header().raft_term, 3);
    assert_eq!(
        model.next_expiry(),
        Some(at(4_999 + 5_000 + PROMOTION_EXTRA_MS))
    );

    model.elect_leader(at(20_000));
    assert_eq!(
        model.leases().collect::<Vec<_>>(),
        [LeaseId(8)],
        "too late for the other"
    );
    model.check_invariants();
}

#[test]
fn compaction_forgets_what_happened_before_it_and_only_that() {
    let mut model = model();
    for key in ["a", "b", "c"] {
        put(&mut model, 0, key, None);
    }
    model.compact(Revision(3));
    let everything = KeyRange::between([0], [0]);
    let lost = model.events_from(Revision(2), &everything).err().unwrap();
    assert_eq!(lost.kept_from, Revision(3));
    assert_eq!(events(&model, 3).len(), 2);

    model.compact(Revision(2));
    model.compact(Revision(5));
    assert_eq!(
        events(&model, 3).len(),
        2,
        "in the past or in the future: no effect"
    );
    model.check_invariants();
}

#[test]
fn the_history_is_bounded_and_forgets_whole_revisions() {
    let mut model = model();
    model.set_history_events_max(4);
    grant(&mut model, 0, LEASE, 5);
    for key in ["a", "b", "c"] {
        put(&mut model, 0, key, Some(LEASE));
    }
    model.advance(at(5_000));
    let lost = |model: &Model, from| {
        let range = KeyRange::one("a");
        model.events_from(Revision(from), &range).err()
    };
    assert_eq!(lost(&model, 3).unwrap().kept_from, Revision(4));
    assert_eq!(
        events(&model, 4).len(),
        4,
        "one put, and three deletes in one revision"
    );

    model.set_history_events_max(2);
    assert_eq!(
        events(&model, 5).len(),
        3,
        "the latest revision stays whole"
    );
    model.check_invariants();
}

#[test]
fn two_models_that_are_told_the_same_are_the_same() {
    let run = |model: &mut Model| {
        grant(model, 10, LEASE, 5);
        put(model, 20, "a", Some(LEASE));
        put(model, 30, "b", None);
        let compare = Compare {
            range: KeyRange::between("a", "c"),
            condition: crate::Condition::Version(Relation::Greater, 0),
        };
        let txn = Txn {
            compare: vec![compare],
            then: vec![TxnOp::Delete(KeyRange::prefix("b"))],
            or_else: vec![],
        };
        let reply = model.apply(at(40), &Op::Txn(txn));
        model.advance(at(99_999));
        (reply, events(model, 0), model.header())
    };
    let mut first = model();
    let mut second = first.clone();
    assert_eq!(run(&mut first), run(&mut second));
}

#[test]
fn lease_id_0_cannot_be_granted() {
    let op = Op::LeaseGrant {
        lease: LeaseId(0),
        ttl_s: 5,
    };
    let error = model().apply(at(0), &op).unwrap_err();
    assert!(matches!(
        error,
        StoreError::Definite(DefiniteError::Invalid(_))
    ));
}

/// Work that grew with the square of the keys would take this test minutes.
#[test]
fn a_hundred_thousand_keys_on_a_hundred_leases_end_with_them() {
    let mut model = model();
    for lease in 1..=100 {
        grant(&mut model, 0, LeaseId(lease), 1_800);
        for key in 0..1_000 {
            put(
                &mut model,
                0,
                &format!("/locks/{lease}/{key}"),
                Some(LeaseId(lease)),
            );
        }
    }
    let before = model.header().revision.0;
    model.advance(at(1_800_000));
    assert_eq!(model.header().revision.0, before + 100);
    assert!(model.get(&"/locks/1/0".into()).is_none());
    model.check_invariants();
}
