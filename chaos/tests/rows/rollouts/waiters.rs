//! Clients that wait in line while the shard of their name moves.

use super::roller::{ONE, Roller, cluster_of};
use crate::scene::{SLACK, Scene, granted, released, renewed};
use crate::waiting::{NAME, TTL, served, stand, until_standing};
use futures::future::join_all;
use holdfast_chaos::Answer;

#[tokio::test]
async fn those_who_wait_go_along_with_their_shard() {
    let mut scene = Scene::start(2, &[ONE, ONE]).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut holder = scene.client();
    let hold = granted(&mut holder, 0, NAME, TTL).await;
    let mut lines = [Vec::new(), Vec::new()];
    for length in 1..=4 {
        let gateway = length % 2;
        lines[gateway].push(stand(&mut scene, gateway, length).await);
    }
    let from = cluster_of(&roller, &holder, NAME).await;
    roller.plan(&["--remove", &from]).await;
    roller.apply(&["--wait"], 0).await;
    roller.clean(&scene).await;
    until_standing(&scene, 4).await;
    renewed(&mut holder, 1, &hold).await;
    // Places are taken anew there, in their order at each gateway.
    let mut newcomer = scene.client();
    let (answer, _) = newcomer.acquire(0, None, NAME, 4_000).await;
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    released(&mut holder, 0, &hold).await;
    let first = hold.token;
    let serving = lines.map(|line| async move {
        let mut tokens = vec![first];
        for waiting in line {
            let (mut client, held) = served(waiting, 4 * SLACK).await;
            released(&mut client, 0, &held).await;
            tokens.push(held.token);
        }
        tokens
    });
    let tokens = join_all(serving).await;
    for tokens in &tokens {
        let in_order = tokens.is_sorted_by(|one, next| one < next);
        assert!(in_order, "served out of their order: {tokens:?}");
    }
    let last = tokens.into_iter().flatten().max().unwrap();
    let (answer, held) = newcomer.acquire(1, None, NAME, 4_000).await;
    let held = held.unwrap_or_else(|| panic!("{answer:?}"));
    assert!(held.token > last);
    released(&mut newcomer, 0, &held).await;
    scene.until_all_is_free().await;
    scene.verdict();
}
