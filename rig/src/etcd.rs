//! One etcd member.

use crate::caller::Callers;
use crate::cluster::EtcdCluster;
use crate::http::http_get;
use crate::options::{EtcdOptions, EtcdVersion};
use crate::ports::free_port;
use crate::process::Process;
use crate::spec::ProcessSpec;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// The longest an `etcdctl` command may take.
const ETCDCTL_TIMEOUT: Duration = Duration::from_secs(30);

/// An etcd member with its data; ports and data stay over restarts.
#[derive(Debug)]
pub struct Etcd {
    version: EtcdVersion,
    options: EtcdOptions,
    name: String,
    ports: Ports,
    process: Process,
}

/// Where a member listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) client: u16,
    pub(crate) peer: u16,
    /// Where other members are told that it listens.
    pub(crate) peer_told: u16,
    /// Plain HTTP for health and metrics, with TLS on the client port too.
    pub(crate) metrics: u16,
}

impl Ports {
    pub(crate) fn choose() -> Result<Self> {
        let peer = free_port()?;
        Ok(Self {
            client: free_port()?,
            peer,
            peer_told: peer,
            metrics: free_port()?,
        })
    }
}

impl Etcd {
    /// Starts a cluster of one member with etcd's own settings and waits until it is healthy.
    ///
    /// # Errors
    /// When etcd is missing (the error says how to get it) or is not healthy in time.
    pub async fn start(version: EtcdVersion) -> Result<Self> {
        Self::start_with(version, EtcdOptions::default()).await
    }

    /// [`start`](Self::start) with settings.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(version: EtcdVersion, options: EtcdOptions) -> Result<Self> {
        let cluster = EtcdCluster::start_with(version, 1, options).await?;
        cluster
            .into_members()
            .pop()
            .context("a cluster without members")
    }

    /// A member of the cluster whose members are `peers` (`name=url,...`), not started.
    pub(crate) fn new(
        version: EtcdVersion,
        options: EtcdOptions,
        name: &str,
        ports: Ports,
        peers: &str,
        callers: &Callers,
    ) -> Result<Self> {
        let client_url = format!("{}://127.0.0.1:{}", options.client_scheme(), ports.client);
        let peer_listen_url = format!("http://127.0.0.1:{}", ports.peer);
        let peer_url = peer_url(ports);
        let metrics_url = format!("http://127.0.0.1:{}", ports.metrics);
        let spec = ProcessSpec::new(version.program("etcd")?)
            .args(["--name", name, "--data-dir", "data"])
            .args([
                "--listen-client-urls",
                &client_url,
                "--advertise-client-urls",
                &client_url,
            ])
            .args([
                "--listen-peer-urls",
                &peer_listen_url,
                "--initial-advertise-peer-urls",
                &peer_url,
            ])
            .args(["--initial-cluster", peers, "--initial-cluster-token", peers])
            .args(["--listen-metrics-urls", &metrics_url])
            .args(options.args(version))
            .known_as(callers, name)
            .ready_when_get_answers_200(ports.metrics, "/health");
        Ok(Self {
            version,
            options,
            name: name.to_owned(),
            ports,
            process: Process::new(spec)?,
        })
    }

    /// The URL for clients.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!(
            "{}://127.0.0.1:{}",
            self.options.client_scheme(),
            self.ports.client
        )
    }

    /// The port for clients.
    #[must_use]
    pub fn client_port(&self) -> u16 {
        self.ports.client
    }

    /// Runs `etcdctl` against this member alone and gives what it prints.
    ///
    /// # Errors
    /// When it fails, with what it printed, or takes longer than half a minute.
    pub async fn etcdctl(&self, args: &[&str]) -> Result<String> {
        self.etcdctl_on(&self.endpoint(), args).await
    }

    /// Puts a snapshot in the place of this member's data. It must not run.
    pub(crate) async fn restore(&self, snapshot: &Path, peers: &str, token: &str) -> Result<()> {
        let data = self.process.dir().join("data");
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        let own = format!("--initial-advertise-peer-urls={}", peer_url(self.ports));
        let args = [
            "snapshot",
            "restore",
            &snapshot.display().to_string(),
            &format!("--name={}", self.name),
            &format!("--initial-cluster={peers}"),
            &format!("--initial-cluster-token={token}"),
            &own,
            &format!("--data-dir={}", data.display()),
        ];
        self.etcdctl(&args).await.map(drop)
    }

    /// Runs `etcdctl` with this member's settings against `endpoints`.
    pub(crate) async fn etcdctl_on(&self, endpoints: &str, args: &[&str]) -> Result<String> {
        let mut command = tokio::process::Command::new(self.version.program("etcdctl")?);
        command
            .arg(format!("--endpoints={endpoints}"))
            .args(self.options.etcdctl_args())
            .args(args)
            .env("ETCDCTL_API", "3")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(ETCDCTL_TIMEOUT, command.output())
            .await
            .with_context(|| format!("etcdctl {args:?} took more than {ETCDCTL_TIMEOUT:?}"))??;
        let stdout = String::from_utf8_lossy(&output.stdout);
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "etcdctl {args:?}: {}\n{stdout}{stderr}",
            output.status
        );
        Ok(stdout.into_owned())
    }

    /// Whether this member says that it leads. A member that is down or stopped does not.
    pub async fn is_leader(&self) -> bool {
        self.metrics()
            .await
            .is_ok_and(|text| text.lines().any(|l| l == "etcd_server_is_leader 1"))
    }

    /// The member's metrics, in Prometheus's text format.
    ///
    /// # Errors
    /// When it does not answer within two seconds.
    pub async fn metrics(&self) -> Result<String> {
        Ok(http_get(self.ports.metrics, "/metrics").await?.body)
    }

    /// SIGKILL, and waits for the end.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it does not run, or has not ended within five minutes.
    pub async fn terminate(&mut self) -> Result<()> {
        self.process.terminate().await.map(drop)
    }

    /// SIGSTOP, and waits until the member stands still.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn stop(&mut self) -> Result<()> {
        self.process.stop().await
    }

    /// SIGCONT: lets a stopped member go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cont(&mut self) -> Result<()> {
        self.process.cont()
    }

    /// Kills the member if it runs, starts it again on the same ports and data, and waits until
    /// it is healthy, which takes a majority of the cluster.
    ///
    /// # Errors
    /// When it is not healthy in time.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.restart().await
    }

    /// The process, for whatever has no method here: its log, its id, starting it without waiting.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

pub(crate) fn peer_url(ports: Ports) -> String {
    format!("http://127.0.0.1:{}", ports.peer_told)
}
