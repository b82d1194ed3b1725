//! Random sequences of operations over few keys and few leases, so that they meet.

use holdfast_store::{
    Compare, Condition, Get, Key, KeyRange, LeaseId, Op, Put, Relation, Revision, Txn, TxnOp,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::collections::BTreeSet;
use std::ops::Range;

/// Key names, of which one begins with another.
const KEYS: [&str; 5] = ["a", "b", "b/c", "d", "e"];
const LEASES: Range<i64> = 0..3;
/// How often a sequence may write, for revisions to compare with; longer ones repeat them.
const REVISIONS: i64 = 12;

/// An operation before it is known whose keys, leases and revisions are meant: key names have no
/// prefix yet, leases count from 0, and revisions from the sequence's first.
#[derive(Debug, Clone)]
pub(crate) struct Step(Op);

/// What a sequence on one cluster is about.
pub(crate) struct Names {
    pub(crate) prefix: String,
    pub(crate) first_lease: i64,
    /// The revision before the sequence.
    pub(crate) base: Revision,
}

/// A runner for so many sequences, and its seed: `PROPTEST_RNG_SEED`, or random.
pub(crate) fn runner(sequences: u32) -> (TestRunner, u64) {
    let from_environment = Config::default();
    let seed = match from_environment.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => rand::random(),
    };
    let config = Config {
        cases: sequences,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        max_shrink_iters: 2_000,
        ..from_environment
    };
    (TestRunner::new(config), seed)
}

pub(crate) fn sequences() -> impl Strategy<Value = Vec<Step>> {
    vec(op().prop_map(Step), 1..25)
}

fn op() -> impl Strategy<Value = Op> {
    let leases: Vec<LeaseId> = LEASES.map(LeaseId).collect();
    prop_oneof![
        12 => txn().prop_map(Op::Txn),
        3 => (lease(), select(vec![1000, 2000])).prop_map(|(lease, ttl_s)| Op::LeaseGrant { lease, ttl_s }),
        1 => lease().prop_map(|lease| Op::LeaseRevoke { lease }),
        1 => lease().prop_map(|lease| Op::LeaseKeys { lease }),
        1 => subsequence(leases, 0..=3).prop_map(|leases| Op::KeepAlive { leases }),
    ]
}

fn txn() -> impl Strategy<Value = Txn> {
    let op = prop_oneof![
        3 => put().prop_map(TxnOp::Put),
        2 => get().prop_map(TxnOp::Get),
        1 => range().prop_map(TxnOp::Delete),
    ];
    let op = op.prop_recursive(2, 12, 3, |op| branches(op).prop_map(TxnOp::Txn));
    // Left alone, every second transaction would be refused for a key that is put twice.
    let may_conflict = prop::bool::weighted(0.25);
    (branches(op), may_conflict).prop_map(|(mut txn, may_conflict)| {
        if !may_conflict {
            drop_conflicting_puts(&mut txn.then);
            drop_conflicting_puts(&mut txn.or_else);
        }
        txn
    })
}

fn drop_conflicting_puts(ops: &mut Vec<TxnOp>) {
    let mut deleted = Vec::new();
    collect_deletes(ops, &mut deleted);
    retain_puts(ops, &deleted, &mut BTreeSet::new());
}

fn collect_deletes(ops: &[TxnOp], deleted: &mut Vec<KeyRange>) {
    for op in ops {
        match op {
            TxnOp::Delete(range) => deleted.push(range.clone()),
            TxnOp::Txn(txn) => {
                collect_deletes(&txn.then, deleted);
                collect_deletes(&txn.or_else, deleted);
            }
            TxnOp::Get(_) | TxnOp::Put(_) => {}
        }
    }
}

fn retain_puts(ops: &mut Vec<TxnOp>, deleted: &[KeyRange], put: &mut BTreeSet<Key>) {
    ops.retain_mut(|op| match op {
        TxnOp::Put(Put { key, .. }) => {
            !deleted.iter().any(|range| range.contains(key)) && put.insert(key.clone())
        }
        TxnOp::Txn(txn) => {
            retain_puts(&mut txn.then, deleted, put);
            retain_puts(&mut txn.or_else, deleted, put);
            true
        }
        TxnOp::Get(_) | TxnOp::Delete(_) => true,
    });
}

fn branches(op: impl Strategy<Value = TxnOp> + Clone) -> impl Strategy<Value = Txn> {
    (vec(compare(), 0..3), vec(op.clone(), 0..4), vec(op, 0..3)).prop_map(
        |(compare, then, or_else)| Txn {
            compare,
            then,
            or_else,
        },
    )
}

fn lease() -> impl Strategy<Value = LeaseId> + Clone {
    LEASES.prop_map(LeaseId)
}

fn key() -> impl Strategy<Value = Key> + Clone {
    select(&KEYS[..]).prop_map(Key::from)
}

/// Mostly one key; else the keys between two, in either order.
fn range() -> impl Strategy<Value = KeyRange> + Clone {
    prop_oneof![
        4 => key().prop_map(KeyRange::one),
        1 => (key(), key()).prop_map(|(start, end)| KeyRange::between(start, end)),
    ]
}

fn put() -> impl Strategy<Value = Put> + Clone {
    let lease = prop_oneof![2 => Just(None), 1 => lease().prop_map(Some)];
    (key(), value(), lease).prop_map(|(key, value, lease)| Put { key, value, lease })
}

fn value() -> impl Strategy<Value = Vec<u8>> + Clone {
    select(vec![b"".to_vec(), b"x".to_vec(), b"y".to_vec()])
}

fn get() -> impl Strategy<Value = Get> + Clone {
    (range(), any::<bool>(), 0..3_i64).prop_map(|(range, keys_only, limit)| Get {
        range,
        keys_only,
        limit,
    })
}

fn compare() -> impl Strategy<Value = Compare> + Clone {
    (range(), condition()).prop_map(|(range, condition)| Compare { range, condition })
}

fn condition() -> impl Strategy<Value = Condition> + Clone {
    use Relation::{Equal, Greater, Less, NotEqual};
    let relation = || select(vec![Equal, NotEqual, Greater, Less]);
    let revision = || (0..REVISIONS).prop_map(Revision);
    prop_oneof![
        (relation(), revision()).prop_map(|(r, x)| Condition::CreateRevision(r, x)),
        (relation(), revision()).prop_map(|(r, x)| Condition::ModRevision(r, x)),
        (relation(), 0..3_i64).prop_map(|(r, x)| Condition::Version(r, x)),
        (relation(), value()).prop_map(|(r, x)| Condition::Value(r, x)),
        (relation(), prop::option::of(lease())).prop_map(|(r, x)| Condition::Lease(r, x)),
    ]
}

impl Step {
    /// Reads everything there is at the end.
    pub(crate) fn read_all() -> Vec<Self> {
        let keys = KeyRange::between("!", "~");
        let mut steps = vec![Self(Op::Txn(Txn::read([Get::all(keys)])))];
        steps.extend(LEASES.map(|lease| {
            let lease = LeaseId(lease);
            Self(Op::LeaseKeys { lease })
        }));
        steps
    }

    /// The operation with these names.
    pub(crate) fn to_op(&self, names: &Names) -> Op {
        match &self.0 {
            Op::Txn(txn) => Op::Txn(names.txn(txn)),
            Op::LeaseGrant { lease, ttl_s } => Op::LeaseGrant {
                lease: names.lease(*lease),
                ttl_s: *ttl_s,
            },
            Op::LeaseRevoke { lease } => Op::LeaseRevoke {
                lease: names.lease(*lease),
            },
            Op::LeaseKeys { lease } => Op::LeaseKeys {
                lease: names.lease(*lease),
            },
            Op::KeepAlive { leases } => Op::KeepAlive {
                leases: leases.iter().map(|lease| names.lease(*lease)).collect(),
            },
            Op::Alarms => Op::Alarms,
        }
    }
}

impl Names {
    /// Every key of the sequence.
    pub(crate) fn everything(&self) -> KeyRange {
        KeyRange::prefix(self.prefix.as_str())
    }

    /// Each key that a sequence may write.
    pub(crate) fn keys(&self) -> [Key; KEYS.len()] {
        KEYS.map(|key| self.key(&key.into()))
    }

    /// Every lease of the sequence.
    pub(crate) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        LEASES.map(|lease| self.lease(LeaseId(lease)))
    }

    fn lease(&self, lease: LeaseId) -> LeaseId {
        LeaseId(self.first_lease + lease.0)
    }

    fn key(&self, key: &Key) -> Key {
        [self.prefix.as_bytes(), key.as_bytes()].concat().into()
    }

    fn range(&self, range: &KeyRange) -> KeyRange {
        KeyRange {
            start: self.key(&range.start),
            end: range.end.as_ref().map(|end| self.key(end)),
        }
    }

    fn revision(&self, revision: Revision) -> Revision {
        match revision {
            Revision::ABSENT => revision,
            Revision(number) => Revision(self.base.0 + number),
        }
    }

    fn txn(&self, txn: &Txn) -> Txn {
        Txn {
            compare: txn
                .compare
                .iter()
                .map(|compare| self.compare(compare))
                .collect(),
            then: txn.then.iter().map(|op| self.txn_op(op)).collect(),
            or_else: txn.or_else.iter().map(|op| self.txn_op(op)).collect(),
        }
    }

    fn txn_op(&self, op: &TxnOp) -> TxnOp {
        match op {
            TxnOp::Get(get) => TxnOp::Get(Get {
                range: self.range(&get.range),
                ..get.clone()
            }),
            TxnOp::Put(put) => TxnOp::Put(Put {
                key: self.key(&put.key),
                value: put.value.clone(),
                lease: put.lease.map(|lease| self.lease(lease)),
            }),
            TxnOp::Delete(range) => TxnOp::Delete(self.range(range)),
            TxnOp::Txn(txn) => TxnOp::Txn(self.txn(txn)),
        }
    }

    fn compare(&self, compare: &Compare) -> Compare {
        use Condition::{CreateRevision, Lease, ModRevision};
        Compare {
            range: self.range(&compare.range),
            condition: match &compare.condition {
                CreateRevision(r, revision) => CreateRevision(*r, self.revision(*revision)),
                ModRevision(r, revision) => ModRevision(*r, self.revision(*revision)),
                Lease(r, lease) => Lease(*r, lease.map(|lease| self.lease(lease))),
                other => other.clone(),
            },
        }
    }
}
