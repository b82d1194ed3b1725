//! When things are to be done. Nothing here depends on how long anything takes: a late answer
//! does not move a later moment.

mod due;
mod grid;
mod pace;

pub(crate) use due::{DueHeap, Item};
pub(crate) use grid::{Grid, Turn};
pub(crate) use pace::Pace;
