//! What must hold of readers of foreign bytes that nobody outside this crate can reach, for the
//! crate `holdfast-fuzz`. Each function panics when it does not hold.

pub use crate::engine::fuzz::records;
pub use crate::http::fuzz::{bodies, heads};
