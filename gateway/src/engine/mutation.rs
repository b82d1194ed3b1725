//! Deliberate mistakes, to test the tests: the simulator must find each of them from outside.
//!
//! Without the feature `mutations` there are none, and what asks for them is compiled away.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Mutation {
    /// The renew path does not ask whether the session is proven.
    PromiseUnproven = 1,
    /// The told TTL is longer than the hold.
    PromiseBeyondHold,
    /// A keepalive's answer proves the session, without the linearizable range.
    ProofWithoutRange,
    /// A keepalive's answer that comes after its round is credited to the round that runs then, as
    /// if all rounds shared a stream.
    ProofFromLaterSend,
    /// A keepalive's TTL of 0 counts as the lease's full TTL.
    TtlZeroIgnored,
    /// A lock's record is deleted without any compare.
    ReleaseWithoutCompare,
    /// A release is answered before its delete is confirmed.
    ReleaseUnconfirmed,
    /// A passed deadline is told before the delete is confirmed; the wheel may have found it first.
    ExpiryUnconfirmed,
    /// A look-up or a batch without an answer counts as a lock that is gone.
    UnknownTakenAsLost,
    /// A miss in the tables counts as a lock that is gone.
    MissTakenAsLost,
    /// A batch without an answer counts as carried out.
    UnknownTakenAsGranted,
    /// A batch without an answer is read about, but not fenced first.
    ReadWithoutFence,
    /// Writes do not compare the session's key.
    WriteWithoutFence,
    /// A grant that nobody was told about is kept for ever.
    GhostKept,
    /// A renewal for less moves the deadline back.
    DeadlineMovesBack,
    /// A fence is a plain put: without a compare, and on no lease.
    FenceByPlainPut,
    /// A claim uses the table that this gateway had when it lost the group.
    ClaimTrustsOldTable,
    /// An heir counts the TTL, without the session's.
    HeirForgetsSession,
    /// An heir counts from when the old owner's records were written, not from its claim.
    HeirCountsFromGrant,
    /// Anti-entropy ends slots whose grant is on its way.
    SurveyEndsPending,
    /// A renewal revives a slot that is ending.
    EndingRevived,
    /// A missing guard admits grants.
    MissingGuardAdmitted,
    /// A token is made from the present guard's base.
    TokenFromPresentGuard,
    /// A longer TTL is promised without a rewrite of the record.
    LongerWithoutRewrite,
    /// A renewal's token is not compared.
    AnyTokenRenews,
    /// A gateway that does not answer another is taken for dead, and its groups are claimed though
    /// its session lives.
    ClaimWhileSessionLives,
    /// A release that another gateway has forwarded ends whatever is in its slot, as if the other had
    /// compared: a copy that comes late acts again.
    ForwardedReleaseUncompared,
    /// The session counts as proven for as long as any lease of this gateway.
    ProofOutlivesSession,
    /// A session that is lost leaves its groups in the table.
    TableOutlivesSession,
    /// A gateway that stops goes on promising after it has told its heirs how long its holds last.
    PromiseAfterStop,
    /// What one gateway has left counts also when the group is claimed from another.
    HeritageOfAnyone,
    /// A re-entry is answered from the record when the lock's owner does not answer.
    EntryAnsweredForOwner,
    /// "Not mine" counts as a lock that is gone.
    NotTheirsTakenAsLost,
    /// A name is granted in the cluster that its shard goes to without a look where it comes from.
    SourceNotAsked,
    /// The switch of a move does not compare the shard's guard; nor does the arrival, which would hide
    /// much of that from the simulator.
    SwitchWithoutGuard,
    /// A group comes to a cluster whatever the shard's guard there says by then.
    ReceivedWithoutGuard,
    /// The records in the cluster that a group leaves are deleted before the switch.
    RecordsDeletedBeforeSwitch,
    /// Who claims a group in the middle of a move finishes it on the lease that another has filled.
    FinishedByClaimer,
    /// A group forgets where it came from before the lease there is revoked.
    GroupForgetsSource,
    /// An heir takes a hold that was force-released for one that goes on.
    ClosedRevived,
    /// A force-release is answered when its hold is closed in memory.
    ClosedUnrecorded,
    /// A name is looked for in the cluster that its shard comes from before the guard is read.
    LookBeforeGuard,
    /// A group is taken and served where it moves to before its key in the other cluster is gone.
    ServedBeforeSwitch,
    /// That its own session has no key of a group in the source is taken for a switch, though another
    /// session may have claimed it there.
    AbsenceTakenForSwitch,
    /// The mark of a move that is given up is taken off before the lease there is revoked, which is left
    /// to the next move.
    UnmarkedBeforeRevoke,
    /// A record is deleted though there may be a copy of it in another cluster.
    CopyNotChased,
    /// A newcomer does not ask whether somebody waits.
    NewcomerOvertakes,
    /// A waiter does not ask whether somebody stands before it.
    HeadUnchecked,
    /// A waiter that gets the lock stays in line.
    WaiterKept,
    /// A grant whose answer reached nobody is undone though the same client has entered the hold again.
    TakenBackThoughTold,
}

impl Mutation {
    /// Every mistake there is.
    pub const ALL: &'static [Self] = &[
        Self::PromiseUnproven,
        Self::PromiseBeyondHold,
        Self::ProofWithoutRange,
        Self::ProofFromLaterSend,
        Self::TtlZeroIgnored,
        Self::ReleaseWithoutCompare,
        Self::ReleaseUnconfirmed,
        Self::ExpiryUnconfirmed,
        Self::UnknownTakenAsLost,
        Self::MissTakenAsLost,
        Self::UnknownTakenAsGranted,
        Self::ReadWithoutFence,
        Self::WriteWithoutFence,
        Self::GhostKept,
        Self::DeadlineMovesBack,
        Self::FenceByPlainPut,
        Self::ClaimTrustsOldTable,
        Self::HeirForgetsSession,
        Self::HeirCountsFromGrant,
        Self::SurveyEndsPending,
        Self::EndingRevived,
        Self::MissingGuardAdmitted,
        Self::TokenFromPresentGuard,
        Self::LongerWithoutRewrite,
        Self::AnyTokenRenews,
        Self::ClaimWhileSessionLives,
        Self::ForwardedReleaseUncompared,
        Self::ProofOutlivesSession,
        Self::TableOutlivesSession,
        Self::PromiseAfterStop,
        Self::HeritageOfAnyone,
        Self::EntryAnsweredForOwner,
        Self::NotTheirsTakenAsLost,
        Self::SourceNotAsked,
        Self::SwitchWithoutGuard,
        Self::ReceivedWithoutGuard,
        Self::RecordsDeletedBeforeSwitch,
        Self::FinishedByClaimer,
        Self::GroupForgetsSource,
        Self::ClosedRevived,
        Self::ClosedUnrecorded,
        Self::LookBeforeGuard,
        Self::ServedBeforeSwitch,
        Self::AbsenceTakenForSwitch,
        Self::UnmarkedBeforeRevoke,
        Self::CopyNotChased,
        Self::NewcomerOvertakes,
        Self::HeadUnchecked,
        Self::WaiterKept,
        Self::TakenBackThoughTold,
    ];
}

/// Which mistake is made, if any.
#[cfg(feature = "mutations")]
#[derive(Debug, Default)]
pub(crate) struct Mistake(std::sync::atomic::AtomicU8);

#[cfg(feature = "mutations")]
impl Mistake {
    pub(crate) fn make(&self, mutation: Mutation) {
        self.0
            .store(mutation as u8, std::sync::atomic::Ordering::Relaxed);
    }

    /// Whether any is made; the engine's own checks would find it, which is not what is tested.
    pub(crate) fn is_made(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) != 0
    }

    pub(crate) fn is(&self, mutation: Mutation) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed) == mutation as u8
    }
}

/// No mistake is ever made.
#[cfg(not(feature = "mutations"))]
#[derive(Debug, Default)]
pub(crate) struct Mistake;

#[cfg(not(feature = "mutations"))]
impl Mistake {
    #[expect(
        clippy::unused_self,
        reason = "the same call as with the feature `mutations`"
    )]
    pub(crate) const fn is_made(&self) -> bool {
        false
    }

    #[expect(
        clippy::unused_self,
        reason = "the same call as with the feature `mutations`"
    )]
    pub(crate) const fn is(&self, _: Mutation) -> bool {
        false
    }
}
