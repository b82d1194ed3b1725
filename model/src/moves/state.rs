//! What there is at one moment: what both clusters have, what each gateway knows, and how far the slow
//! turns of drivers are.

use super::Bounds;
use super::rollout::{Guard, GuardState, MapVersion, SLOW_TURNS, SlowIx, SlowTurn};

/// The gateways.
pub(crate) const GATEWAYS: usize = 2;
/// The hold at the beginning, and those that are granted later.
const HOLDS_MAX: usize = 4;
const GRANTS_MAX: u8 = 3;
const _: () = assert!(GRANTS_MAX as usize + 1 == HOLDS_MAX);

/// The shard came from elsewhere, with tokens beyond what the revisions here can make.
const BASE: u8 = 8;

/// One of the two clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterIx {
    /// Where the shard is at the beginning.
    A,
    /// The other one.
    B,
}

impl ClusterIx {
    pub(crate) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    fn at(self) -> usize {
        usize::from(self == Self::B)
    }
}

/// One of the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayIx(pub u8);

/// One of the holds of the name, in the order in which they were granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldIx(pub u8);

/// A lease; its id is never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(pub u8);

impl Lease {
    /// That of the group which does not move. It does not end.
    pub(crate) const OTHER: Self = Self(u8::MAX);
}

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    pub(crate) clusters: [Cluster; 2],
    pub(crate) gateways: [Gateway; GATEWAYS],
    pub(crate) holds: [Option<Hold>; HOLDS_MAX],
    /// It says where the operator wants the shard.
    pub(crate) map: MapVersion,
    /// In order, so that it makes no difference which is which.
    pub(crate) slow_turns: [Option<SlowTurn>; SLOW_TURNS],
    pub(crate) left: BudgetLeft,
    /// A guard was written that is not above the one before it.
    pub(crate) guard_lowered: bool,
    /// A driver took the rollout for broken, or for ended before it was.
    pub(crate) stopped_early: bool,
}

/// What may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BudgetLeft {
    pub(crate) turns: u8,
    pub(crate) losses: u8,
    pub(crate) slow_turns: u8,
    pub(crate) grants: u8,
}

/// What one etcd cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cluster {
    pub(crate) guard: Option<Guard>,
    /// The last one under which groups could come here from the other cluster. A gateway that has read
    /// it may take it for the present one at any later time.
    pub(crate) admitting: Option<Guard>,
    pub(crate) group: Option<GroupKey>,
    pub(crate) record: Option<Record>,
    /// Counts what tokens are made of: grants, and guards that become leaving.
    pub(crate) revision: u8,
    /// Which session of each gateway lives.
    pub(crate) sessions: [Option<Life>; GATEWAYS],
    /// The leases of the group that live.
    pub(crate) leases: LeaseSet,
}

/// Which of a gateway's sessions in a cluster, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Life(pub(crate) u8);

/// A few leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LeaseSet(u8);

impl LeaseSet {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn has(self, lease: Lease) -> bool {
        lease == Lease::OTHER || self.0 & (1 << lease.0) != 0
    }

    pub(crate) fn add(&mut self, lease: Lease) {
        self.0 |= 1 << lease.0;
    }

    pub(crate) fn remove(&mut self, lease: Lease) {
        self.0 &= !(1 << lease.0);
    }
}

/// The key of the group that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey {
    pub(crate) owner: Owner,
    pub(crate) lease: Lease,
    /// `to`: it moves to the other cluster, onto this lease there.
    pub(crate) to: Option<Lease>,
    pub(crate) from: Origin,
}

/// The session that a group's key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Owner {
    pub(crate) gateway: GatewayIx,
    pub(crate) life: Life,
}

/// Whether a group comes from the other cluster, and the lease that it had there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Origin {
    Nowhere,
    Arriving(Lease),
    Arrived(Lease),
}

/// The record of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Record {
    pub(crate) hold: HoldIx,
    pub(crate) lease: Lease,
}

/// A hold of the name, as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hold {
    pub(crate) token: u8,
    pub(crate) state: HoldState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum HoldState {
    Promised,
    /// The client has asked for its release, and works no more.
    Releasing,
    /// The client was told that it is over.
    Ended,
}

/// What a gateway knows and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gateway {
    /// Its sessions, as it knows them.
    pub(crate) lives: [Life; 2],
    /// What a grant that is being prepared has read.
    pub(crate) seen: Option<Seen>,
    /// The name was not in the cluster beside this one. Only a mistake remembers it.
    pub(crate) absent_beside: Option<ClusterIx>,
    pub(crate) table: Option<Table>,
    pub(crate) course: Course,
    /// A write without an answer; it may still be carried out.
    pub(crate) unheard: Option<Unheard>,
}

/// A guard that was read for a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    pub(crate) at: ClusterIx,
    pub(crate) guard: Guard,
    /// The name may be granted here as far as the other cluster is concerned.
    pub(crate) checked: bool,
}

/// The group, where this gateway owns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Table {
    pub(crate) at: ClusterIx,
    pub(crate) key: GroupKey,
    pub(crate) slot: Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    Free,
    Held(HoldIx),
    Ending(HoldIx),
}

/// How far the group's move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Course {
    /// It does not move.
    Stays,
    /// The guard of its cluster was read as leaving, one of the other cluster as admitting it, and
    /// there is a fresh lease there.
    Leased {
        guard: Guard,
        admitting: Guard,
        lease: Lease,
    },
    /// Its key says where to.
    Marked {
        guard: Guard,
        admitting: Guard,
        lease: Lease,
    },
    /// It has a key in the other cluster.
    Put { guard: Guard, there: GroupKey },
    /// Its record has been copied, if there is one.
    Copied {
        guard: Guard,
        there: GroupKey,
        copy: bool,
    },
    /// The move is taken back: the lease is revoked first.
    Undoing { lease: Lease },
    /// Then the key is unmarked.
    Unmarking,
}

/// A write of a gateway, compared with its session's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Write {
    /// If the group's key is the old one, it becomes the new one.
    Replace { old: GroupKey, new: GroupKey },
    /// If there is no key of the group, and the guard is this one, this key.
    Put { new: GroupKey, admitting: Guard },
    /// If the group's key is this one and there is no record, this one.
    Copy { key: GroupKey, record: Record },
    /// If the group's key and the guard are these, the key is deleted, it alone.
    Switch { key: GroupKey, guard: Guard },
    /// If the group's key is this one, the record of the hold is deleted.
    Delete { key: GroupKey, hold: HoldIx },
}

/// A write without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Unheard {
    pub(crate) at: ClusterIx,
    pub(crate) write: Write,
    /// It has reached etcd.
    pub(crate) arrived: bool,
}

impl State {
    /// The shard and the group are in the first cluster; the operator wants them in the other one.
    pub(crate) fn first(bounds: &Bounds) -> Self {
        let born = Life(0);
        let key = GroupKey {
            owner: Owner {
                gateway: GatewayIx(0),
                life: born,
            },
            lease: Lease(0),
            to: None,
            from: Origin::Nowhere,
        };
        let empty = Cluster {
            guard: None,
            admitting: None,
            group: None,
            record: None,
            revision: 0,
            sessions: [Some(born); GATEWAYS],
            leases: LeaseSet::NONE,
        };
        let mut a = Cluster {
            guard: Some(Guard {
                epoch: MapVersion(1),
                state: GuardState::Active,
                from: false,
                base: BASE,
                left_at: 0,
            }),
            group: Some(key),
            record: Some(Record {
                hold: HoldIx(0),
                lease: key.lease,
            }),
            revision: 1,
            ..empty
        };
        a.leases.add(key.lease);
        let idle = Gateway {
            lives: [born; 2],
            seen: None,
            absent_beside: None,
            table: None,
            course: Course::Stays,
            unheard: None,
        };
        let owner = Gateway {
            table: Some(Table {
                at: ClusterIx::A,
                key,
                slot: Slot::Held(HoldIx(0)),
            }),
            ..idle
        };
        let mut holds = [None; HOLDS_MAX];
        holds[0] = Some(Hold {
            token: BASE + 1,
            state: HoldState::Promised,
        });
        Self {
            clusters: [a, empty],
            gateways: [owner, idle],
            holds,
            map: MapVersion::FIRST,
            slow_turns: [None; SLOW_TURNS],
            left: BudgetLeft {
                turns: bounds.turns,
                losses: bounds.losses,
                slow_turns: bounds.slow_turns,
                grants: bounds.grants.min(GRANTS_MAX),
            },
            guard_lowered: false,
            stopped_early: false,
        }
    }

    pub(crate) fn cluster(&self, at: ClusterIx) -> &Cluster {
        &self.clusters[at.at()]
    }

    pub(crate) fn cluster_mut(&mut self, at: ClusterIx) -> &mut Cluster {
        &mut self.clusters[at.at()]
    }

    pub(crate) fn gateway(&self, gateway: GatewayIx) -> &Gateway {
        &self.gateways[usize::from(gateway.0)]
    }

    pub(crate) fn gateway_mut(&mut self, gateway: GatewayIx) -> &mut Gateway {
        &mut self.gateways[usize::from(gateway.0)]
    }

    pub(crate) fn all_slow_turns(&self) -> impl Iterator<Item = (SlowIx, SlowTurn)> + use<> {
        let turns = self.slow_turns.into_iter().zip(0..);
        turns.filter_map(|(turn, at)| Some((SlowIx(at), turn?)))
    }

    pub(crate) fn all_gateways() -> impl Iterator<Item = GatewayIx> {
        (0..).map(GatewayIx).take(GATEWAYS)
    }

    pub(crate) fn all_holds(&self) -> impl Iterator<Item = (HoldIx, Hold)> {
        let holds = self.holds.into_iter().zip(0..);
        holds.filter_map(|(hold, at)| Some((HoldIx(at), hold?)))
    }

    pub(crate) fn hold(&self, hold: HoldIx) -> Option<Hold> {
        self.holds[usize::from(hold.0)]
    }

    pub(crate) fn set_hold(&mut self, hold: HoldIx, state: HoldState) {
        if let Some(hold) = &mut self.holds[usize::from(hold.0)] {
            hold.state = state;
        }
    }

    /// Whether the gateway's session in this cluster, as it knows it, lives.
    pub(crate) fn session_lives(&self, gateway: GatewayIx, at: ClusterIx) -> bool {
        let life = self.gateway(gateway).life(at);
        self.cluster(at).sessions[usize::from(gateway.0)] == Some(life)
    }

    pub(crate) fn owner_lives(&self, key: &GroupKey, at: ClusterIx) -> bool {
        self.cluster(at).sessions[usize::from(key.owner.gateway.0)] == Some(key.owner.life)
    }

    /// A lease id that nothing has.
    pub(crate) fn fresh_lease(&self) -> Option<Lease> {
        (0..8).map(Lease).find(|lease| !self.names_lease(*lease))
    }

    fn names_lease(&self, lease: Lease) -> bool {
        let in_key = |key: &GroupKey| {
            let from =
                matches!(key.from, Origin::Arriving(old) | Origin::Arrived(old) if old == lease);
            key.lease == lease || key.to == Some(lease) || from
        };
        let in_cluster = |cluster: &Cluster| {
            let record = cluster.record.is_some_and(|record| record.lease == lease);
            cluster.leases.has(lease) || record || cluster.group.as_ref().is_some_and(in_key)
        };
        let in_write = |unheard: &Unheard| match unheard.write {
            Write::Replace { old, new } => in_key(&old) || in_key(&new),
            Write::Put { new: key, .. } | Write::Switch { key, .. } | Write::Delete { key, .. } => {
                in_key(&key)
            }
            Write::Copy { key, record } => in_key(&key) || record.lease == lease,
        };
        let in_course = |course: Course| match course {
            Course::Stays | Course::Unmarking => false,
            Course::Leased { lease: own, .. }
            | Course::Marked { lease: own, .. }
            | Course::Undoing { lease: own } => own == lease,
            Course::Put { there, .. } | Course::Copied { there, .. } => in_key(&there),
        };
        self.clusters.iter().any(in_cluster)
            || self.gateways.iter().any(|gateway| {
                gateway.table.is_some_and(|table| in_key(&table.key))
                    || gateway.unheard.as_ref().is_some_and(in_write)
                    || in_course(gateway.course)
            })
    }
}

impl Gateway {
    pub(crate) fn life(&self, at: ClusterIx) -> Life {
        self.lives[at.at()]
    }

    pub(crate) fn set_life(&mut self, at: ClusterIx, life: Life) {
        self.lives[at.at()] = life;
    }
}

impl Cluster {
    /// Ends a lease and deletes what hangs from it.
    pub(crate) fn revoke(&mut self, lease: Lease) {
        self.leases.remove(lease);
        self.group = self.group.filter(|key| key.lease != lease);
        self.record = self.record.filter(|record| record.lease != lease);
    }
}

impl GroupKey {
    /// The lease in the other cluster that it comes from.
    pub(crate) fn source(&self) -> Option<Lease> {
        match self.from {
            Origin::Nowhere => None,
            Origin::Arriving(lease) | Origin::Arrived(lease) => Some(lease),
        }
    }
}
