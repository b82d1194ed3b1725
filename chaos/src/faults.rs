//! What can go wrong, and how it is made to.

use crate::stack::Stack;
use anyhow::Result;
use holdfast_rig::{Call, Rule, Trick, Way};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A stopped and continued member runs and stands still in turns of this.
const SLOW_TURN: Duration = Duration::from_millis(40);
/// What a delayed link delays by, each way.
const DELAY: Duration = Duration::from_millis(150);
/// The gateway gives a call to etcd up after four seconds; this is after that.
const LATE: Duration = Duration::from_secs(6);
/// So many old calls of a kind are sent again, from the oldest on.
const REPEATED_MAX: usize = 300;

/// A kind of link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Route {
    /// All clients to a gateway.
    ClientsToGateway,
    /// A gateway to all members of a cluster.
    GatewayToCluster,
    /// Two gateways.
    GatewayToGateway,
    /// Two members of a cluster.
    MemberToMember,
}

/// What is done to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Harm {
    /// Everything comes later.
    Delay,
    /// The connections break, new ones do not.
    Drop,
    /// The connections break, and there are no new ones.
    Cut,
    /// Requests go nowhere, answers arrive.
    HoldRequests,
    /// Answers go nowhere, requests arrive.
    HoldReplies,
    /// Nothing arrives.
    HoldAll,
    /// One end has lost the connection, the other does not know.
    HalfOpen,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Fault {
    /// SIGKILL of a gateway, which is started again later.
    GatewayKilled,
    /// SIGSTOP of a gateway for longer than its sessions live.
    GatewayStopped,
    /// SIGTERM of a gateway, which is started again.
    GatewayRestarted,
    /// SIGKILL of all gateways, which are started again later.
    AllGatewaysKilled,
    /// SIGKILL of a member of a cluster, which is started again later.
    MemberKilled,
    /// SIGSTOP of a cluster's leader for two session TTLs.
    LeaderStopped,
    /// SIGKILL of all members of a cluster, which are started again later.
    ClusterDown,
    /// A member that stands still half of the time.
    MemberSlow,
    /// Something happens to a link.
    Link(Route, Harm),
    /// etcd carries writes out and loses the answers.
    AnswersLost,
    /// etcd carries writes out and the calls break.
    AnswersBroken,
    /// Writes are applied after they were given up.
    AppliedLate,
    /// Keepalives are answered with a TTL of 0.
    TtlZero,
    /// Keepalives are not answered.
    KeepAliveSilence,
    /// Keepalives' streams are closed.
    KeepAliveClosed,
    /// Writes are refused for lack of space.
    RefusedForSpace,
    /// Writes are applied and answered with a lack of space.
    AppliedAndRefusedForSpace,
    /// Watches tell nothing.
    EventsSwallowed,
    /// Old transactions arrive again.
    TransactionsRepeated,
    /// Old revokes of leases arrive again.
    RevokesRepeated,
}

/// A fault, where it strikes and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Strike {
    /// When, in milliseconds from the beginning.
    pub at_ms: u64,
    /// For how long.
    pub for_ms: u64,
    /// What.
    pub fault: Fault,
    /// The index of the gateway that it strikes.
    pub gateway: usize,
    /// Of the cluster.
    pub cluster: usize,
    /// Of the member, if there are as many.
    pub member: usize,
}

impl Harm {
    const ALL: [Self; 7] = [
        Self::Delay,
        Self::Drop,
        Self::Cut,
        Self::HoldRequests,
        Self::HoldReplies,
        Self::HoldAll,
        Self::HalfOpen,
    ];

    /// Does it.
    pub fn to(self, way: &Way) {
        match self {
            Self::Delay => way.delay(DELAY),
            Self::Drop => way.drop_connections(),
            Self::Cut => way.close(),
            Self::HoldRequests => way.hold_requests(),
            Self::HoldReplies => way.hold_replies(),
            Self::HoldAll => way.hold_all(),
            Self::HalfOpen => way.half_open(),
        }
    }
}

impl Route {
    const ALL: [Self; 4] = [
        Self::ClientsToGateway,
        Self::GatewayToCluster,
        Self::GatewayToGateway,
        Self::MemberToMember,
    ];
}

impl Fault {
    /// All kinds.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let links = Route::ALL.into_iter().flat_map(|route| {
            Harm::ALL
                .into_iter()
                .map(move |harm| Self::Link(route, harm))
        });
        let others = [
            Self::GatewayKilled,
            Self::GatewayStopped,
            Self::GatewayRestarted,
            Self::AllGatewaysKilled,
            Self::MemberKilled,
            Self::LeaderStopped,
            Self::ClusterDown,
            Self::MemberSlow,
            Self::AnswersLost,
            Self::AnswersBroken,
            Self::AppliedLate,
            Self::TtlZero,
            Self::KeepAliveSilence,
            Self::KeepAliveClosed,
            Self::RefusedForSpace,
            Self::AppliedAndRefusedForSpace,
            Self::EventsSwallowed,
            Self::TransactionsRepeated,
            Self::RevokesRepeated,
        ];
        others.into_iter().chain(links).collect()
    }

    /// Whether it strikes one cluster, not a gateway alone.
    #[must_use]
    pub fn needs_members(self) -> bool {
        matches!(self, Self::Link(Route::MemberToMember, _))
    }

    fn rules(self) -> Vec<Rule> {
        let txn = |trick, every| vec![Rule::new(trick, Call::Txn).every(every)];
        match self {
            Self::AnswersLost => txn(Trick::LoseAnswer, 7),
            Self::AnswersBroken => txn(Trick::BreakAnswer, 3),
            Self::AppliedLate => txn(Trick::ApplyLate(LATE), 7),
            Self::RefusedForSpace => txn(Trick::RefuseForSpace, 2),
            Self::AppliedAndRefusedForSpace => txn(Trick::ApplyAndRefuseForSpace, 2),
            Self::TtlZero => vec![Rule::new(Trick::TtlZero, Call::KeepAlive)],
            Self::KeepAliveSilence => vec![Rule::new(Trick::Silence, Call::KeepAlive)],
            Self::KeepAliveClosed => vec![Rule::new(Trick::CloseStream, Call::KeepAlive)],
            Self::EventsSwallowed => vec![Rule::new(Trick::SwallowEvents, Call::Watch)],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Strike {
    fn lasting(&self) -> Duration {
        Duration::from_millis(self.for_ms)
    }

    /// Makes it happen, and ends it.
    ///
    /// # Errors
    /// When a process cannot be started again.
    pub async fn play(&self, stack: &Stack) -> Result<()> {
        match self.fault {
            Fault::GatewayKilled | Fault::GatewayStopped | Fault::GatewayRestarted => {
                self.play_on_gateway(stack).await
            }
            Fault::AllGatewaysKilled => self.kill_all_gateways(stack).await,
            Fault::MemberKilled | Fault::LeaderStopped | Fault::ClusterDown | Fault::MemberSlow => {
                self.play_on_etcd(stack).await
            }
            Fault::Link(route, harm) => {
                self.play_on_ways(&self.ways(stack, route).await, harm)
                    .await;
                Ok(())
            }
            Fault::TransactionsRepeated => self.repeat(stack, Call::Txn).await,
            Fault::RevokesRepeated => self.repeat(stack, Call::LeaseRevoke).await,
            _ => {
                self.play_tricks(stack).await;
                Ok(())
            }
        }
    }

    async fn play_on_gateway(&self, stack: &Stack) -> Result<()> {
        let mut process = stack.gateways[self.gateway].process().await;
        match self.fault {
            Fault::GatewayStopped => {
                process.stop().await?;
                tokio::time::sleep(self.lasting()).await;
                process.cont()
            }
            Fault::GatewayRestarted => {
                process.terminate().await?;
                process.restart().await
            }
            _ => {
                process.kill()?;
                tokio::time::sleep(self.lasting()).await;
                process.restart().await
            }
        }
    }

    async fn kill_all_gateways(&self, stack: &Stack) -> Result<()> {
        let mut processes = Vec::new();
        for gateway in &stack.gateways {
            processes.push(gateway.process().await);
        }
        for process in &mut processes {
            process.kill()?;
        }
        tokio::time::sleep(self.lasting()).await;
        for process in &mut processes {
            process.launch()?;
        }
        for process in &mut processes {
            process.wait_ready().await?;
        }
        Ok(())
    }

    async fn play_on_etcd(&self, stack: &Stack) -> Result<()> {
        let mut etcd = stack.clusters[self.cluster].etcd().await;
        let member = match self.fault {
            Fault::LeaderStopped => etcd.wait_leader().await?,
            _ => self.member % stack.clusters[self.cluster].members(),
        };
        match self.fault {
            Fault::ClusterDown => {
                for member in etcd.members() {
                    member.kill()?;
                }
                tokio::time::sleep(self.lasting()).await;
                etcd.restart().await
            }
            Fault::LeaderStopped => {
                let member = etcd.member(member);
                member.stop().await?;
                tokio::time::sleep(self.lasting()).await;
                member.cont()
            }
            Fault::MemberSlow => {
                let turns = self.lasting().as_millis() / (2 * SLOW_TURN).as_millis();
                for _ in 0..turns {
                    etcd.member(member).stop().await?;
                    tokio::time::sleep(SLOW_TURN).await;
                    etcd.member(member).cont()?;
                    tokio::time::sleep(SLOW_TURN).await;
                }
                Ok(())
            }
            _ => {
                etcd.member(member).kill()?;
                tokio::time::sleep(self.lasting()).await;
                etcd.member(member).restart().await
            }
        }
    }

    async fn ways(&self, stack: &Stack, route: Route) -> Vec<Way> {
        let cluster = &stack.clusters[self.cluster];
        let peer = (self.gateway + 1) % stack.gateways.len();
        match route {
            Route::ClientsToGateway => {
                let link = stack.gateways[self.gateway].clients();
                vec![Way::clone(link)]
            }
            Route::GatewayToCluster => cluster.ways_of(self.gateway),
            Route::GatewayToGateway => vec![
                stack.gateways[peer].way_of(self.gateway),
                stack.gateways[self.gateway].way_of(peer),
            ],
            Route::MemberToMember if cluster.members() > 1 => {
                let member = self.member % cluster.members();
                let other = (member + 1) % cluster.members();
                cluster.ways_between(member, other).await.to_vec()
            }
            Route::MemberToMember => Vec::new(),
        }
    }

    async fn play_on_ways(&self, ways: &[Way], harm: Harm) {
        for way in ways {
            harm.to(way);
        }
        tokio::time::sleep(self.lasting()).await;
        for way in ways {
            way.open();
        }
        // Nobody would ever end what only one end knows of.
        if harm == Harm::HalfOpen {
            ways.iter().for_each(Way::drop_connections);
        }
    }

    async fn play_tricks(&self, stack: &Stack) {
        let doors = stack.clusters[self.cluster].doors();
        for door in doors {
            for rule in self.fault.rules() {
                door.play(rule);
            }
        }
        tokio::time::sleep(self.lasting()).await;
        for door in doors {
            door.play_nothing();
        }
    }

    async fn repeat(&self, stack: &Stack, call: Call) -> Result<()> {
        for door in stack.clusters[self.cluster].doors() {
            // A member that is down gets no duplicates either.
            let _ = door.repeat(call, b"", REPEATED_MAX).await;
        }
        Ok(())
    }
}
