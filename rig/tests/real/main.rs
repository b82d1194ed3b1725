//! The rig against the real programs.

mod etcd;
mod process;
