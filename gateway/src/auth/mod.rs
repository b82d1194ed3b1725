//! Who asks, and what they may do.
//!
//! The roll ([`Roll`]) is a file: principals, the hashes of their tokens, the names in their
//! certificates, and on which lock names they have which right. It is read anew when it changes
//! ([`crate::reload`]). Each connection has a [`Caller`], which turns the credentials of a request
//! into a [`Who`] and remembers the last, as clients send the same ones again and again.
//!
//! What each may ask for in a second is bounded too ([`Budgets`]), and how many of its requests may wait
//! in line.
//!
//! Decisions here are pure; a token is compared and never kept, and nothing prints one.

mod budget;
mod caller;
mod rights;
mod roll;
mod token;
mod waits;

pub(crate) use budget::network_of;
pub use budget::{Buckets, Budgets, Exhausted, PerSecond, Rates, Share};
pub use caller::{Auth, AuthMode, Caller, Certificate, Stranger, Who};
pub use rights::{Right, Rights};
pub use roll::{Entry, Roll, RollEntry, RollFile};
pub use token::{BearerToken, TokenHash};
pub use waits::{NoPlace, WaitPlace};
