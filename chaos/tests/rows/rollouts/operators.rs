//! Operators' commands are killed, and meet.

use super::roller::{AT_ONCE, HOLDERS, ONE, Roller, colleague, copies_take_long, holders};
use crate::scene::{AMPLE, Scene, all_kept};
use anyhow::ensure;
use holdfast_rig::{Call, Rule, Trick, wait_until};

/// The operator is killed as soon as `reached`, and begins again with the same command.
async fn killed_when(roller: &Roller, reached: impl Future<Output = ()>, more: &[&str]) {
    let file = roller.file();
    let args = [&["apply", &file], AT_ONCE, more].concat();
    let mut command = roller.operator.start(&args).await.unwrap();
    reached.await;
    command.kill().unwrap();
}

#[tokio::test]
async fn an_operators_command_may_be_killed_at_any_step() {
    let mut scene = Scene::start_with_spares(2, &[ONE, ONE, ONE], 1).await;
    scene.nothing_may_be_lost();
    let roller = Roller::new(&scene);
    let mut holders = holders(&mut scene, HOLDERS / 2).await;
    roller
        .plan(&["--add", &scene.stack.clusters[2].as_argument()])
        .await;
    let rolling = async {
        let lost = |cluster: usize, key: &'static str| {
            let door = &scene.stack.clusters[cluster].doors()[0];
            door.play(
                Rule::new(Trick::LoseAnswer, Call::Txn)
                    .containing(key)
                    .times(1),
            );
            async move {
                wait_until("the answer to be lost", AMPLE, || async {
                    ensure!(door.played(Trick::LoseAnswer) > 0, "it is not");
                    Ok(())
                })
                .await
                .unwrap();
            }
        };
        // The new cluster has its name, and the map does not name it.
        killed_when(&roller, lost(2, "\"deployment\""), &[]).await;
        assert_eq!(roller.state().await["state"], "settled");
        copies_take_long(&scene, 2);
        // The rollout has begun, and nobody was told.
        killed_when(&roller, lost(0, "\"maxMoving\""), &[]).await;
        let again = roller.apply(&[], 3).await;
        assert!(again.contains("a rollout is"), "{again}");
        // Another one watches, is killed, and changes nothing.
        let mut watch = roller.operator.start(&["status", "--watch"]).await.unwrap();
        colleague(&scene).until_half_way().await;
        watch.kill().unwrap();
        scene.stack.clusters[2].doors()[0].play_nothing();
        roller.until_settled().await;
    };
    all_kept(&mut holders, None, rolling).await;
    let locks = roller.clean(&scene).await;
    assert!(locks["c2"] > 0, "{locks:?}");
    let history = roller.run(&["history"], 0).await;
    assert_eq!(history.matches("applied").count(), 1, "{history}");
    scene.verdict();
}

#[tokio::test]
async fn two_operators_who_finish_the_same_rollout_do_it_once() {
    let mut scene = Scene::start_calm(2, &[ONE, ONE, ONE], 1).await;
    scene.nothing_may_be_lost();
    let (one, two) = (Roller::new(&scene), colleague(&scene));
    let mut holders = holders(&mut scene, HOLDERS / 2).await;
    one.plan(&["--add", &scene.stack.clusters[2].as_argument()])
        .await;
    let rolling = async {
        copies_take_long(&scene, 2);
        one.apply(&[], 0).await;
        one.run(&["pause"], 0).await;
        scene.stack.clusters[2].doors()[0].play_nothing();
        let (a, b) = tokio::join!(one.operator.run(&["resume"]), two.operator.run(&["resume"]));
        let (a, b) = (a.unwrap(), b.unwrap());
        let mut codes = [a.code, b.code];
        codes.sort_unstable();
        assert_eq!(codes, [0, 3], "{a:?} {b:?}");
        let watching = ["status", "--watch"];
        let (a, b) = tokio::join!(one.operator.run(&watching), two.operator.run(&watching));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!((a.code, b.code), (0, 0), "{a:?} {b:?}");
    };
    let unknown = all_kept(&mut holders, None, rolling).await;
    assert_eq!(unknown, Vec::<String>::new());
    one.clean(&scene).await;
    scene.verdict();
}
