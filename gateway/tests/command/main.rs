//! The gateway command, as a process.
//!
//! The modules are for tests alone, which is what lets them unwrap and panic.

#[cfg(test)]
mod check;
#[cfg(test)]
mod dev;
#[cfg(test)]
#[path = "../edge/hostile/mod.rs"]
mod hostile;
#[cfg(test)]
#[path = "../edge/raw.rs"]
mod raw;
#[cfg(test)]
mod service;
#[cfg(test)]
mod token;
