//! Real etcd clusters and other real processes on loopback, for integration tests.
//!
//! A test starts an [`Etcd`] member, an [`EtcdCluster`] or a [`Process`], stops, kills and
//! restarts it, and drops it; dropping kills by process id and waits. Should the test itself be
//! killed, the kernel ends what it started. etcd comes from the workspace's `.tools/` folder,
//! which `make tools` fills.
//!
//! Everything waits on a condition with a deadline in real time, so tests that use the rig cannot
//! run under a paused clock. Errors carry the end of the process's log.

mod caller;
mod cluster;
mod door;
mod etcd;
mod fork;
mod http;
mod link;
mod options;
mod ports;
mod process;
mod spawner;
mod spec;
mod tls;
mod tools;
mod wait;

pub use caller::Callers;
pub use cluster::{EtcdCluster, RestoredAs};
pub use door::{Call, Door, Repeated, Rule, Trick};
pub use etcd::Etcd;
pub use fork::Fork;
pub use http::{HttpReply, http_get};
pub use link::{Link, Way};
pub use options::{EtcdOptions, EtcdVersion, TlsFiles};
pub use ports::free_port;
pub use process::Process;
pub use spec::ProcessSpec;
pub use tools::tool;
pub use wait::wait_until;
