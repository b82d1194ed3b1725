//! The gateway command.
fn main() {}
