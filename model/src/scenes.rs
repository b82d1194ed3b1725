//! Bounds that are searched again and again, each for one kind of trouble.

use crate::bounds::{Bounds, Often};
use crate::state::Left;

/// Bounds with a name.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// What happens in it.
    pub name: &'static str,
    /// What there is in it.
    pub bounds: Bounds,
}

/// Nothing but delays, lost answers and sessions that end in time.
const QUIET: Bounds = Bounds {
    gateways: 2,
    clients: 1,
    session_ttl: Left(2),
    lock_ttl: Left(2),
    late_writes: 0,
    wrong_revokes: Often::NEVER,
    kills: Often::NEVER,
    guard_changes: Often::NEVER,
};

/// Two clients contend.
pub const CONTENTION: Scene = Scene {
    name: "contention",
    bounds: Bounds {
        clients: 2,
        ..QUIET
    },
};

/// Writes arrive late and twice.
pub const LATE_WRITES: Scene = Scene {
    name: "late-writes",
    bounds: Bounds {
        late_writes: 1,
        ..QUIET
    },
};

/// The shard's guard changes again and again.
pub const GUARD: Scene = Scene {
    name: "guard",
    bounds: Bounds {
        gateways: 1,
        late_writes: 1,
        guard_changes: Often::Always,
        ..QUIET
    },
};

/// The same, while gateways take over from each other.
pub const GUARD_AND_TAKEOVERS: Scene = Scene {
    name: "guard-and-takeovers",
    bounds: Bounds {
        guard_changes: Often::Always,
        ..QUIET
    },
};

/// Sessions are revoked again and again, although they are kept alive.
pub const WRONG_REVOKES: Scene = Scene {
    name: "wrong-revokes",
    bounds: Bounds {
        wrong_revokes: Often::Always,
        ..QUIET
    },
};

/// Gateways die again and again.
pub const DEATHS: Scene = Scene {
    name: "deaths",
    bounds: Bounds {
        kills: Often::Always,
        ..QUIET
    },
};

/// Two clients contend while sessions are revoked again and again.
pub const CONTENTION_AND_WRONG_REVOKES: Scene = Scene {
    name: "contention-and-wrong-revokes",
    bounds: Bounds {
        wrong_revokes: Often::Always,
        ..CONTENTION.bounds
    },
};

/// Two clients contend while writes arrive late and twice.
pub const CONTENTION_AND_LATE_WRITES: Scene = Scene {
    name: "contention-and-late-writes",
    bounds: Bounds {
        late_writes: 1,
        ..CONTENTION.bounds
    },
};

/// Gateways die, sessions are revoked, and writes arrive late.
pub const EVERYTHING: Scene = Scene {
    name: "everything",
    bounds: Bounds {
        late_writes: 1,
        wrong_revokes: Often::Always,
        kills: Often::Always,
        ..QUIET
    },
};

/// Those that the tests search.
pub const QUICK: &[Scene] = &[CONTENTION, LATE_WRITES, GUARD, WRONG_REVOKES, DEATHS];

/// The larger ones.
pub const LARGE: &[Scene] = &[
    GUARD_AND_TAKEOVERS,
    CONTENTION_AND_WRONG_REVOKES,
    CONTENTION_AND_LATE_WRITES,
    EVERYTHING,
];
