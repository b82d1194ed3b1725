//! Real gateways over real etcd clusters, with everything going wrong that can be made to.
//!
//! A [`Stack`] is clusters, gateways and a proxy on every link between them. A [`Fleet`] of clients
//! locks, renews, sleeps, cheats and writes to a fenced resource, and reports everything to a
//! [`Court`], where the judge sits that the simulator uses too. A [`Schedule`] drawn from a seed says
//! which [`Fault`] strikes when; [`run()`] plays it, heals everything and then asks for what must be
//! true again when everything works. `tests/rows` plays single faults. [`soak()`] has clients come and
//! go, and looks whether anything is left of them.

mod args;
mod calm;
mod court;
mod faults;
mod fleet;
mod report;
mod resource;
mod run;
mod schedule;
mod soak;
mod stack;

pub use args::{RunArgs, exit_code, say};
pub use court::{Counts, Court, Sent, now};
pub use faults::{Fault, Harm, Route, Strike};
pub use fleet::{Answer, Client, Fleet, FleetOptions, Held};
pub use report::Report;
pub use run::{Options, run};
pub use schedule::Schedule;
pub use soak::{Levels, SoakOptions, SoakReport, soak};
pub use stack::{Cluster, ClusterShape, Gateway, Operator, Ran, Stack, StackOptions};
