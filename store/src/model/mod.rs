//! An etcd cluster in memory, as a pure state machine.

/// See the module.
#[derive(Debug, Default)]
pub struct Model;
