//! Every state of the model, and what breaks when something is done wrong.

mod mistakes;
mod scenes;
