//! Threads, sockets, signals, the terminal.

mod control;
mod course;
mod link;
mod metrics;
mod progress;
mod run;
mod worker;

pub(crate) use run::run;
