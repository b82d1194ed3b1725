//! Gateways that ask each other over real sockets, in front of clusters in memory.
//!
//! The modules are for tests alone, which is what lets them unwrap and panic.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod maps;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tls;
