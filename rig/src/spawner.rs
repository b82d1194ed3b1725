//! Starting processes that do not outlive the test.

use anyhow::{Context, Result};
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

/// The thread that starts all processes.
///
/// The kernel's parent-death signal is sent when the *thread* that started the process ends. A
/// test's own thread, or a worker of its runtime, may end long before the process is done with.
static SPAWNER: LazyLock<Sender<Request>> = LazyLock::new(|| {
    let (requests, inbox) = channel::<Request>();
    std::thread::spawn(move || {
        for mut request in inbox {
            // Nobody waits for the answer only if the whole program is ending.
            let _ = request.answer.send(request.command.spawn());
        }
    });
    requests
});

struct Request {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// A command for `program` that [`spawn`] starts so that it is killed with this process, even if
/// no destructor runs.
///
/// It goes through `setpriv` because setting the signal from here would need `unsafe`; `setpriv`
/// replaces itself by the program, so the process id is the program's.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Starts a [`command`].
pub(crate) fn spawn(command: Command) -> Result<Child> {
    let (answer, reply) = channel();
    SPAWNER
        .send(Request { command, answer })
        .context("the spawner thread is gone")?;
    reply
        .recv()
        .context("the spawner thread is gone")?
        .context("setpriv (of Debian's util-linux) does not start")
}
