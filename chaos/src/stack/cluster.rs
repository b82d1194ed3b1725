//! An etcd cluster with doors and forks in front of its members.

use anyhow::Result;
use holdfast_rig::{Callers, Door, EtcdCluster, EtcdOptions, EtcdVersion, Fork, Way, free_port};
use tokio::sync::{Mutex, MutexGuard};

/// What to start.
#[derive(Debug, Clone, Copy)]
pub struct ClusterShape {
    /// How many members.
    pub members: usize,
    /// Of which version.
    pub version: EtcdVersion,
    /// The size of the data from which on writes are refused, if not etcd's own, in bytes.
    pub quota_bytes: Option<u64>,
}

impl ClusterShape {
    /// One member of etcd 3.5.
    pub const ONE: Self = Self {
        members: 1,
        version: EtcdVersion::V3_5,
        quota_bytes: None,
    };
    /// Three members of etcd 3.5.
    pub const THREE: Self = Self {
        members: 3,
        version: EtcdVersion::V3_5,
        quota_bytes: None,
    };
    /// One member of etcd 3.4.
    pub const OLD: Self = Self {
        members: 1,
        version: EtcdVersion::V3_4,
        quota_bytes: None,
    };
}

/// See the module.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    shape: ClusterShape,
    etcd: Mutex<EtcdCluster>,
    doors: Vec<Door>,
    forks: Vec<Fork>,
}

impl Cluster {
    pub(super) async fn start(
        index: usize,
        shape: ClusterShape,
        callers: &Callers,
    ) -> Result<Self> {
        let options = EtcdOptions {
            unsafe_no_fsync: true,
            quota_backend_bytes: shape.quota_bytes,
            peer_ways: shape.members > 1,
            extra_args: vec![
                "--auto-compaction-mode=revision".to_owned(),
                "--auto-compaction-retention=1000".to_owned(),
            ],
            ..EtcdOptions::default()
        };
        let mut etcd = EtcdCluster::start_with(shape.version, shape.members, options).await?;
        let (mut doors, mut forks) = (Vec::new(), Vec::new());
        for member in etcd.members() {
            let door = Door::to(member.client_port()).await?;
            forks.push(Fork::open(free_port()?, door.port(), callers.clone()).await?);
            doors.push(door);
        }
        Ok(Self {
            name: format!("c{index}"),
            shape,
            etcd: Mutex::new(etcd),
            doors,
            forks,
        })
    }

    /// Its name in the map.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many members it has.
    #[must_use]
    pub fn members(&self) -> usize {
        self.shape.members
    }

    /// The URLs for gateways, through forks and doors.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let url = |fork: &Fork| format!("http://127.0.0.1:{}", fork.port());
        self.forks.iter().map(url).collect()
    }

    /// As the commands about the map want it: `NAME=URL[,URL]`.
    #[must_use]
    pub fn as_argument(&self) -> String {
        format!("{}={}", self.name, self.endpoints().join(","))
    }

    /// The processes. Whoever has them keeps other faults from them.
    pub async fn etcd(&self) -> MutexGuard<'_, EtcdCluster> {
        self.etcd.lock().await
    }

    /// The door in front of each member.
    #[must_use]
    pub fn doors(&self) -> &[Door] {
        &self.doors
    }

    /// The ways of a gateway to each member.
    #[must_use]
    pub fn ways_of(&self, gateway: usize) -> Vec<Way> {
        let caller = super::gateway::name(gateway);
        self.forks.iter().map(|fork| fork.way(&caller)).collect()
    }

    /// The ways of an operator to each member.
    #[must_use]
    pub fn ways_of_operator(&self, name: &str) -> Vec<Way> {
        self.forks.iter().map(|fork| fork.way(name)).collect()
    }

    /// The two ways between two members: each calls the other.
    pub async fn ways_between(&self, one: usize, other: usize) -> [Way; 2] {
        let etcd = self.etcd.lock().await;
        [etcd.peer_way(one, other), etcd.peer_way(other, one)]
    }

    /// The keys that begin so.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let etcd = self.etcd.lock().await;
        let printed = etcd
            .etcdctl(&["get", prefix, "--prefix", "--keys-only"])
            .await?;
        let keys = printed.lines().filter(|line| !line.is_empty());
        Ok(keys.map(str::to_owned).collect())
    }

    /// How many leases it has.
    ///
    /// # Errors
    /// When the cluster does not answer.
    pub async fn leases(&self) -> Result<usize> {
        let etcd = self.etcd.lock().await;
        let printed = etcd.etcdctl(&["lease", "list"]).await?;
        // Below a line that says how many there are.
        Ok(printed
            .lines()
            .skip(1)
            .filter(|line| !line.is_empty())
            .count())
    }

    pub(super) async fn heal(&self, gateways: usize) -> Result<()> {
        self.doors.iter().for_each(Door::play_nothing);
        for gateway in 0..gateways {
            self.ways_of(gateway).iter().for_each(Way::open);
        }
        let mut etcd = self.etcd.lock().await;
        for one in 0..self.members() {
            for other in 0..self.members() {
                if one != other {
                    etcd.peer_way(one, other).open();
                }
            }
        }
        for member in etcd.members() {
            if member.process().is_running() {
                member.cont()?;
            } else {
                member.process().launch()?;
            }
        }
        for member in etcd.members() {
            member.process().wait_ready().await?;
        }
        Ok(())
    }
}
