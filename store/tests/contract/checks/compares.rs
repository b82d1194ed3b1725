//! What holds, and what does not.

use crate::fixture::Fixture;
use crate::ops::{all, if_else, put_value, when};
use holdfast_store::Relation::{Equal, Greater, Less, NotEqual};
use holdfast_store::{Compare, Condition, KeyRange, LeaseId, Put, Relation, Revision, TxnOp};

const RELATIONS: [Relation; 4] = [Equal, NotEqual, Greater, Less];

async fn holds(f: &Fixture, compare: Compare) -> bool {
    f.txn(if_else([compare], [], [])).await.succeeded
}

pub(super) async fn every_condition_holds_for_a_key_as_it_should(f: Fixture) {
    let key = f.key("a");
    let (lease, created) = (f.long_lease().await, f.put(&key).await);
    let put = TxnOp::Put(Put {
        key: key.clone(),
        value: b"m".to_vec(),
        lease: Some(lease),
    });
    let written = f.txn(all([put])).await.header.revision;
    let value = |r, value: &str| Condition::Value(r, value.into());
    // Each with something smaller, the same, and something greater than what etcd has.
    type Conditions<'a> = [Box<dyn Fn(Relation) -> Condition + Send + Sync + 'a>; 3];
    let tables: [Conditions<'_>; 5] = [
        [created.0 - 1, created.0, created.0 + 1]
            .map(|n| Box::new(move |r| Condition::CreateRevision(r, Revision(n))) as Box<_>),
        [written.0 - 1, written.0, written.0 + 1]
            .map(|n| Box::new(move |r| Condition::ModRevision(r, Revision(n))) as Box<_>),
        [1, 2, 3].map(|n| Box::new(move |r| Condition::Version(r, n)) as Box<_>),
        [lease.0 - 1, lease.0, lease.0 + 1]
            .map(|n| Box::new(move |r| Condition::Lease(r, Some(LeaseId(n)))) as Box<_>),
        ["", "m", "mm"].map(|text| Box::new(move |r| value(r, text)) as Box<_>),
    ];
    for [smaller, same, greater] in tables {
        let cases = [
            (smaller, [false, true, true, false]),
            (same, [true, false, false, false]),
            (greater, [false, true, false, true]),
        ];
        for (condition, expected) in cases {
            for (relation, expected) in RELATIONS.into_iter().zip(expected) {
                let compare = when(&key, condition(relation));
                assert_eq!(holds(&f, compare.clone()).await, expected, "{compare:?}");
            }
        }
    }
    let on_none = |relation| when(&key, Condition::Lease(relation, None));
    assert!(!holds(&f, on_none(Equal)).await);
    assert!(holds(&f, on_none(Greater)).await);
}

pub(super) async fn an_absent_key_compares_as_zero_and_has_no_value(f: Fixture) {
    let key = f.key("absent");
    for relation in RELATIONS {
        let zero = Revision::ABSENT;
        for condition in [
            Condition::CreateRevision(relation, zero),
            Condition::ModRevision(relation, zero),
            Condition::Version(relation, 0),
            Condition::Lease(relation, None),
        ] {
            let compare = when(&key, condition);
            let expected = relation == Equal;
            assert_eq!(holds(&f, compare.clone()).await, expected, "{compare:?}");
        }
        let value = when(&key, Condition::Value(relation, Vec::new()));
        assert!(!holds(&f, value.clone()).await, "{value:?}");
    }
    let less = when(&key, Condition::Version(Less, 1));
    assert!(holds(&f, less).await);
}

pub(super) async fn a_range_compare_must_hold_for_every_key(f: Fixture) {
    let keys = f.keys(3);
    let mut revisions = Vec::new();
    for key in &keys {
        revisions.push(f.put(key).await);
    }
    let created_from = |first: &holdfast_store::Key, revision: Revision| Compare {
        range: KeyRange::between(first.clone(), f.key("~")),
        condition: Condition::CreateRevision(Greater, Revision(revision.0 - 1)),
    };
    assert!(holds(&f, created_from(&keys[0], revisions[0])).await);
    assert!(!holds(&f, created_from(&keys[0], revisions[1])).await);
    assert!(holds(&f, created_from(&keys[1], revisions[1])).await);
    assert!(holds(&f, created_from(&keys[2], revisions[2])).await);
}

pub(super) async fn an_empty_range_compares_as_an_absent_key(f: Fixture) {
    let empty = |condition| Compare {
        range: KeyRange::prefix(f.key("nothing/")),
        condition,
    };
    assert!(holds(&f, Compare::absent(KeyRange::prefix(f.key("nothing/")))).await);
    assert!(holds(&f, empty(Condition::Version(Equal, 0))).await);
    assert!(!holds(&f, empty(Condition::CreateRevision(Greater, Revision(0)))).await);
    assert!(!holds(&f, empty(Condition::Value(NotEqual, b"x".to_vec()))).await);

    f.put(&f.key("nothing/after all")).await;
    assert!(!holds(&f, Compare::absent(KeyRange::prefix(f.key("nothing/")))).await);
}

pub(super) async fn all_compares_must_hold(f: Fixture) {
    let [a, b] = ["a", "b"].map(|name| f.key(name));
    f.txn(all([put_value(&a, b"1"), put_value(&b, b"2")])).await;
    let value = |key, value: &str| when(key, Condition::Value(Equal, value.into()));
    let both = |x, y| if_else([value(&a, x), value(&b, y)], [], []);
    assert!(f.txn(both("1", "2")).await.succeeded);
    assert!(!f.txn(both("1", "3")).await.succeeded);
    assert!(!f.txn(both("0", "2")).await.succeeded);
}
