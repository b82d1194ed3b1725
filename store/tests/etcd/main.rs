//! The etcd store against real etcd clusters that are killed, stopped and cut off. Needs the tools
//! that `make tools` fetches.
//!
//! The modules are for tests alone, which is what lets them unwrap and panic.

#[cfg(test)]
mod auth;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod keepalive;
#[cfg(test)]
mod lost;
#[cfg(test)]
mod nospace;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod watch;
