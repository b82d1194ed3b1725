//! The command as a process.

use super::signals::Caught;
use super::terminal::Terminal;
use crate::failure::Failure;
use crate::limits::LINGER_LOOK;
use holdfast_client::{BootClock, Clock as _, Hold, Instant};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use tokio::process::{Child, Command};

/// Runs on if this is dropped.
pub(super) struct Process {
    child: Child,
    pid: Pid,
    /// With a process group of its own, what the command has started is signalled too.
    is_group: bool,
}

impl Process {
    /// Starts the command with the lock's name and token in its environment. At a terminal it stays
    /// in the foreground with this process, so that it can use it; else it gets a group of its own.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(
        command: &[OsString],
        hold: &Hold,
        terminal: Terminal,
    ) -> Result<Self, Failure> {
        let Some((program, args)) = command.split_first() else {
            return Err(Failure::Usage("there is no command".to_owned()));
        };
        let is_group = terminal == Terminal::None;
        let mut starting = Command::new(program);
        starting
            .args(args)
            .env("HOLDFAST_LOCK", hold.name())
            .env("HOLDFAST_TOKEN", hold.token().0.to_string());
        if is_group {
            starting.process_group(0);
        }
        let not_started = |error: io::Error| not_started(program, &error);
        let child = starting.spawn().map_err(not_started)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| not_started(io::ErrorKind::NotFound.into()))?;
        Ok(Self {
            child,
            pid,
            is_group,
        })
    }

    /// Waits for its end; its exit code, or 128 + the number of the signal that ended it.
    pub(super) async fn ended(&mut self) -> Result<u8, Failure> {
        let waited = self.child.wait().await;
        waited
            .map(exit_code)
            .map_err(|error| Failure::Failed(format!("the command's end: {error}")))
    }

    /// SIGTERM, and SIGCONT in case it stands still.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(super) fn pass_on(&self, caught: Caught) {
        self.signal(caught.signal());
    }

    /// After the command itself has ended: gives what it has started until `kill_at`, then kills it.
    pub(super) async fn end_rest(&self, kill_at: Instant) {
        // A group keeps its number from being given to others for as long as somebody is in it.
        while self.is_group && test_kill_process_group(self.pid).is_ok() {
            if BootClock.now() >= kill_at {
                return self.kill();
            }
            tokio::time::sleep(LINGER_LOOK).await;
        }
    }

    fn signal(&self, signal: Signal) {
        // What has ended needs no signal.
        let _gone = match self.is_group {
            true => kill_process_group(self.pid, signal),
            false => kill_process(self.pid, signal),
        };
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// 126 and 127 as shells have them.
fn not_started(program: &OsString, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let text = format!("{}: {error}", program.display());
    Failure::NotStarted { code, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        let program = OsString::from("p");
        for (kind, expected) in [
            (io::ErrorKind::NotFound, 127),
            (io::ErrorKind::PermissionDenied, 126),
        ] {
            assert_eq!(not_started(&program, &kind.into()).code_of_run(), expected);
        }
    }
}
