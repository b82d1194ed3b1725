//! The simulator: the real lease engine on the model store, under virtual time, with injected
//! faults, judged from outside.
//!
//! A [`run()`] is a world made from a seed: the seed draws the [`options`](Outcome::options), among
//! them which [faults](Fault) can happen, and then every step. The same seed gives the same run,
//! byte for byte. A [`sweep()`] is many of them.

mod client;
mod clock;
mod cluster;
mod dice;
mod faults;
mod figures;
mod gateway;
mod hunt;
mod mistake;

mod network;
mod options;
mod run;
mod sweep;
mod trace;
mod world;

pub use faults::Fault;
pub use figures::Figures;
pub use holdfast_gateway::engine::Mutation;
pub use holdfast_judge::{Finding, Rule};
pub use hunt::{HUNTS, Hunt};
pub use mistake::Mistake;
pub use options::Options;
pub use run::{Outcome, Plan, run};
pub use sweep::{Swept, sweep};
pub use trace::Line;
