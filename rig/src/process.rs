//! One real process, and what can be done to it.

use crate::http::http_get;
use crate::spawner;
use crate::spec::ProcessSpec;
use crate::wait::wait_until;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The longest wait for a process to become ready. Generous, since test machines are shared: where everything
/// gets a tenth of what it needs, a gateway proves no session, and there are minutes like that.
const READY_TIMEOUT: Duration = Duration::from_secs(240);

/// If this is in the environment, working directories stay, with the logs.
const KEEP: &str = "RIG_KEEP";

/// The longest wait for a process to stop after a signal.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest wait for a process to end, by itself or after a signal: an operator's command waits for a
/// rollout.
const END_TIMEOUT: Duration = Duration::from_secs(300);

/// How much of a log an error shows, in lines.
const LOG_TAIL_LINES: usize = 25;

/// A process in a temporary working directory of its own, which survives restarts.
///
/// Its output goes to a log file there. Dropping kills the process, waits for its end, removes
/// the directory (unless `RIG_KEEP` is set), and during a panic first prints the end of the log.
#[derive(Debug)]
pub struct Process {
    spec: ProcessSpec,
    dir: TempDir,
    child: Option<Child>,
}

impl Process {
    /// Starts `spec` and waits until it is ready.
    ///
    /// # Errors
    /// When it does not start, ends, or is not ready within four minutes; with the end of its log.
    pub async fn start(spec: ProcessSpec) -> Result<Self> {
        let mut process = Self::new(spec)?;
        process.restart().await?;
        Ok(process)
    }

    /// `spec` in a directory of its own, not running: [`launch`](Self::launch) starts it.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn new(spec: ProcessSpec) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("holdfast-rig-")
            .disable_cleanup(std::env::var_os(KEEP).is_some())
            .tempdir()?;
        Ok(Self {
            spec,
            dir,
            child: None,
        })
    }

    /// The working directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process id; `None` when it was ended through this object or never started.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether it has been started and has not ended since, by itself or otherwise.
    pub fn is_running(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Kills it if it runs, starts it again with the same arguments and directory, and waits
    /// until it is ready.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.launch()?;
        self.wait_ready().await
    }

    /// Starts it without waiting until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or runs already.
    pub fn launch(&mut self) -> Result<()> {
        ensure!(!self.is_running(), "{} runs already", self.name());
        // setpriv would report this too, but only into the log.
        ensure!(
            self.spec.program.is_file(),
            "{} is not there",
            self.spec.program.display()
        );
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_path())?;
        let mut command = spawner::command(&self.spec.program);
        command
            .args(&self.spec.args)
            .envs(self.spec.envs.iter().map(|(key, value)| (key, value)))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.child = Some(spawner::spawn(command)?);
        self.enter_list();
        Ok(())
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// When it has ended or is not ready within four minutes; with the end of its log.
    pub async fn wait_ready(&mut self) -> Result<()> {
        let Some((port, path)) = self.spec.ready.clone() else {
            return Ok(());
        };
        let what = format!("{} to be ready", self.name());
        // The inner error is final, the outer one means "look again".
        let outcome = wait_until(&what, READY_TIMEOUT, || {
            let running = self.is_running();
            let path = &path;
            async move {
                if !running {
                    return Ok(Err(anyhow!("it has ended")));
                }
                let reply = http_get(port, path).await?;
                ensure!(
                    reply.status == 200,
                    "GET {path} answered {} {}",
                    reply.status,
                    reply.body
                );
                Ok(Ok(()))
            }
        })
        .await
        .flatten();
        outcome.with_context(|| format!("{}; its log ends:\n{}", self.name(), self.log_tail()))
    }

    /// SIGKILL, and waits for the end. Nothing happens if it does not run.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
            self.enter_list();
        }
        Ok(())
    }

    /// The list of callers says which process this is now.
    fn enter_list(&self) {
        if let Some((callers, name)) = &self.spec.known_as {
            callers.set(name, self.pid());
        }
    }

    /// SIGTERM, and waits for the end.
    ///
    /// # Errors
    /// When it does not run, or has not ended within five minutes (then it still runs).
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait_end().await
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it was not started, or has not ended within five minutes; with the end of its log.
    pub async fn wait_end(&mut self) -> Result<ExitStatus> {
        let child = self.child.as_mut().context("it was not started")?;
        let ended = wait_until("the process to end", END_TIMEOUT, || {
            let status = child.try_wait();
            async move { status?.context("it runs") }
        })
        .await;
        let status = ended.with_context(|| format!("its log ends:\n{}", self.log_tail()))?;
        self.child = None;
        self.enter_list();
        Ok(status)
    }

    /// SIGSTOP, and waits until the process stands still.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn stop(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let stat = format!("/proc/{}/stat", self.pid().context("it was not started")?);
        wait_until("the process to stop", SIGNAL_TIMEOUT, || {
            let stat = fs::read_to_string(&stat);
            async move {
                // The state follows the program's name, which is in brackets and may hold any.
                let state = stat?
                    .rsplit_once(") ")
                    .and_then(|(_, rest)| rest.chars().next());
                ensure!(state == Some('T'), "it is in state {state:?}");
                Ok(())
            }
        })
        .await
    }

    /// SIGCONT: lets a stopped process go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn cont(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Sends any signal.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        // A child that was not waited for keeps its id, so this can hit no other process.
        if !self.is_running() {
            bail!(
                "{} does not run; its log ends:\n{}",
                self.name(),
                self.log_tail()
            );
        }
        let child = self.child.as_ref().context("it was not started")?;
        Ok(kill_process(Pid::from_child(child), signal)?)
    }

    /// All that it has printed, over all restarts.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn name(&self) -> String {
        let name = self.spec.program.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            report_log(&self.name(), &self.log_tail());
        }
        // A destructor has nobody to tell; a child that cannot be killed has ended.
        let _ = self.kill();
    }
}

#[expect(
    clippy::print_stderr,
    reason = "a failed test shows it, and the log file goes now"
)]
fn report_log(name: &str, tail: &str) {
    eprintln!("the log of {name} ends:\n{tail}");
}
