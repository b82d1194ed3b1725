//! This gateway's part in rollouts of the shard map, beside moving its groups (which the engines do):
//! it tells home which map it runs, stands for election, and takes the steps if it is elected.
//!
//! Election is only for economy: every step is a compare-and-set, so two drivers do no harm.

mod member;
mod task;

pub use task::{RolloutTask, StoresOf};

#[cfg(test)]
mod tests;
