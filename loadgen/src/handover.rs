//! How long it takes from a release until the next in line has the lock, beside a plain acquire on the same
//! gateways and the same etcd. Closed loop, a lock at a time, so that nothing else waits.
//!
//! Both are measured twice, because a machine that had nothing to do answers later: its disk and its
//! processors have gone to rest. **Busy**: one write after the other, of a lock whose line is long enough.
//! **Rested**: each after a pause. Only two times of the same kind can be compared.

mod client;
mod report;

use anyhow::ensure;
use client::Client;
use hdrhistogram::Histogram;
use holdfast_client::{BootClock, Clock as _, Instant, Target};
use holdfast_console::Format;
use report::{Kind, Report};
use std::time::Duration;

/// What `loadgen hand-over` is told.
#[derive(Debug, clap::Args)]
pub(crate) struct HandOverArgs {
    /// Gateways; whoever waits does so at the next one after the holder's.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    target: Vec<Target>,

    /// How often the lock changes hands, of each kind.
    #[arg(long, value_name = "N", default_value_t = 200)]
    rounds: usize,

    /// How the lock's name begins.
    #[arg(long, value_name = "P", default_value = "hand-over")]
    name_prefix: String,

    /// How the result is printed [default: a table on a terminal, JSON elsewhere].
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Format>,
}

/// So long after a waiter's request it stands in line.
const JOINS_WITHIN: Duration = Duration::from_millis(60);
/// So many clients there are, all but one of them in a line at once.
const CLIENTS: usize = 21;

/// The times of one kind, in microseconds.
struct Times {
    acquires: Histogram<u64>,
    hand_overs: Histogram<u64>,
}

/// Measures, and prints what was measured.
///
/// # Errors
/// When a gateway does not answer, or answers otherwise than it must.
pub(crate) fn run(args: &HandOverArgs, seed: u32) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let [busy, rested] = runtime.block_on(measure(args, seed))?;
    let report = Report {
        busy: Kind::of(&busy.acquires, &busy.hand_overs),
        rested: Kind::of(&rested.acquires, &rested.hand_overs),
    };
    let text = match Format::of(args.output, &std::io::stdout()) {
        Format::Table => report.table(),
        Format::Json => serde_json::to_string_pretty(&report)? + "\n",
    };
    holdfast_console::print(&text)?;
    Ok(())
}

async fn measure(args: &HandOverArgs, seed: u32) -> anyhow::Result<[Times; 2]> {
    let name = format!("{}-{seed:08x}", args.name_prefix);
    let mut clients = Vec::new();
    let count = CLIENTS.max(args.target.len());
    for (number, target) in args.target.iter().cycle().take(count).enumerate() {
        clients.push(Client::connect(target, &name, number).await?);
    }
    // The shard's group is there after the first acquire at each gateway.
    plain(&mut clients, args.target.len(), None).await?;
    let mut busy = Times {
        acquires: plain(&mut clients, args.rounds, None).await?,
        hand_overs: Histogram::new(3)?,
    };
    for _ in 0..args.rounds.div_ceil(clients.len() - 1) {
        clients = through_line(clients, &mut busy.hand_overs).await?;
    }
    let rested = Times {
        acquires: plain(&mut clients, args.rounds, Some(JOINS_WITHIN)).await?,
        hand_overs: one_by_one(&mut clients, args.rounds).await?,
    };
    Ok([busy, rested])
}

/// Acquires of a lock that nobody holds. Each is released before the next one, and before a pause.
async fn plain(
    clients: &mut [Client],
    rounds: usize,
    pause: Option<Duration>,
) -> anyhow::Result<Histogram<u64>> {
    let mut times = Histogram::new(3)?;
    for round in 0..rounds {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        let at = round % clients.len();
        let began = BootClock.now();
        let hold = clients[at].acquire().await?;
        record(&mut times, began, BootClock.now())?;
        clients[at].release(&hold).await?;
    }
    Ok(times)
}

/// All clients but the first, who holds the lock, stand in line for it; each gives it back as soon as it
/// has it.
async fn through_line(
    mut clients: Vec<Client>,
    times: &mut Histogram<u64>,
) -> anyhow::Result<Vec<Client>> {
    let mut first = clients.remove(0);
    let hold = first.acquire().await?;
    let mut line = Vec::new();
    for mut client in clients {
        line.push(tokio::spawn(async move {
            let hold = client.wait().await?;
            let granted = BootClock.now();
            client.release(&hold).await?;
            anyhow::Ok((client, granted))
        }));
        tokio::time::sleep(JOINS_WITHIN).await;
    }
    let mut released = BootClock.now();
    first.release(&hold).await?;
    let mut clients = vec![first];
    for turn in line {
        let (client, granted) = turn.await??;
        ensure!(granted > released, "the line was not served in its order");
        record(times, released, granted)?;
        released = granted;
        clients.push(client);
    }
    Ok(clients)
}

/// One holder, and one who waits; after each hand-over a pause.
async fn one_by_one(clients: &mut Vec<Client>, rounds: usize) -> anyhow::Result<Histogram<u64>> {
    let mut times = Histogram::new(3)?;
    let mut holder = clients.remove(0);
    let mut hold = holder.acquire().await?;
    for _ in 0..rounds {
        let mut next = clients.remove(0);
        let waiting = tokio::spawn(async move {
            let hold = next.wait().await;
            (next, hold, BootClock.now())
        });
        tokio::time::sleep(JOINS_WITHIN).await;
        let began = BootClock.now();
        holder.release(&hold).await?;
        let (next, granted, ended) = waiting.await?;
        hold = granted?;
        record(&mut times, began, ended)?;
        clients.push(std::mem::replace(&mut holder, next));
    }
    holder.release(&hold).await?;
    Ok(times)
}

fn record(times: &mut Histogram<u64>, began: Instant, ended: Instant) -> anyhow::Result<()> {
    times.record(u64::try_from(ended.since(began).as_micros())?)?;
    Ok(())
}
