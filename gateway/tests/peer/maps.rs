//! Maps that change while a gateway runs, and one that it starts with in the middle of a rollout.

use crate::fixture::{Gateway, SECRET, World, until, wish};
use holdfast_gateway::engine::EngineStats;
use holdfast_gateway::service::{Acquire, AcquireOutcome, Locks as _, Release};
use holdfast_gateway::time::Millis;
use shard_map::plan::{Plan, Wish};
use shard_map::{ShardId, ShardMap, shard_of};

/// The plan that moves all of the second cluster's shards to the first and removes the second.
fn drain(map: &ShardMap) -> Plan {
    let wish = Wish {
        remove: vec![map.clusters()[1].name.clone()],
        ..Wish::default()
    };
    Plan::new(map, &wish).unwrap()
}

fn name_of(map: &ShardMap, shard: ShardId) -> String {
    let names = (0..).map(|number| format!("name-{number}"));
    let mut of_shard = names.filter(|name| shard_of(name, map.shards()) == shard);
    of_shard.next().unwrap()
}

#[tokio::test]
async fn a_gateway_that_starts_in_the_middle_of_a_rollout_grants_where_shards_still_are() {
    let mut world = World::new().await;
    let during = drain(world.map()).during().unwrap();
    let gateway: Gateway = world.gateway_with(&during, SECRET).await;
    for shard in during.moving().collect::<Vec<_>>() {
        gateway.hold(&name_of(&during, shard)).await;
    }
    assert_eq!(during.moving().count(), 4);
}

#[tokio::test]
async fn a_cluster_that_the_map_has_no_more_is_left() {
    let mut world = World::new().await;
    let gateway = world.gateway(SECRET).await;
    let left = world.map().clusters()[1].name.clone();
    assert_eq!(world.sessions_in(&left).await, 1);
    let after = drain(world.map()).after().clone();
    gateway.service.apply_map(&after).unwrap();
    assert_eq!(gateway.service.clusters().len(), 2);
    gateway.service.leave_clusters(world.map());
    assert_eq!(gateway.service.clusters().len(), 2);
    gateway.service.leave_clusters(&after);
    assert_eq!(gateway.service.clusters().len(), 1);
    until_async(async || world.sessions_in(&left).await == 0).await;
    // It may come back later.
    gateway.service.apply_map(world.map()).unwrap();
    gateway.service.home_seen().await;
    until(|| {
        gateway
            .service
            .clusters()
            .iter()
            .all(|cluster| cluster.proven)
    })
    .await;
    assert_eq!(world.sessions_in(&left).await, 1);
}

#[tokio::test]
async fn a_grant_that_is_too_late_for_its_client_is_undone_in_whichever_cluster_it_was_made() {
    let mut world = World::new().await;
    let during = drain(world.map()).during().unwrap();
    let gateway: Gateway = world.gateway_with(&during, SECRET).await;
    // The map says where it goes, and it is still where it comes from.
    let name = name_of(&during, during.moving().next().unwrap());
    let grant = gateway.hold(&name).await;
    let counted = |of: fn(&EngineStats) -> u64| {
        let engines = gateway.service.engines();
        engines.iter().map(|engine| of(&engine.stats)).sum::<u64>()
    };
    let in_line = |client| Acquire {
        wait: Millis::from_secs(5),
        ..wish(client, &name)
    };
    let mut waiting = Box::pin(gateway.service.acquire(in_line("gone")));
    assert!(futures::poll!(&mut waiting).is_pending());
    until(|| counted(|stats| stats.waiting.get()) == 1).await;
    let release = Release {
        lock_id: grant.lock_id,
        token: grant.token,
        principal: None,
    };
    gateway.service.release(release).await.unwrap();
    until(|| counted(|stats| stats.waits_granted.get()) == 1).await;
    // The answer is there, and its client has gone before it was taken.
    drop(waiting);
    let next = gateway.service.acquire(in_line("next")).await;
    assert!(matches!(next, Ok(AcquireOutcome::Granted(_))), "{next:?}");
}

async fn until_async(is_so: impl AsyncFn() -> bool) {
    while !is_so().await {
        tokio::task::yield_now().await;
    }
}
