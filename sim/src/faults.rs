//! What can go wrong. Each run draws a part of it.

use std::fmt;

macro_rules! faults {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// A kind of fault or of unruly behaviour. A sweep that never exercised one of them fails.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault {
            $($(#[doc = $doc])* $name,)*
        }

        impl Fault {
            /// Every kind there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// A request to etcd never arrives, and the gateway cannot know.
    CallLost,
    /// etcd carries a request out, and the reply is lost.
    ReplyLost,
    /// etcd carries a request out long after the gateway gave it up.
    CallLate,
    /// A request about a lease, or one that was given up, arrives a second time, perhaps minutes
    /// later.
    CallDoubled,
    /// A write that etcd has confirmed arrives a second time, perhaps minutes later.
    WriteDoubled,
    /// A connection to etcd is refused.
    CallRefused,
    /// Calls take so long that many of them are given up.
    SlowLinks,
    /// Some keepalives of a burst are not answered.
    KeepalivePartial,
    /// A new leader that does not know the lease yet answers a keepalive with TTL 0.
    KeepaliveZero,
    /// A gateway's keepalives of groups hang: the answer to one of them comes late, and those after
    /// it do not arrive for about as long as the leases live.
    KeepaliveHangs,
    /// A cluster answers the keepalives of groups with TTL 0 for about as long as their leases live.
    LeaseForgotten,
    /// A new leader is elected.
    TermChange,
    /// A leader that was deposed goes on answering keepalives and key lists from what it has.
    DeposedAnswers,
    /// A leader that was stopped continues, and revokes session leases that were renewed.
    WrongRevoke,
    /// A cluster is down.
    ClusterDown,
    /// A gateway does not reach a cluster.
    LinkDown,
    /// Two gateways do not reach each other, in one direction or in both; or one reaches no other.
    PeerCut,
    /// A connection between two gateways breaks.
    PeerReset,
    /// What goes between two gateways takes long.
    PeerSlow,
    /// A client and a gateway do not reach each other.
    ClientCut,
    /// A gateway hears late, or never, that a session has ended.
    HintLost,
    /// A gateway hears that a session has ended, and none has.
    HintFalse,
    /// etcd has no space left.
    NoSpace,
    /// etcd ends leases late.
    ExpiryLag,
    /// A gateway is killed, and started again later.
    GatewayKilled,
    /// A gateway gives its session up and ends, and is started again later.
    GatewayStopped,
    /// All gateways are stopped and started again, one after the other.
    RollingRestart,
    /// All gateways are killed, and come back after the longest TTL.
    AllDown,
    /// A gateway's process is stopped for a while.
    GatewayPaused,
    /// One engine's task is stopped for a while, the rest of its process is not.
    TaskPaused,
    /// Clocks run differently, within the margin.
    Drift,
    /// A gateway's clock stands still for a while: only tokens protect then.
    ClockStopped,
    /// A gateway's clocks jump against each other.
    WallJump,
    /// All leases of a gateway are revoked by hand.
    HandRevoke,
    /// A shard's guard is away for a while.
    GuardGone,
    /// A shard's guard is rewritten with a higher epoch and token base.
    GuardRaised,
    /// Shards are moved from one cluster to the other, and back, at any moment.
    Rollouts,
    /// A client's request does not reach the gateway.
    RequestLost,
    /// A gateway's answer does not reach the client.
    AnswerLost,
    /// The load balancer sends a request to a second gateway too, perhaps much later.
    RequestDoubled,
    /// A client's requests go to any gateway, as a load balancer spreads them.
    AnyGateway,
    /// A client does nothing for a while.
    ClientPaused,
    /// A client disappears while it holds a lock or waits for one.
    ClientGone,
    /// A client renews what it has released.
    RenewAfterRelease,
    /// A client uses a wrong token.
    WrongToken,
    /// A client asks for a longer TTL while it holds.
    LongerTtl,
    /// A client asks for a shorter TTL while it holds.
    ShorterTtl,
    /// A client acquires what it holds.
    ReEntry,
    /// A client names its requests.
    RequestIds,
    /// A client that waits for a name has it force-released.
    ForceRelease,
    /// Clients wait in line for names, and some go away meanwhile.
    Waits,
    /// A client that has waited goes as it is answered, and its gateway notices later.
    AnswerToNobody,
    /// A gateway hears late, or never, that the name for which it has waiters is free.
    WatchLost,
    /// The keys on leases are compared with the tables all the time.
    Surveys,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
