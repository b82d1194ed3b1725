//! Gateways that miss a move, or cannot come along.

use super::roller::{AT_ONCE, HOLDERS, ONE, Roller, TTL, cluster_of, copies_take_long, holders};
use crate::scene::{AMPLE, SESSION, Scene, all_kept, granted, kept, lasting, released, renewed};
use anyhow::ensure;
use holdfast_chaos::Answer;
use holdfast_rig::wait_until;

#[tokio::test]
async fn a_gateway_with_the_old_map_that_cannot_come_along_loses_its_groups_and_grants_nothing() {
    let mut scene = Scene::start_with_spares(2, &[ONE, ONE, ONE], 1).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let (mut client, mut other) = (scene.client(), scene.client());
    let add = scene.stack.clusters[2].as_argument();
    roller.plan(&["--add", &add, "--remove", "c1"]).await;
    let mut names = Vec::new();
    for name in 0.. {
        match cluster_of(&roller, &client, name).await.as_str() {
            "c1" => names.push(name),
            _ => continue,
        }
        if names.len() == 2 {
            break;
        }
    }
    // Its own, through which it has a group that must go.
    let kept_on = granted(&mut other, 0, names[1], TTL).await;
    // It gets no further map, and does not reach the cluster that is added. Home is cut off from here
    // on, and with it its own locks; those of the second cluster it goes on serving.
    let ways = [&scene.stack.clusters[0], &scene.stack.clusters[2]].map(|it| it.ways_of(0));
    ways.iter().flatten().for_each(|way| way.close());
    roller.apply(&[], 0).await;
    let end = wait_until("the rollout to end", 2 * AMPLE, || async {
        let state = roller.state().await["state"].clone();
        ensure!(state == "settled", "it is {state}");
        Ok(())
    });
    let mut keeper = scene.client();
    std::mem::swap(&mut keeper, &mut other);
    let mut holders = [(keeper, kept_on)];
    all_kept(&mut holders, None, async { end.await.unwrap() }).await;
    let [(mut keeper, kept_on)] = holders;
    renewed(&mut keeper, 1, &kept_on).await;
    let mut held = granted(&mut other, 1, names[0], TTL).await;
    for _ in 0..20 {
        let (answer, _) = client.acquire(0, None, names[0], 8_000).await;
        let none = matches!(answer, Answer::Unknown(_) | Answer::Refused { .. });
        assert!(none, "{answer:?}");
    }
    ways.iter().flatten().for_each(|way| way.open());
    kept(&mut other, &mut held, SESSION).await;
    released(&mut other, 0, &held).await;
    let held = granted(&mut client, 0, names[0], TTL).await;
    released(&mut client, 1, &held).await;
    roller.clean(&scene).await;
    scene.verdict();
}

#[tokio::test]
async fn a_gateway_that_was_stopped_during_the_move_and_continues_finds_its_locks_where_they_are() {
    let mut scene = Scene::start_with_spares(2, &[ONE, ONE, ONE], 1).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut holders = holders(&mut scene, HOLDERS).await;
    roller
        .plan(&["--add", &scene.stack.clusters[2].as_argument()])
        .await;
    copies_take_long(&scene, 2);
    roller.apply(&[], 0).await;
    let mut stopped = scene.stack.gateways[0].process().await;
    let rolling = async {
        roller.until_half_way().await;
        stopped.stop().await.unwrap();
        scene.stack.clusters[2].doors()[0].play_nothing();
        roller.until_settled().await;
        lasting(SESSION).await;
    };
    all_kept(&mut holders, Some(1), rolling).await;
    stopped.cont().unwrap();
    for (client, held) in &mut holders {
        renewed(client, 0, held).await;
    }
    roller.clean(&scene).await;
    for (client, held) in &mut holders {
        released(client, 0, held).await;
        let again = granted(client, 0, held.name, TTL).await;
        assert!(again.token > held.token);
        released(client, 1, &again).await;
    }
    scene.verdict();
}

#[tokio::test]
async fn a_gateway_that_slept_through_there_and_back_grants_nothing_from_memory() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut holders = holders(&mut scene, HOLDERS / 2).await;
    let mut stopped = scene.stack.gateways[0].process().await;
    roller.plan(&["--remove", "c1"]).await;
    roller.apply(&[], 0).await;
    stopped.stop().await.unwrap();
    let there_and_back = async {
        roller.until_settled().await;
        let (file, back) = (roller.file(), roller.folder.path().join("back.json"));
        let back = back.display().to_string();
        roller
            .run(&["plan", "--undo", &file, "--out", &back], 0)
            .await;
        roller
            .run(&[&["apply", "--wait", &back], AT_ONCE].concat(), 0)
            .await;
    };
    all_kept(&mut holders, Some(1), there_and_back).await;
    stopped.cont().unwrap();
    for (client, held) in &mut holders {
        released(client, 1, held).await;
        let again = granted(client, 0, held.name, TTL).await;
        assert!(again.token > held.token);
    }
    roller.clean(&scene).await;
    scene.verdict();
}
