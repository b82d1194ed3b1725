//! Somebody who plans and applies, and holders that go on meanwhile.

use crate::scan::scan;
use crate::scene::{AMPLE, LONG, Scene, granted};
use anyhow::ensure;
use holdfast_chaos::{Client, ClusterShape, Held, Operator};
use holdfast_rig::{Call, Rule, Trick, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tempfile::TempDir;

pub(super) const TTL: Duration = LONG;
pub(super) const ONE: ClusterShape = ClusterShape::ONE;
/// So many locks have some in every cluster.
pub(super) const HOLDERS: usize = 24;
/// What a lock's record contains, and no read of one.
pub(super) const RECORD: &str = "ownerClientId";
/// All shards at one time: what is tested is not the queue.
pub(super) const AT_ONCE: &[&str] = &["--max-moving", "64"];

/// Somebody with a plan.
pub(super) struct Roller {
    pub(super) operator: Operator,
    pub(super) folder: TempDir,
}

impl Roller {
    pub(super) fn new(scene: &Scene) -> Self {
        Self {
            operator: scene.stack.operator("operator"),
            folder: TempDir::new().unwrap(),
        }
    }

    pub(super) fn file(&self) -> String {
        self.folder.path().join("plan.json").display().to_string()
    }

    /// Runs a command that must end with this code.
    pub(super) async fn run(&self, args: &[&str], code: i32) -> String {
        let ran = self.operator.run(args).await.unwrap();
        assert_eq!(ran.code, code, "{args:?}: {}", ran.text);
        ran.text
    }

    pub(super) async fn plan(&self, wish: &[&str]) {
        let file = self.file();
        self.run(&[&["plan", "--out", &file], wish].concat(), 0)
            .await;
    }

    pub(super) async fn apply(&self, more: &[&str], code: i32) -> String {
        let file = self.file();
        self.run(&[&["apply", &file], AT_ONCE, more].concat(), code)
            .await
    }

    pub(super) async fn state(&self) -> Value {
        let ran = self.operator.run(&["status", "-o", "json"]).await.unwrap();
        serde_json::from_str(&ran.text).unwrap_or_else(|_| panic!("{}", ran.text))
    }

    pub(super) async fn until_settled(&self) {
        wait_until("the rollout to end", AMPLE, || async {
            let status = self.state().await;
            ensure!(status["state"] == "settled", "{status:#}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Waits until some shard has begun to move and not all are done.
    pub(super) async fn until_half_way(&self) {
        wait_until("shards to be on their way", AMPLE, || async {
            let status = self.state().await;
            let moving = status["rollout"]["moving"].as_array().cloned();
            let phases: Vec<_> = moving
                .iter()
                .flatten()
                .map(|it| it["phase"].clone())
                .collect();
            ensure!(phases.iter().any(|it| it == "moving"), "{phases:?}");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// `verify` and a scan of our own find nothing. How many locks each cluster has.
    pub(super) async fn clean(&self, scene: &Scene) -> BTreeMap<String, usize> {
        self.run(&["verify"], 0).await;
        let (locks, problems) = scan(scene).await;
        assert_eq!(problems, Vec::<String>::new());
        locks
    }
}

/// From now on locks are so long on their way to this cluster that nobody is too slow to meet them there.
pub(super) fn copies_take_long(scene: &Scene, to: usize) {
    let late = Rule::new(Trick::ApplyLate(Duration::from_secs(3)), Call::Txn);
    scene.stack.clusters[to].doors()[0].play(late.containing(RECORD));
}

/// A second operator, who may run commands at the same time.
pub(super) fn colleague(scene: &Scene) -> Roller {
    Roller {
        operator: scene.stack.operator("colleague"),
        folder: TempDir::new().unwrap(),
    }
}

/// The cluster that has the name by the map.
pub(super) async fn cluster_of(roller: &Roller, client: &Client, name: usize) -> String {
    let text = roller
        .run(&["lookup", "-o", "json", &client.name(name)], 0)
        .await;
    let found: Value = serde_json::from_str(&text).unwrap();
    found[0]["cluster"].as_str().unwrap().to_owned()
}

pub(super) async fn holders(scene: &mut Scene, count: usize) -> Vec<(Client, Held)> {
    let gateways = scene.stack.gateways.len();
    let mut holders = Vec::new();
    for name in 0..count {
        let mut client = scene.client();
        let held = granted(&mut client, name % gateways, name, TTL).await;
        holders.push((client, held));
    }
    holders
}
