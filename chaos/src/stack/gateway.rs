//! A gateway process, with a link for its clients and a fork for its peers.

use super::StackOptions;
use anyhow::Result;
use holdfast_rig::{
    Callers, Fork, HttpReply, Link, Process, ProcessSpec, Way, free_port, http_get,
};
use std::fs;
use tokio::sync::{Mutex, MutexGuard};

/// See the module.
#[derive(Debug)]
pub struct Gateway {
    process: Mutex<Process>,
    clients: Link,
    peers: Fork,
    admin: u16,
}

/// How much of a log a finding shows, in lines.
const LOG_TAIL_LINES: usize = 30;

/// What the callers' list has it as.
pub(super) fn name(index: usize) -> String {
    format!("g{index}")
}

impl Gateway {
    pub(super) async fn start(
        index: usize,
        options: &StackOptions,
        home: &[String],
        callers: &Callers,
    ) -> Result<Self> {
        let (public, admin, peer) = (free_port()?, free_port()?, free_port()?);
        let peers = Fork::open(free_port()?, peer, callers.clone()).await?;
        let spec = ProcessSpec::new(options.programs.join("gateway"))
            .args(["serve", "--config", "gateway.toml"])
            .known_as(callers, name(index))
            .ready_when_get_answers_200(admin, "/readyz");
        let mut process = Process::new(spec)?;
        let auth = match &options.principals {
            Some(roll) => {
                fs::write(process.dir().join("principals.toml"), roll)?;
                "auth.mode = \"tokens\"\nauth.principals_file = \"principals.toml\""
            }
            None => "auth.mode = \"none\"",
        };
        let config = format!(
            "listen = \"127.0.0.1:{public}\"\n\
             admin_listen = \"127.0.0.1:{admin}\"\n\
             peer_listen = \"127.0.0.1:{peer}\"\n\
             peer_url = \"http://127.0.0.1:{told}\"\n\
             state_dir = \"state\"\n\
             home.endpoints = {home:?}\n\
             log.filter = \"{log}\"\n{auth}\n\
             etcd.session_ttl_ms = {session}\n\
             limits.wait_ms_max = 120000\n\
             http.idle_timeout_ms = 140000\n\
             shutdown.drain_ms = {drain}\n",
            told = peers.port(),
            session = options.session_ttl.as_millis(),
            drain = options.drain.as_millis(),
            log = options.log_filter,
        );
        fs::write(process.dir().join("gateway.toml"), config)?;
        process.restart().await?;
        Ok(Self {
            process: Mutex::new(process),
            clients: Link::to(public).await?,
            peers,
            admin,
        })
    }

    /// The process. Whoever has it keeps other faults from it.
    pub async fn process(&self) -> MutexGuard<'_, Process> {
        self.process.lock().await
    }

    /// The end of its log, if it has ended and no fault has it in its hands.
    #[must_use]
    pub fn has_ended(&self) -> Option<String> {
        let mut process = self.process.try_lock().ok()?;
        if process.is_running() {
            return None;
        }
        let log = process.log();
        let lines: Vec<&str> = log.lines().collect();
        Some(lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n"))
    }

    /// All that it has logged.
    pub async fn log(&self) -> String {
        self.process().await.log()
    }

    /// The link that its clients use.
    #[must_use]
    pub fn clients(&self) -> &Link {
        &self.clients
    }

    /// The way of another gateway to this one.
    #[must_use]
    pub fn way_of(&self, peer: usize) -> Way {
        self.peers.way(&name(peer))
    }

    /// What its admin listener answers.
    ///
    /// # Errors
    /// When it does not answer within two seconds.
    pub async fn admin(&self, path: &str) -> Result<HttpReply> {
        http_get(self.admin, path).await
    }

    pub(super) async fn heal(&self, gateways: usize) -> Result<()> {
        self.clients.open();
        for peer in 0..gateways {
            self.way_of(peer).open();
        }
        let mut process = self.process.lock().await;
        if process.is_running() {
            process.cont()?;
            process.wait_ready().await
        } else {
            process.restart().await
        }
    }
}
