//! How shards move from cluster to cluster while their locks are held.
//!
//! A move is a sequence of compare-and-sets on the two guards of a shard ([`next_step`]); the lease
//! groups in between are moved by the gateways that own them. Home has the rollout's [record](Rollout)
//! and a map that says which shards move; one gateway at a time, the [`Driver`], takes the steps for
//! all of them ([`take_turn`]). The operator's command only writes the record and watches.

mod drive;
mod driver;
mod gateways;
mod home;
mod mutation;
mod record;
mod steps;
mod survey;

pub use drive::{StoreOf, Turn, TurnError, take_turn};
pub use driver::{Decision, Driver, Moving, Seen, Surveys, moving, phase};
pub use gateways::SessionEnd;
pub use home::{Home, HomeError, read_home, read_version};
pub use mutation::{Mistake, Mutation};
pub use record::{Direction, DriverRecord, GatewayReport, LogEntry, Rollout, RunState};
pub use steps::{Groups, GuardRead, GuardWrite, Next, Side, arriving, next_step};
pub use survey::{Survey, survey};

#[cfg(test)]
mod drive_tests;
#[cfg(test)]
mod interleaving_tests;
