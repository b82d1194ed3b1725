//! What the engine costs without HTTP and without etcd: `make bench` prints it.
//!
//! Everything goes through the engine's public calls, so that what is measured is what runs.

#![allow(
    missing_docs,
    unreachable_pub,
    reason = "nothing here is for others, and criterion's macros make functions without documents"
)]

mod world;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use holdfast_gateway::engine::Input;
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::service::Renew;
use holdfast_gateway::time::Millis;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use shard_map::ShardCount;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// As in the gateway: it asks for huge pages, without which every renewal of a million locks pays
/// for a walk through the page table.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use world::{Hold, World, name, parse, renewal};

const LOCKS: [usize; 3] = [10_000, 100_000, 1_000_000];
/// Long enough that nothing expires while it is measured.
const TTL: Millis = Millis::from_secs(600);
/// etcd's limit on operations leaves room for so many writes in one transaction.
const BATCH: usize = 120;
/// Requests that are prepared before the clock runs: so few that they are still in the cache when
/// their turn comes, as a request is that was just read from a socket.
const PREPARED: u64 = 64;

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock; nothing is decided by it"
)]
fn clock() -> Instant {
    Instant::now()
}

fn placement(c: &mut Criterion) {
    let shards = ShardCount::try_from(256).expect("a valid count");
    let name = name(4711);
    c.bench_function("placement of a name of 24 bytes", |b| {
        b.iter(|| shard_map::shard_of(black_box(&name), shards));
    });
}

fn lock_id(c: &mut Criterion) {
    let mut world = World::ready();
    let hold = world.hold(1, TTL).swap_remove(0);
    let id = parse(&hold.id);
    c.bench_function("lock id, parsed", |b| {
        b.iter(|| LockId::parse(black_box(&hold.id)));
    });
    c.bench_function("lock id, written", |b| b.iter(|| black_box(&id).to_text()));
}

/// Renewals of holds that are drawn evenly: the tables are in no cache.
fn renew(c: &mut Criterion) {
    let mut group = c.benchmark_group("renew from memory, uniform over locks");
    group.throughput(Throughput::Elements(1));
    for locks in LOCKS {
        let mut world = World::ready();
        let holds = world.hold(locks, TTL);
        group.bench_function(BenchmarkId::from_parameter(locks), |b| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
            b.iter_custom(|count| renew_evenly(&mut world, &holds, &mut random, count));
        });
    }
    group.finish();
}

fn renew_evenly(
    world: &mut World,
    holds: &[Hold],
    random: &mut Xoshiro256PlusPlus,
    count: u64,
) -> Duration {
    let mut took = Duration::ZERO;
    let mut done = 0;
    while done < count {
        let now_many = (count - done).min(PREPARED);
        let renewals: Vec<Renew> = (0..now_many)
            .map(|_| renewal(&holds[random.random_range(0..holds.len())]))
            .collect();
        let began = clock();
        for renew in &renewals {
            black_box(world.table.renew(world.now, black_box(renew)));
        }
        took += began.elapsed();
        done += now_many;
        // Deadlines move, as they do when a fleet renews.
        if done.is_multiple_of(PREPARED * 16) {
            world.pass(Millis::from_ms(1));
        }
    }
    let last = world.table.renew(world.now, &renewal(&holds[0]));
    assert!(matches!(last, Some(Ok(_))));
    took
}

/// A million holds, and the tick in which `due` of them come to their entries in the wheel.
fn wheel(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel");
    group.sample_size(10);
    let due = 100_000;
    group.throughput(Throughput::Elements(due as u64));
    group.bench_function("entries that are armed again, 100,000", |b| {
        b.iter_custom(|count| (0..count).map(|_| wheel_turn(due, true)).sum());
    });
    group.bench_function("holds that expire, 100,000", |b| {
        b.iter_custom(|count| (0..count).map(|_| wheel_turn(due, false)).sum());
    });
    group.finish();
}

fn wheel_turn(due: usize, renewed: bool) -> Duration {
    let ttl = Millis::from_secs(30);
    let mut world = World::ready();
    let holds = world.hold(due, ttl);
    world.pass(Millis::from_secs(20));
    if renewed {
        for hold in &holds {
            let answer = world.table.renew(world.now, &renewal(hold));
            assert!(matches!(answer, Some(Ok(_))));
        }
    }
    world.now = world.now + Millis::from_secs(11);
    let began = clock();
    let effects = world.hand_over([Input::Tick]);
    let took = began.elapsed();
    world.carry_out(effects);
    took
}

/// The engine's part of a batch: from the requests to the transaction that is to be sent, and from
/// etcd's reply to the answers.
fn batch(c: &mut Criterion) {
    let mut group = c.benchmark_group("batch of 120 acquires");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut world = World::ready();
    // Every shard has a group.
    let first = world.hold(10_000, TTL);
    world.release(&first);
    group.bench_function("requests to transaction", |b| {
        b.iter_custom(|count| (0..count).map(|_| batch_turn(&mut world).0).sum());
    });
    group.bench_function("reply to answers", |b| {
        b.iter_custom(|count| (0..count).map(|_| batch_turn(&mut world).1).sum());
    });
    group.finish();
}

fn batch_turn(world: &mut World) -> (Duration, Duration) {
    let wanted: Vec<_> = (0..BATCH).map(|n| world.wish(n, TTL)).collect();
    let began = clock();
    let effects = world.hand_over(wanted);
    let sent = began.elapsed();
    let (replies, _) = world.reply_to(effects);
    assert_eq!(replies.len(), 1);
    let began = clock();
    let effects = world.hand_over(replies);
    let answered = began.elapsed();
    let held: Vec<_> = world.carry_out(effects).into_iter().map(Hold::of).collect();
    assert_eq!(held.len(), BATCH);
    world.release(&held);
    (sent, answered)
}

criterion_group!(benches, placement, lock_id, renew, wheel, batch);
criterion_main!(benches);
