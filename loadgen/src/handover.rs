//! How long it takes from a release until the next in line has the lock, beside a plain acquire on the same
//! gateways and the same etcd. Closed loop, a lock at a time, so that nothing else waits.

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use hdrhistogram::Histogram;
use holdfast_api::{AcquireReply, AcquireRequest, ReleaseRequest, paths};
use holdfast_client::{BootClock, Clock, Connection, Target};
use std::io::Write as _;
use std::time::Duration;

/// What `loadgen hand-over` is told.
#[derive(Debug, Args)]
pub(crate) struct HandOverArgs {
    /// Gateways; whoever waits does so at the next one after the holder's.
    #[arg(long, value_name = "URL", value_delimiter = ',', required = true)]
    target: Vec<Target>,

    /// How often the lock changes hands.
    #[arg(long, value_name = "N", default_value_t = 200)]
    rounds: usize,

    /// How the lock's name begins.
    #[arg(long, value_name = "P", default_value = "hand-over")]
    name_prefix: String,
}

/// So long after a waiter's request it stands in line.
const JOINS_WITHIN: Duration = Duration::from_millis(60);
const TTL_MS: u64 = 30_000;
const WAIT_MS: u64 = 20_000;

/// Both times, in microseconds.
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
    let times = runtime.block_on(measure(args, seed))?;
    print(&times)
}

async fn measure(args: &HandOverArgs, seed: u32) -> anyhow::Result<Times> {
    let clock = BootClock;
    let mut connections = Vec::new();
    for target in args.target.iter().chain(&args.target) {
        connections.push(Connection::open(target, None).await?);
    }
    let gateways = args.target.len();
    let name = format!("{}-{seed:08x}", args.name_prefix);
    let mut times = Times {
        acquires: Histogram::new(3)?,
        hand_overs: Histogram::new(3)?,
    };
    // The same name each time, as for hand-overs: its shard's group is there after the first round of
    // each gateway.
    for round in 0..gateways + args.rounds {
        let at = round % gateways;
        let began = clock.now();
        let hold = acquired(&mut connections[at], &name, "plain", 0).await?;
        let took = clock.now().since(began);
        if round >= gateways {
            record(&mut times.acquires, took)?;
        }
        release(&mut connections[at], &hold).await?;
    }
    let mut hold = acquired(&mut connections[0], &name, "w0", 0).await?;
    for round in 0..args.rounds {
        // The holder's connection, and another for whoever waits.
        let holder = round % gateways;
        let waiter = gateways + (round + 1) % gateways;
        let mut waiting = connections.swap_remove(waiter);
        let (of, client) = (name.clone(), format!("w{}", round + 1));
        let next = tokio::spawn(async move {
            let hold = acquired(&mut waiting, &of, &client, WAIT_MS).await;
            (waiting, hold, BootClock.now())
        });
        tokio::time::sleep(JOINS_WITHIN).await;
        let began = clock.now();
        release(&mut connections[holder], &hold).await?;
        let (waiting, next, ended) = next.await?;
        hold = next?;
        ensure!(
            hold.waited_ms.is_some(),
            "the lock was granted before it was released"
        );
        record(&mut times.hand_overs, ended.since(began))?;
        connections.push(waiting);
        let last = connections.len() - 1;
        connections.swap(waiter, last);
    }
    release(&mut connections[0], &hold).await?;
    Ok(times)
}

fn record(times: &mut Histogram<u64>, took: Duration) -> anyhow::Result<()> {
    times.record(u64::try_from(took.as_micros())?)?;
    Ok(())
}

async fn acquired(
    connection: &mut Connection,
    name: &str,
    client: &str,
    wait_ms: u64,
) -> anyhow::Result<AcquireReply> {
    let body = serde_json::to_vec(&AcquireRequest {
        name: name.into(),
        ttl_ms: TTL_MS,
        client_id: client.into(),
        wait_ms: Some(wait_ms),
        metadata: None,
        request_id: None,
    })?;
    let reply = connection.post(paths::ACQUIRE, Bytes::from(body)).await?;
    ensure!(
        reply.status == 200,
        "an acquire is answered {}",
        reply.status
    );
    let reply: AcquireReply = serde_json::from_slice(&reply.body)?;
    ensure!(reply.acquired, "an acquire is refused");
    Ok(reply)
}

async fn release(connection: &mut Connection, hold: &AcquireReply) -> anyhow::Result<()> {
    let body = serde_json::to_vec(&ReleaseRequest {
        lock_id: hold
            .lock_id
            .as_deref()
            .context("a grant without a handle")?
            .into(),
        fencing_token: hold.fencing_token.context("a grant without a token")?,
    })?;
    let reply = connection.post(paths::RELEASE, Bytes::from(body)).await?;
    ensure!(
        reply.status == 204,
        "a release is answered {}",
        reply.status
    );
    Ok(())
}

fn print(times: &Times) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let ms = |times: &Histogram<u64>, quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
    for (what, of) in [
        ("plain acquire", &times.acquires),
        ("release to next holder", &times.hand_overs),
    ] {
        let (count, p50, p99) = (of.len(), ms(of, 0.5), ms(of, 0.99));
        writeln!(
            out,
            "{what:>24}: {count} times, p50 {p50:.2} ms, p99 {p99:.2} ms"
        )?;
    }
    let ratio = ms(&times.hand_overs, 0.5) / ms(&times.acquires, 0.5);
    writeln!(out, "{:>24}: {ratio:.2}", "ratio of the p50")?;
    Ok(())
}
