//! Gateways that ask each other: a request about a lock of another gateway is forwarded to it over
//! a kept connection, in frames that carry many calls.
//!
//! A connection begins as HTTP (`GET /peer`, `Upgrade: holdfast-peer`), so that it goes where HTTP
//! goes; then both sides show that they know the deployment's secret ([`handshake`]); from then
//! on there are frames ([`wire`]). What is asked of whom and what an answer means is decided
//! without I/O in [`link`]; `dial` and `listen` are the shells.

mod connection;
mod dial;
mod handshake;
mod link;
mod listen;
mod peers;
mod wire;

pub use handshake::PeerSecret;
pub use link::{Link, Step};
pub use listen::listen;
pub use peers::Peers;
pub use wire::{Call, CallNo, Frame, Left, Said};
