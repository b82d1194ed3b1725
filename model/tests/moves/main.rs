//! Every state of a shard that moves, and what breaks when something is done wrong.

mod mistakes;
mod scenes;
