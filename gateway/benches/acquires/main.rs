//! Acquires in batches against one transaction per lock, on one real etcd.
//!
//! Both sides run in this process, over the same etcd client, with the same names over all shards,
//! the same number of callers that each wait for their answer, and the same compares: fence, lock,
//! waiters, guard, group. They take turns, so that a slow moment of the machine meets both.

mod alone;
mod batched;

use alone::OneByOne;
use anyhow::Context as _;
use batched::Batched;
use clap::Parser;
use holdfast_rig::{EtcdCluster, EtcdVersion};
use holdfast_store::Store;
use shard_map::init::initialise;
use shard_map::{Cluster, DeploymentId, ShardCount, ShardId};
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SHARDS: u32 = 256;

#[derive(Debug, Parser)]
struct Args {
    /// Locks that each side takes in each round.
    #[arg(long, default_value_t = 30_000)]
    locks: usize,
    /// Callers that wait for an answer at one time.
    #[arg(long, default_value_t = 1_000)]
    callers: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only the batches, for a profile.
    #[arg(long)]
    batches_only: bool,
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// How a lock is taken.
trait Side: Send + Sync + 'static {
    fn acquire(
        &self,
        shard: ShardId,
        name: &str,
    ) -> impl Future<Output = anyhow::Result<()>> + Send;
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let shards = ShardCount::try_from(SHARDS)?;
    let etcd = EtcdCluster::start(EtcdVersion::V3_5, 1).await?;
    let cluster = Cluster::new(
        "a".parse()?,
        vec![etcd.endpoints().first().context("one member")?.parse()?],
    );
    let store = holdfast_gateway::service::etcd_store(&cluster)?;
    let clusters = [(cluster, &*store)];
    let deployment = DeploymentId::from_random_bits(7);
    let map = initialise(&*store, &clusters, shards, deployment)
        .await?
        .map;
    let alone = Arc::new(OneByOne::new(Arc::clone(&store), shards).await?);
    let batched = Arc::new(Batched::new(Arc::clone(&store), &map).await?);

    let mut figures = (Vec::new(), Vec::new());
    for round in 0..=args.rounds {
        let one = match args.batches_only {
            true => f64::NAN,
            false => rate(&args, shards, &alone).await?,
        };
        clear(&*store).await?;
        let many = rate(&args, shards, &batched).await?;
        batched.release_all(args.callers).await?;
        let _ = writeln!(
            std::io::stderr(),
            "round {round}: {one:.0}/s one by one, {many:.0}/s in batches"
        );
        // The first makes the groups and the connections.
        if round > 0 {
            figures.0.push(one);
            figures.1.push(many);
        }
    }
    report(&args, figures);
    Ok(())
}

/// Locks per second.
async fn rate<S: Side>(args: &Args, shards: ShardCount, side: &Arc<S>) -> anyhow::Result<f64> {
    let began = clock();
    let callers: Vec<_> = (0..args.callers)
        .map(|caller| {
            let (side, locks, callers) = (Arc::clone(side), args.locks, args.callers);
            tokio::spawn(async move {
                for n in (caller..locks).step_by(callers) {
                    let name = format!("process_order:{n:010}");
                    side.acquire(shard_map::shard_of(&name, shards), &name)
                        .await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    // A count of locks: exact below 2^53.
    Ok(args.locks as f64 / began.elapsed().as_secs_f64())
}

async fn clear(store: &dyn Store) -> anyhow::Result<()> {
    use holdfast_store::{KeyRange, Op, Txn, TxnOp};
    let all = Txn {
        then: vec![TxnOp::Delete(KeyRange::prefix("/locks/"))],
        ..Txn::default()
    };
    store
        .call(Op::Txn(all), Duration::from_secs(30))
        .await
        .context("the locks are not deleted")?;
    Ok(())
}

fn report(args: &Args, (mut one, mut many): (Vec<f64>, Vec<f64>)) {
    let mut ratios: Vec<f64> = many
        .iter()
        .zip(&one)
        .map(|(many, one)| many / one)
        .collect();
    let line = |what: &str, figures: &mut Vec<f64>, digits: usize| {
        figures.sort_by(f64::total_cmp);
        let _ = writeln!(
            std::io::stdout(),
            "{what}: median {:.digits$} (from {:.digits$} to {:.digits$})",
            figures[figures.len() / 2],
            figures[0],
            figures[figures.len() - 1],
        );
    };
    let callers = args.callers;
    line(
        &format!("one transaction per lock, {callers} callers, locks per second"),
        &mut one,
        0,
    );
    line(
        &format!("batches, {callers} callers, locks per second"),
        &mut many,
        0,
    );
    line("ratio", &mut ratios, 1);
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; nothing is decided by it"
)]
fn clock() -> Instant {
    Instant::now()
}
