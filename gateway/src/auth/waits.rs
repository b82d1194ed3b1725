//! How many requests of one principal may wait in line at once.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The places of one principal.
#[derive(Debug)]
pub(super) struct Waits {
    /// `None`: any number.
    max: Option<NonZeroU32>,
    taken: Arc<AtomicU32>,
}

/// A place, which is given back when this is dropped.
#[derive(Debug)]
pub struct WaitPlace(Option<Arc<AtomicU32>>);

/// All places are taken. Nothing tells when one becomes free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace;

impl Waits {
    /// So many places, all of them free.
    pub(super) fn new(max: Option<NonZeroU32>) -> Self {
        Self {
            max,
            taken: Arc::default(),
        }
    }

    pub(super) fn take(&self) -> Result<WaitPlace, NoPlace> {
        let Some(max) = self.max else {
            return Ok(WaitPlace::FREE);
        };
        let one_more = |taken: u32| (taken < max.get()).then(|| taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map(|_| WaitPlace(Some(Arc::clone(&self.taken))))
            .map_err(|_| NoPlace)
    }
}

impl WaitPlace {
    /// One of any number.
    pub(super) const FREE: Self = Self(None);
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        if let Some(taken) = &self.0 {
            taken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_can_be_taken_again_when_it_was_given_back() {
        let waits = Waits::new(NonZeroU32::new(2));
        let (one, other) = (waits.take(), waits.take());
        assert!(one.is_ok() && other.is_ok());
        assert_eq!(waits.take().map(drop), Err(NoPlace));
        drop(one);
        let again = waits.take();
        assert!(again.is_ok());
        assert!(waits.take().is_err());
    }

    #[test]
    fn without_a_limit_there_are_always_places() {
        let waits = Waits::new(None);
        let taken: Vec<_> = (0..1_000).map(|_| waits.take()).collect();
        assert!(taken.iter().all(Result::is_ok));
    }
}
