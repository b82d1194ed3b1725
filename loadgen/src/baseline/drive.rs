//! Drives a server, closed loop, and counts.

use super::dial::{self, Stream};
use super::process;
use super::wire::{Deck, Reply, Writer, read};
use crate::limits::TIMEOUT_MAX;
use anyhow::{Context as _, bail};
use holdfast_client::{BootClock, Clock as _, Instant, Target, Tls};
use rustix::process::Pid;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{JoinSet, LocalSet};

/// Who is driven, with what, for how long.
pub(super) struct Drive {
    pub(super) target: Target,
    pub(super) tls: Option<Tls>,
    pub(super) pid: Pid,
    pub(super) writer: Rc<Writer>,
    pub(super) deck: Rc<Deck>,
    pub(super) connections: usize,
    pub(super) warm_up: Duration,
    pub(super) duration: Duration,
}

/// What was counted meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) wall: Duration,
    pub(super) server_cpu: Duration,
    pub(super) client_cpu: Duration,
}

/// Shared by the connections of one drive.
#[derive(Default)]
struct Course {
    answered: Cell<u64>,
    over: Cell<bool>,
}

struct Snapshot {
    at: Instant,
    answered: u64,
    server_cpu: Duration,
    client_cpu: Duration,
}

impl Drive {
    /// Does it.
    ///
    /// # Errors
    /// When a connection breaks, an answer does not come, or one is anything but success.
    pub(super) async fn run(self) -> anyhow::Result<Counted> {
        let local = LocalSet::new();
        local.run_until(self.run_local()).await
    }

    async fn run_local(self) -> anyhow::Result<Counted> {
        let course = Rc::new(Course::default());
        let mut streams = Vec::with_capacity(self.connections);
        for _ in 0..self.connections {
            let opening = dial::open(&self.target, self.tls.as_ref());
            streams.push(tokio::time::timeout(TIMEOUT_MAX, opening).await??);
        }
        // All at once: those that run leave little time to those that connect.
        let mut loops = JoinSet::new();
        for stream in streams {
            let (writer, deck) = (Rc::clone(&self.writer), Rc::clone(&self.deck));
            loops.spawn_local(renew(stream, writer, deck, Rc::clone(&course)));
        }
        let measured = async {
            tokio::time::sleep(self.warm_up).await;
            let start = self.look(&course)?;
            tokio::time::sleep(self.duration).await;
            let end = self.look(&course)?;
            course.over.set(true);
            anyhow::Ok(Counted {
                requests: end.answered - start.answered,
                wall: end.at.since(start.at),
                server_cpu: end.server_cpu.saturating_sub(start.server_cpu),
                client_cpu: end.client_cpu.saturating_sub(start.client_cpu),
            })
        };
        // No loop ends by itself before it is told to.
        let counted = tokio::select! {
            counted = measured => counted?,
            Some(ended) = loops.join_next() => {
                ended??;
                bail!("a connection ended early");
            }
        };
        let rest = async {
            while let Some(ended) = loops.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        };
        let rest = tokio::time::timeout(TIMEOUT_MAX, rest).await;
        rest.context("some requests were never answered")??;
        Ok(counted)
    }

    fn look(&self, course: &Course) -> anyhow::Result<Snapshot> {
        Ok(Snapshot {
            at: BootClock.now(),
            answered: course.answered.get(),
            server_cpu: process::cpu_time(self.pid)?,
            client_cpu: process::cpu_time(rustix::process::getpid())?,
        })
    }
}

/// One connection: a request, its answer, the next request.
async fn renew(
    mut stream: Stream,
    writer: Rc<Writer>,
    deck: Rc<Deck>,
    course: Rc<Course>,
) -> anyhow::Result<()> {
    let (mut request, mut reply) = (Vec::new(), Vec::with_capacity(32 * 1024));
    while !course.over.get() {
        writer.write(&deck, &mut request);
        stream.write_all(&request).await?;
        reply.clear();
        loop {
            if stream.read_buf(&mut reply).await? == 0 {
                bail!("the server closed a connection");
            }
            match read(&reply, writer.count()) {
                Reply::Partial => {}
                Reply::Renewed => break,
                Reply::Other(status) => {
                    bail!("a request was answered with status {status}, or not with all renewals")
                }
            }
        }
        course.answered.set(course.answered.get() + 1);
    }
    Ok(())
}
