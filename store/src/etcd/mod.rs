//! The store over a real etcd cluster.

/// See the module.
#[derive(Debug)]
pub struct EtcdStore;
