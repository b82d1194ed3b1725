//! Clusters, gateways, and a proxy on every link.
//!
//! ```text
//! clients ──Link──▶ gateway ──Fork, a way per gateway──▶ Door ──▶ member ◀──Fork──▶ member
//!                      ▲───Fork, a way per gateway───▶ gateway
//! ```

mod cluster;
mod gateway;

pub use cluster::{Cluster, ClusterShape};
pub use gateway::Gateway;

use anyhow::{Context, Result, ensure};
use holdfast_client::Target;
use holdfast_rig::{Callers, Door, Process, ProcessSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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
    /// The sessions' TTL, in whole seconds.
    pub session_ttl: Duration,
    /// How long a gateway drains that is told to end. Clients here turn to another gateway by
    /// themselves, and no load balancer has to notice anything.
    pub drain: Duration,
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
            session_ttl: Duration::from_secs(3),
            drain: Duration::from_millis(500),
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
}

impl Stack {
    /// Starts everything and waits until every gateway is ready.
    ///
    /// # Errors
    /// When something does not start within a minute.
    pub async fn start(options: &StackOptions) -> Result<Self> {
        let callers = Callers::default();
        let mut clusters = Vec::new();
        for (index, shape) in options.clusters.iter().enumerate() {
            clusters.push(Cluster::start(index, *shape, &callers).await?);
        }
        init_map(&options.programs, &clusters, &callers).await?;
        let mut gateways = Vec::new();
        for index in 0..options.gateways {
            let home = clusters[0].endpoints();
            gateways.push(Gateway::start(index, options, &home, &callers).await?);
        }
        Ok(Self { clusters, gateways })
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
    /// When one does not start within a minute.
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

    /// How many lock records all clusters have.
    ///
    /// # Errors
    /// When a cluster does not answer.
    pub async fn records(&self) -> Result<usize> {
        let mut records = 0;
        for cluster in &self.clusters {
            records += cluster.keys("/locks/").await?.len();
        }
        Ok(records)
    }
}

async fn init_map(programs: &Path, clusters: &[Cluster], callers: &Callers) -> Result<()> {
    let mut spec = ProcessSpec::new(programs.join("shard-map"))
        .known_as(callers, "operator")
        .args(["init", "--shards", SHARDS, "--home"])
        .args([clusters[0].endpoints().join(",")]);
    for cluster in clusters {
        let urls = cluster.endpoints().join(",");
        spec = spec.args(["--cluster", &format!("{}={urls}", cluster.name())]);
    }
    let mut process = Process::start(spec).await?;
    let status = process.wait_end().await?;
    ensure!(status.success(), "shard-map init: {}", process.log());
    Ok(())
}
