//! Deliberate mistakes, to test the model: each must break what somebody would notice.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Mutation {
    /// A grant looks for the name in the cluster that is left before it reads the guard of the other.
    CheckBeforeGuard,
    /// The switch does not compare the guard of the cluster that is left.
    SwitchWithoutGuard,
    /// A group comes to a cluster whatever the guard there says by then.
    ReceivedWithoutGuard,
    /// The records in the cluster that is left are deleted before the switch.
    SwitchAfterDelete,
    /// The group is served from the new cluster before its key in the old one is gone.
    ServeBeforeSwitch,
    /// A gateway whose session ended while its switch had no answer takes the absence of the key for it.
    AbsenceTakenAsMine,
    /// Whoever claims a group that is moving goes on with the lease of the gateway before.
    FinishOnAnothersLease,
    /// An undo unmarks the group before the lease in the other cluster is revoked.
    UnmarkBeforeRevoke,
    /// An arriving group is claimed although its key in the other cluster is still there.
    ClaimWhileSourceIsThere,
    /// A guard is written whatever is there.
    GuardUncompared,
    /// A guard gets an epoch that is not above the other's.
    GuardLowered,
    /// A rollback makes a cluster active while the other has no guard.
    RollbackLeavesAbsent,
    /// A rollback writes the other's guard without the base that the move would have given it.
    RollbackWithoutBase,
    /// A release during the copy does not look for the copy.
    ReleaseWithoutChase,
    /// Names are no longer looked for in the old cluster while a group is still there.
    FromDroppedEarly,
    /// A rollback leaves the guard as it is of a shard that has not begun to move.
    RestLeftAsItWas,
    /// A driver takes guards for broken that it has read at two moments.
    ContradictionBelieved,
}
