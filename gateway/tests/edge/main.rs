//! The edge over real sockets, in front of a scripted lock service.
//!
//! The modules are for tests alone, which is what lets them unwrap and panic.

#[cfg(test)]
mod admin;
#[cfg(test)]
mod attacks;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod express;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http2;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod operate;
#[cfg(test)]
mod patience;
#[cfg(test)]
mod quotas;
#[cfg(test)]
mod raw;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod tls;
