//! What there is at one moment: etcd's keys, what each gateway and client believes, and the writes
//! that are under way.

use crate::bounds::{Bounds, Often};

/// The most gateways that a model can have.
pub const GATEWAYS_MAX: usize = 3;
/// The most clients that a model can have.
pub const CLIENTS_MAX: usize = 2;
/// The most late writes that a model can have at a time.
pub const LATE_WRITES_MAX: usize = 2;
/// A session of each gateway, and one of a gateway that died.
pub(crate) const SESSIONS_MAX: usize = GATEWAYS_MAX + 1;
/// An open group of each session, and one that was claimed.
const GROUPS_MAX: usize = SESSIONS_MAX + 1;

/// How many ticks are left of something; 0: it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Left(pub u8);

impl Left {
    /// It has ended.
    pub const OVER: Self = Self(0);
    /// It does not end.
    pub(crate) const FOR_EVER: Self = Self(u8::MAX);

    pub(crate) fn is_over(self) -> bool {
        self == Self::OVER
    }

    fn tick(&mut self) {
        if *self != Self::FOR_EVER {
            self.0 = self.0.saturating_sub(1);
        }
    }
}

/// A revision of a key in etcd; of the lock's record, also the fencing token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u8);

/// The random id of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u8);

impl SessionId {
    /// Of any that nothing in etcd has any more.
    pub(crate) const GONE: Self = Self(0);
}

/// The random id of a lease group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u8);

impl GroupId {
    /// Of any that nothing in etcd has any more.
    pub(crate) const GONE: Self = Self(0);
}

/// The random id of a hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId(pub u8);

/// One of the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayIx(pub u8);

/// One of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientIx(pub u8);

/// Everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State {
    pub(crate) etcd: Etcd,
    pub(crate) gateways: [Gateway; GATEWAYS_MAX],
    pub(crate) clients: [Client; CLIENTS_MAX],
    /// Writes that nobody waits for and that may still arrive.
    pub(crate) late: [Option<Late>; LATE_WRITES_MAX],
    pub(crate) faults: Faults,
    /// The greatest token that anybody was told.
    pub(crate) newest_told: Revision,
    pub(crate) broken: Broken,
}

/// What etcd has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Etcd {
    pub(crate) sessions: [Option<SessionKey>; SESSIONS_MAX],
    pub(crate) groups: [Option<GroupKey>; GROUPS_MAX],
    pub(crate) record: Option<LockRecord>,
    pub(crate) guard: Guard,
}

/// The key of a session, on its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionKey {
    pub(crate) id: SessionId,
    /// Compared by every write: the fence.
    pub(crate) revision: Revision,
    /// Of the key of its lane, which hangs from the same lease.
    pub(crate) lane: Revision,
    /// Of the lease. When it is over, etcd may end the lease, and need not at once.
    pub(crate) left: Left,
}

/// The key of a lease group. Its lease does not end here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupKey {
    pub(crate) id: GroupId,
    pub(crate) session: SessionId,
    pub(crate) revision: Revision,
    /// A claimed group takes no grants.
    pub(crate) claimed: bool,
}

impl GroupKey {
    pub(crate) fn as_read(&self) -> GroupRef {
        GroupRef {
            id: self.id,
            revision: self.revision,
        }
    }
}

/// The record of the one lock that the model has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockRecord {
    pub(crate) lock: LockId,
    pub(crate) client: ClientIx,
    pub(crate) group: GroupId,
    pub(crate) revision: Revision,
}

/// The guard of the lock's shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Guard {
    pub(crate) active: bool,
    pub(crate) revision: Revision,
}

/// A group's key as somebody read or wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct GroupRef {
    pub(crate) id: GroupId,
    pub(crate) revision: Revision,
}

impl GroupRef {
    pub(crate) const GONE: Self = Self {
        id: GroupId::GONE,
        revision: Revision(0),
    };
}

/// What a gateway believes and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gateway {
    pub(crate) session: Option<Session>,
    /// How long the session is proven.
    pub(crate) proof: Left,
    pub(crate) slot: Slot,
    /// A claimed group whose records are to be read.
    pub(crate) loading: Option<Loading>,
    pub(crate) call: Call,
    /// The guard, where it was read as active.
    pub(crate) guard: Option<Revision>,
    /// A table that was given up. Only a mistake looks at it again.
    pub(crate) old_slot: Slot,
}

impl Gateway {
    pub(crate) const DOWN: Self = Self {
        session: None,
        proof: Left::OVER,
        slot: Slot::Free,
        loading: None,
        call: Call::None,
        guard: None,
        old_slot: Slot::Free,
    };
}

/// A session as its gateway knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Of its key.
    pub(crate) fence: Revision,
    /// Of its lane's key.
    pub(crate) lane: Revision,
    /// The group that takes its grants.
    pub(crate) group: GroupRef,
}

/// The one slot that a gateway's tables have for the one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Slot {
    Free,
    /// A grant is under way. Its time counts from when it was asked for.
    Pending {
        lock: LockId,
        client: ClientIx,
        left: Left,
    },
    Held(Hold),
    Ending(Hold),
}

/// A lock that a gateway's table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hold {
    pub(crate) lock: LockId,
    pub(crate) client: ClientIx,
    pub(crate) token: Revision,
    pub(crate) group: GroupRef,
    /// Until its deadline.
    pub(crate) left: Left,
}

/// See [`Gateway::loading`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Loading {
    pub(crate) group: GroupRef,
    /// Until what is found may be ended; counts from the receipt of the claim's success.
    pub(crate) left: Left,
}

/// The write that a gateway waits for: one at a time. What it is for, the slot tells: a grant where
/// it is pending, a delete where it is ending, otherwise a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Call {
    None,
    /// On its way to etcd.
    Sent(Write),
    /// etcd has done its part; the answer is on its way.
    Answered(Answer),
    /// Nobody waits for the answer any more.
    Unknown,
}

/// A batch of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Write {
    pub(crate) session: SessionId,
    pub(crate) fence: Revision,
    pub(crate) lane: Revision,
    pub(crate) op: WriteOp,
}

/// What a write does, and what it compares besides the fence and the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WriteOp {
    Grant {
        lock: LockId,
        client: ClientIx,
        guard: Revision,
        group: GroupRef,
    },
    Delete {
        record: Revision,
        group: GroupRef,
    },
    Claim {
        group: GroupRef,
    },
}

/// A copy of a write that arrives late, if ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Write(Write),
    /// etcd will refuse it as it would have refused it before: fence and lane only move on, and a
    /// session does not come back.
    Refused(Refusal),
}

/// Which of the outer compares fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Refusal {
    /// The session's key is not there, nor the lease of the lane's.
    SessionGone,
    /// The session's key has another revision.
    Fence,
    /// The lane's key has another revision.
    Lane,
}

/// What etcd says to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Answer {
    /// The record was put at this revision.
    GrantLanded(Revision),
    HoldEnded,
    /// The group's key as the claim wrote it.
    Claimed(GroupRef),
    /// The write's own compares failed.
    Refused,
    /// The session's key or the lane's is not as the write says.
    Fenced,
}

/// What a client believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Client {
    Idle,
    /// It has asked this gateway for the lock and waits.
    Asking(GatewayIx),
    /// It was told that it holds the lock, for so long.
    Holding {
        lock: LockId,
        left: Left,
    },
    /// It has asked for the release and repeats that until it is answered.
    Releasing {
        lock: LockId,
    },
}

/// How often each fault may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Faults {
    pub(crate) wrong_revokes: Often,
    pub(crate) kills: Often,
    pub(crate) guard_changes: Often,
}

/// What was broken in a step, where the state after it does not show that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Broken {
    pub(crate) fence: bool,
    pub(crate) proof: bool,
    pub(crate) one_answer: bool,
    pub(crate) epoch: bool,
}

impl Etcd {
    pub(crate) fn session(&self, id: SessionId) -> Option<&SessionKey> {
        self.sessions.iter().flatten().find(|key| key.id == id)
    }

    pub(crate) fn session_mut(&mut self, id: SessionId) -> Option<&mut SessionKey> {
        self.sessions.iter_mut().flatten().find(|key| key.id == id)
    }

    /// The group's key, if it is still as it was read.
    pub(crate) fn group(&self, group: GroupRef) -> Option<&GroupKey> {
        self.groups
            .iter()
            .flatten()
            .find(|key| key.as_read() == group)
    }

    pub(crate) fn has_record_of(&self, lock: LockId) -> bool {
        self.record.is_some_and(|record| record.lock == lock)
    }
}

impl State {
    /// Nobody has done anything yet.
    pub(crate) fn first(bounds: &Bounds) -> Self {
        Self {
            etcd: Etcd {
                sessions: Default::default(),
                groups: Default::default(),
                record: None,
                guard: Guard {
                    active: true,
                    revision: Revision(1),
                },
            },
            gateways: [Gateway::DOWN; GATEWAYS_MAX],
            clients: [Client::Idle; CLIENTS_MAX],
            late: Default::default(),
            faults: Faults {
                wrong_revokes: bounds.wrong_revokes,
                kills: bounds.kills,
                guard_changes: bounds.guard_changes,
            },
            newest_told: Revision(0),
            broken: Broken::default(),
        }
    }

    pub(crate) fn gateway(&self, at: GatewayIx) -> &Gateway {
        &self.gateways[usize::from(at.0)]
    }

    pub(crate) fn gateway_mut(&mut self, at: GatewayIx) -> &mut Gateway {
        &mut self.gateways[usize::from(at.0)]
    }

    pub(crate) fn client(&self, at: ClientIx) -> Client {
        self.clients[usize::from(at.0)]
    }

    pub(crate) fn client_mut(&mut self, at: ClientIx) -> &mut Client {
        &mut self.clients[usize::from(at.0)]
    }

    /// Whether etcd has the session that the gateway believes in.
    pub(crate) fn session_lives(&self, gateway: &Gateway) -> bool {
        gateway
            .session
            .is_some_and(|session| self.etcd.session(session.id).is_some())
    }

    /// A tick passes, for all of them: clocks do not drift here.
    pub(crate) fn tick(&mut self) {
        for key in self.etcd.sessions.iter_mut().flatten() {
            key.left.tick();
        }
        for gateway in &mut self.gateways {
            gateway.proof.tick();
            gateway.slot.tick();
            gateway.old_slot.tick();
            if let Some(loading) = &mut gateway.loading {
                loading.left.tick();
            }
        }
        for client in &mut self.clients {
            if let Client::Holding { left, .. } = client {
                left.tick();
            }
        }
    }
}

impl Slot {
    fn tick(&mut self) {
        match self {
            Self::Pending { left, .. } => left.tick(),
            Self::Held(hold) => hold.left.tick(),
            Self::Free | Self::Ending(_) => {}
        }
    }

    /// The hold of this lock, ending or not.
    pub(crate) fn hold(&self) -> Option<&Hold> {
        match self {
            Self::Held(hold) | Self::Ending(hold) => Some(hold),
            Self::Free | Self::Pending { .. } => None,
        }
    }
}

impl Client {
    /// The lock whose promise has not ended, by its own clock.
    pub(crate) fn promised(&self) -> Option<LockId> {
        match self {
            Self::Holding { lock, left } if !left.is_over() => Some(*lock),
            _ => None,
        }
    }
}
