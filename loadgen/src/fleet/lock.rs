//! One lock's part of a worker's table; there may be a million.

use crate::checker::Known;

/// What the holder wants of its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// To have it.
    #[default]
    Waiting,
    /// To keep it.
    Held,
    /// To be rid of it.
    Releasing,
    /// Nothing: it stopped without a release.
    Stopped,
    /// Nothing any more.
    Done,
}

impl State {
    pub(super) const COUNT: usize = Self::Done as usize + 1;
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    pub(super) known: Known,
    /// Which hold, or which wait for one; 0 until the first grant.
    pub(super) generation: u16,
    pub(super) state: State,
    /// A renewal is under way or will be repeated.
    pub(super) busy: bool,
}

impl Lock {
    pub(super) fn next_generation(&mut self) {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.busy = false;
    }
}

// With a lock id of 80 characters on the heap this keeps a lock below 200 bytes.
const _: () = assert!(size_of::<Lock>() <= 96);
