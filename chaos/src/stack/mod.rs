//! Clusters, gateways, and a proxy on every link.
//!
//! ```text
//! clients ──Link──▶ gateway ──Fork, a way per gateway──▶ Door ──▶ member ◀──Fork──▶ member
//!                      ▲───Fork, a way per gateway───▶ gateway
//! ```

mod cluster;
mod gateway;
mod operator;

pub use cluster::{Cluster, ClusterShape};
pub use gateway::Gateway;
pub use operator::{Operator, Ran};

use anyhow::{Context, Result, ensure};
use holdfast_client::Target;
use holdfast_rig::{Callers, Door};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Shards of the map.
const SHARDS: &str = "64";

/// What to start.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// How many gateways.
    pub gateways: usize,
    /// The clusters; the first is home too.
    pub clusters: Vec<ClusterShape>,
    /// Of these the last so many, which the map does not have.
    pub spares: usize,
    /// The sessions' TTL, in whole seconds.
    pub session_ttl: Duration,
    /// How long a gateway drains that is told to end. Clients here turn to another gateway by
    /// themselves, and no load balancer has to notice anything.
    pub drain: Duration,
    /// The file with the principals, for gateways that want credentials.
    pub principals: Option<String>,
    /// What gateways log.
    pub log_filter: &'static str,
    /// The folder with `gateway` and `shard-map`.
    pub programs: PathBuf,
}

impl StackOptions {
    /// So many gateways over these clusters, with the shortest sessions that may be configured.
    /// Without a folder of programs, it is this program's own.
    ///
    /// # Errors
    /// When the programs are not built.
    pub fn new(
        gateways: usize,
        clusters: Vec<ClusterShape>,
        programs: Option<PathBuf>,
    ) -> Result<Self> {
        Ok(Self {
            gateways,
            clusters,
            spares: 0,
            session_ttl: Duration::from_secs(3),
            drain: Duration::from_millis(500),
            principals: None,
            log_filter: "info",
            programs: in_folder(programs)?,
        })
    }
}

/// The folder that is given, or that of this program, which cargo builds the others into too.
fn in_folder(given: Option<PathBuf>) -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let own = own.parent().context("a program without a folder")?;
    let folder = match given {
        Some(folder) => std::path::absolute(folder)?,
        None if own.ends_with("deps") => own.parent().context("deps without a folder")?.to_owned(),
        None => own.to_owned(),
    };
    for program in ["gateway", "shard-map"] {
        ensure!(
            folder.join(program).is_file(),
            "{program} is missing in {}: run `cargo build --workspace --bins`",
            folder.display()
        );
    }
    Ok(folder)
}

/// See the module.
#[derive(Debug)]
pub struct Stack {
    /// The clusters; the first is home too.
    pub clusters: Vec<Cluster>,
    /// The gateways.
    pub gateways: Vec<Gateway>,
    programs: PathBuf,
    callers: Callers,
}

impl Stack {
    /// Starts everything and waits until every gateway is ready.
    ///
    /// # Errors
    /// When something does not start in time.
    pub async fn start(options: &StackOptions) -> Result<Self> {
        let callers = Callers::default();
        let mut clusters = Vec::new();
        for (index, shape) in options.clusters.iter().enumerate() {
            clusters.push(Cluster::start(index, *shape, &callers).await?);
        }
        let mut stack = Self {
            clusters,
            gateways: Vec::new(),
            programs: options.programs.clone(),
            callers,
        };
        stack.init_map(options.spares).await?;
        for index in 0..options.gateways {
            let home = stack.clusters[0].endpoints();
            let gateway = Gateway::start(index, options, &home, &stack.callers).await?;
            stack.gateways.push(gateway);
        }
        Ok(stack)
    }

    async fn init_map(&self, spares: usize) -> Result<()> {
        let mapped = &self.clusters[..self.clusters.len() - spares];
        let named = |cluster: &Cluster| format!("--cluster={}", cluster.as_argument());
        let named: Vec<String> = mapped.iter().map(named).collect();
        let mut args = vec!["init", "--shards", SHARDS];
        args.extend(named.iter().map(String::as_str));
        let ran = self.operator("operator").run(&args).await?;
        ensure!(ran.code == 0, "shard-map init: {}", ran.text);
        Ok(())
    }

    /// Somebody who runs `shard-map`, as whom the ways to the clusters know them.
    #[must_use]
    pub fn operator(&self, name: &str) -> Operator {
        let home = self.clusters[0].endpoints().join(",");
        Operator::new(name, &self.programs, home, self.callers.clone())
    }

    /// Where clients reach the gateways.
    ///
    /// # Panics
    /// Never: a port of loopback is a target.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a port of loopback is a target")]
    pub fn targets(&self) -> Vec<Target> {
        let url = |gateway: &Gateway| format!("http://127.0.0.1:{}", gateway.clients().port());
        let targets = self.gateways.iter().map(url);
        targets.map(|url| url.parse().expect("a target")).collect()
    }

    /// Opens every link, plays no tricks, and starts or continues every process.
    ///
    /// # Errors
    /// When one does not start in time.
    pub async fn heal(&self) -> Result<()> {
        for cluster in &self.clusters {
            cluster.heal(self.gateways.len()).await?;
        }
        for gateway in &self.gateways {
            gateway.heal(self.gateways.len()).await?;
        }
        Ok(())
    }

    /// How often the doors have done what they were told to.
    #[must_use]
    pub fn tricks(&self) -> BTreeMap<String, u64> {
        let mut tricks = BTreeMap::new();
        let doors = self.clusters.iter().flat_map(Cluster::doors);
        for (trick, times) in doors.flat_map(Door::figures) {
            *tricks.entry(trick).or_default() += times;
        }
        tricks
    }

    /// The keys of all clusters that begin so.
    ///
    /// # Errors
    /// When a cluster does not answer.
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for cluster in &self.clusters {
            keys.extend(cluster.keys(prefix).await?);
        }
        Ok(keys)
    }

    /// How many leases all clusters have.
    ///
    /// # Errors
    /// When a cluster does not answer.
    pub async fn leases(&self) -> Result<usize> {
        let mut leases = 0;
        for cluster in &self.clusters {
            leases += cluster.leases().await?;
        }
        Ok(leases)
    }

    /// How many lock records all clusters have.
    ///
    /// # Errors
    /// When a cluster does not answer.
    pub async fn records(&self) -> Result<usize> {
        Ok(self.keys("/locks/").await?.len())
    }
}
