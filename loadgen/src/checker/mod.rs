//! What a lock service must never do, checked from what one client sees.
//!
//! [`Known`] holds what was told about one name and finds contradictions. Every rule is
//! one-sided: it reports only what cannot be explained by messages having taken long. A promise
//! certainly holds from the *receipt* of the reply until the *sending* plus the time to live; two
//! grants are certainly in order when the second was asked for after the first was answered.

mod findings;
mod free;
mod history;
mod known;
#[cfg(test)]
mod known_tests;

pub(crate) use findings::Findings;
pub(crate) use free::FreeTimes;
pub(crate) use history::Event;
pub(crate) use known::{At, Foreign, Known, Standing, Violation, Who};
