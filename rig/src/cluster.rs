//! Several etcd members.

use crate::caller::Callers;
use crate::etcd::{Etcd, Ports, peer_url};
use crate::fork::Fork;
use crate::link::Way;
use crate::options::{EtcdOptions, EtcdVersion};
use crate::ports::free_port;
use crate::wait::wait_until;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;

/// How often a cluster is set up anew because a port was taken between choice and use.
const PORT_ATTEMPTS_MAX: usize = 5;

/// The longest wait for a leader.
const LEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// An etcd cluster on loopback.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Etcd>,
    /// All members with their peer URLs, as etcd's flag has it.
    peers: String,
    /// In front of each member's peer port, if asked for.
    forks: Vec<Fork>,
}

/// Which name a restored cluster gets, from which etcd makes its cluster id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredAs {
    /// The old one: the restored cluster has the id of the old one.
    Same,
    /// A new one, as etcd's guide recommends: it has another id.
    New,
}

impl EtcdCluster {
    /// Starts `members` members with etcd's own settings and waits until each is healthy.
    ///
    /// # Errors
    /// When etcd is missing (the error says how to get it) or a member is not healthy within a
    /// minute.
    pub async fn start(version: EtcdVersion, members: usize) -> Result<Self> {
        Self::start_with(version, members, EtcdOptions::default()).await
    }

    /// [`start`](Self::start) with settings.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        version: EtcdVersion,
        members: usize,
        options: EtcdOptions,
    ) -> Result<Self> {
        let mut attempt = 1;
        loop {
            let mut cluster = Self::new(version, members, &options).await?;
            match cluster.launch().await {
                Ok(()) => return Ok(cluster),
                Err(_) if cluster.has_lost_a_port() && attempt < PORT_ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn new(version: EtcdVersion, members: usize, options: &EtcdOptions) -> Result<Self> {
        let mut ports: Vec<Ports> = (0..members)
            .map(|_| Ports::choose())
            .collect::<Result<_>>()?;
        let callers = Callers::default();
        let mut forks = Vec::new();
        if options.peer_ways {
            for ports in &mut ports {
                let fork = Fork::open(free_port()?, ports.peer, callers.clone()).await?;
                ports.peer_told = fork.port();
                forks.push(fork);
            }
        }
        let peers: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(i, p)| format!("{}={}", name(i), peer_url(*p)))
            .collect();
        let peers = peers.join(",");
        let members = ports
            .iter()
            .enumerate()
            .map(|(i, p)| Etcd::new(version, options.clone(), &name(i), *p, &peers, &callers))
            .collect::<Result<_>>()?;
        Ok(Self {
            members,
            peers,
            forks,
        })
    }

    /// Starts all before waiting for any: one alone never becomes healthy.
    async fn launch(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.process().launch()?;
        }
        for member in &mut self.members {
            member.process().wait_ready().await?;
        }
        Ok(())
    }

    fn has_lost_a_port(&mut self) -> bool {
        self.members
            .iter_mut()
            .any(|member| member.process().log().contains("address already in use"))
    }

    /// The URLs for clients, in the order of the members.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(Etcd::endpoint).collect()
    }

    /// A member, counted from 0.
    ///
    /// # Panics
    /// When there is no such member.
    pub fn member(&mut self, index: usize) -> &mut Etcd {
        &mut self.members[index]
    }

    /// All members.
    pub fn members(&mut self) -> &mut [Etcd] {
        &mut self.members
    }

    /// The members, each to be used alone.
    #[must_use]
    pub fn into_members(self) -> Vec<Etcd> {
        self.members
    }

    /// Waits until exactly one member says that it leads, and gives its index.
    ///
    /// # Errors
    /// When that is not so in time.
    pub async fn wait_leader(&self) -> Result<usize> {
        wait_until("one leader", LEADER_TIMEOUT, || async {
            let mut leaders = Vec::new();
            for (index, member) in self.members.iter().enumerate() {
                if member.is_leader().await {
                    leaders.push(index);
                }
            }
            ensure!(leaders.len() == 1, "those that say they lead: {leaders:?}");
            Ok(leaders[0])
        })
        .await
    }

    /// Kills all members that run, starts all again on their ports and data, and waits until each
    /// is healthy.
    ///
    /// # Errors
    /// When one is not healthy in time.
    pub async fn restart(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.kill()?;
        }
        self.launch().await
    }

    /// The way from one member to another, counted from 0. A member both calls and is called by
    /// each other one, so what lies between two members are two ways.
    ///
    /// # Panics
    /// When there is no such member, or the cluster was started without
    /// [`peer_ways`](EtcdOptions::peer_ways).
    #[must_use]
    pub fn peer_way(&self, from: usize, to: usize) -> Way {
        self.forks[to].way(&name(from))
    }

    /// Writes a snapshot of the first member's data to `file`.
    ///
    /// # Errors
    /// As [`etcdctl`](Self::etcdctl).
    pub async fn save_snapshot(&self, file: &Path) -> Result<()> {
        let first = self.members.first().context("a cluster without members")?;
        let file = file.display().to_string();
        first.etcdctl(&["snapshot", "save", &file]).await.map(drop)
    }

    /// Kills all members, puts the snapshot in the place of their data, starts them on the same
    /// ports and waits until each is healthy.
    ///
    /// # Errors
    /// When the snapshot cannot be restored, or a member is not healthy in time.
    pub async fn restore_snapshot(&mut self, file: &Path, restored_as: RestoredAs) -> Result<()> {
        let token = match restored_as {
            RestoredAs::Same => self.peers.clone(),
            RestoredAs::New => format!("{}-restored", self.peers),
        };
        for member in &mut self.members {
            member.kill()?;
        }
        for member in &self.members {
            member.restore(file, &self.peers, &token).await?;
        }
        self.launch().await
    }

    /// Runs `etcdctl` with all endpoints and gives what it prints.
    ///
    /// # Errors
    /// When it fails, with what it printed, or takes longer than half a minute.
    pub async fn etcdctl(&self, args: &[&str]) -> Result<String> {
        let first = self.members.first().context("a cluster without members")?;
        first.etcdctl_on(&self.endpoints().join(","), args).await
    }
}

/// Of the member with this index.
fn name(index: usize) -> String {
    format!("m{index}")
}
