//! The course of the measurement.

use super::drive::Drive;
use super::figures::{Figures, Ratios, Row};
use super::holds::Holds;
use super::process::{self, Pinned};
use super::table::table;
use super::wire::{Deck, Writer};
use super::{BaselineArgs, Server, Work};
use anyhow::{Context as _, bail};
use holdfast_client::{Access, Target, Tls};
use holdfast_console::Format;
use http::HeaderValue;
use rustix::process::Pid;
use serde::Serialize;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// All that was measured.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) locks: u32,
    pub(super) batch: usize,
    pub(super) connections: usize,
    pub(super) runs: usize,
    pub(super) duration_secs: f64,
    /// Every server was busy enough for its figures to be its own.
    pub(super) sound: bool,
    pub(super) rows: Vec<Row>,
    pub(super) ratios: Ratios,
}

/// Measures, and prints the result. `seed` is taken where none is given.
///
/// # Errors
/// When the locks cannot be had, anything but success is answered, or a process cannot be pinned.
pub(crate) fn run(args: &BaselineArgs, seed: u32) -> anyhow::Result<()> {
    let gateway = Pid::from_raw(args.server_pid).context("--server-pid: no such process")?;
    process::pin_this_thread(args.client_core)?;
    let bare = Bare::start(args)?;
    let target = args.target.clone();
    let access = args.access.files().load(std::slice::from_ref(&target))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(async {
        let seed = args.seed.unwrap_or(seed);
        let holds = Holds::acquire(args, &access, seed).await?;
        let pinned = [
            Pinned::new(gateway, args.server_core)?,
            Pinned::new(bare.pid()?, args.server_core)?,
        ];
        let servers = [
            (Server::Bare, bare.pid()?, bare.target.clone(), None),
            (Server::Gateway, gateway, target, access.tls.clone()),
        ];
        let rows = measure(args, &servers, &access, holds.deck()).await?;
        drop(pinned);
        if !args.keep {
            holds.release().await?;
        }
        anyhow::Ok(Report {
            locks: args.locks,
            batch: args.batch,
            connections: args.connections,
            runs: args.runs,
            duration_secs: args.duration.as_secs_f64(),
            sound: rows.iter().all(Row::is_sound),
            ratios: Ratios::new(&rows),
            rows,
        })
    })?;
    print(args, &report)
}

/// Both works on both servers, one after the other, again and again: what changes in the machine
/// meanwhile changes all of them.
async fn measure(
    args: &BaselineArgs,
    servers: &[(Server, Pid, Target, Option<Tls>)],
    access: &Access,
    deck: Deck,
) -> anyhow::Result<Vec<Row>> {
    // The token of both, so that both read as many bytes.
    let authorization = access.authorization.as_ref();
    let authorization = authorization.map(HeaderValue::to_str).transpose()?;
    let deck = Rc::new(deck);
    let mut cases = Vec::new();
    for work in [Work::Single, Work::Batch] {
        for (server, pid, target, tls) in servers {
            let host = target.authority();
            let host = host.to_str()?;
            let writer = Rc::new(match work {
                Work::Single => Writer::single(host, authorization),
                Work::Batch => Writer::batch(host, authorization, args.batch),
            });
            let row = Row {
                work,
                server: *server,
                runs: Vec::new(),
            };
            cases.push((row, *pid, target, tls, writer));
        }
    }
    for run in 1..=args.runs {
        for (row, pid, target, tls, writer) in &mut cases {
            let (work, server) = (row.work, row.server);
            let drive = Drive {
                target: target.clone(),
                tls: tls.clone(),
                pid: *pid,
                writer: Rc::clone(writer),
                deck: Rc::clone(&deck),
                connections: args.connections,
                warm_up: args.warm_up.into(),
                duration: args.duration.into(),
            };
            let counted = drive.run().await;
            let counted =
                counted.with_context(|| format!("run {run}, {work:?} on the {server:?} server"))?;
            row.runs.push(Figures::new(&counted, writer.count()));
        }
    }
    Ok(cases.into_iter().map(|(row, ..)| row).collect())
}

fn print(args: &BaselineArgs, report: &Report) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(report)?;
    if let Some(path) = &args.out {
        std::fs::write(path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    match Format::of(args.output, &out) {
        Format::Table => write!(out, "{}", table(report))?,
        Format::Json => writeln!(out, "{json}")?,
    }
    Ok(())
}

/// The bare server's process. It ends when this is dropped, however this process ends.
struct Bare {
    child: Child,
    target: Target,
}

impl Bare {
    fn start(args: &BaselineArgs) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bare", "--batch", &args.batch.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the bare server cannot be started")?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let Ok(target) = line.trim().parse() else {
            // It has said why on standard error, and ends.
            let _ = child.wait();
            bail!("the bare server did not say where it listens");
        };
        Ok(Self { child, target })
    }

    fn pid(&self) -> anyhow::Result<Pid> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        pid.context("the bare server has no process id")
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
