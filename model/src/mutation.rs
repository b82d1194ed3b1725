//! Deliberate mistakes, to test the model: each must be found by a property that the gateway's
//! users would notice. Those that the engine can make too have the same name there.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Mutation {
    /// A group is claimed although the session that owns it lives.
    ClaimOfLivingSession,
    /// An heir counts the TTL, without the session's.
    HeirForgetsSession,
    /// An heir counts the session's TTL, without the lock's.
    HeirForgetsTtl,
    /// A claim uses the table that this gateway had when it lost the group.
    ClaimTrustsOldTable,
    /// A gateway whose session is gone goes on with its table under the next one.
    TableOutlivesSession,
    /// A proof is longer than the lease that it proves.
    ProofOutlivesSession,
    /// A keepalive's answer proves the session, without the linearizable read.
    ProofWithoutRange,
    /// A renewal does not ask whether the session is proven.
    PromiseUnproven,
    /// A write does not compare the revision of its session's key.
    WriteWithoutFence,
    /// A write does not compare the revision of its lane's key.
    WriteWithoutLane,
    /// A lock's record is deleted without any compare.
    ReleaseWithoutCompare,
    /// A grant does not compare the guard.
    GrantWithoutGuard,
    /// A write without an answer is read about, but not fenced first.
    ReadWithoutFence,
    /// A write without an answer counts as one that did not happen, or as a lock that is gone.
    UnknownTakenAsLost,
    /// A grant without an answer counts as carried out.
    UnknownTakenAsGranted,
    /// A miss in the table counts as a lock that is gone.
    MissTakenAsLost,
    /// A release is answered before its delete is confirmed.
    ReleaseUnconfirmed,
    /// A passed deadline is told before the delete is confirmed.
    ExpiryUnconfirmed,
    /// A renewal revives a hold that is ending.
    EndingRevived,
    /// A renewal moves the deadline back.
    DeadlineMovesBack,
    /// A grant that nobody was told about is kept for ever.
    GhostKept,
}
