//! What happened in a run: always as a hash, and as text when it is asked for.

use crate::clock::Real;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

/// See the module.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<Line>>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// World time in milliseconds.
    pub at: u64,
    /// The number of the lock's name it is about; none: all of them.
    pub name: Option<usize>,
    /// What.
    pub text: String,
}

impl Trace {
    pub(crate) fn new(as_text: bool) -> Self {
        Self {
            hash: DefaultHasher::new(),
            lines: as_text.then(Vec::new),
        }
    }

    pub(crate) fn note(&mut self, at: Real, name: Option<usize>, what: &(impl Hash + Debug)) {
        (at, name).hash(&mut self.hash);
        what.hash(&mut self.hash);
        if let Some(lines) = &mut self.lines {
            let text = format!("{what:?}");
            lines.push(Line { at, name, text });
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    pub(crate) fn into_lines(self) -> Vec<Line> {
        self.lines.unwrap_or_default()
    }
}
