//! How shards move from cluster to cluster while their locks are held.
//!
//! A move is a sequence of compare-and-sets on the two guards of a shard ([`next_step`]); the lease
//! groups in between are moved by the gateways that own them.

mod mutation;
mod steps;

pub use mutation::{Mistake, Mutation};
pub use steps::{Groups, GuardRead, GuardWrite, Next, Side, arriving, next_step};

#[cfg(test)]
mod interleaving_tests;
