//! The `shard-map` command as operators run it: its exit codes, what it prints, what it leaves in
//! etcd 3.4 and 3.5.

mod command;
mod model;

use anyhow::Result;
use command::{Home, etcd, shard_map};
use holdfast_rig::{Etcd, EtcdVersion};
use serde_json::{Value, json};

/// Runs each of these against both versions.
macro_rules! on_each_etcd {
    ($($test:ident),* $(,)?) => {
        mod etcd_3_4 {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(holdfast_rig::EtcdVersion::V3_4).await
            })*
        }
        mod etcd_3_5 {
            $(#[tokio::test]
            async fn $test() -> anyhow::Result<()> {
                super::$test(holdfast_rig::EtcdVersion::V3_5).await
            })*
        }
    };
}

on_each_etcd!(
    init_prepares_the_clusters_and_again_changes_nothing,
    a_second_init_with_another_request_is_refused,
    two_names_for_one_etcd_cluster_are_refused_by_name,
    an_endpoint_that_belongs_to_another_cluster_is_refused,
    a_cluster_of_another_deployment_is_refused,
    show_and_lookup_tell_where_names_live,
    lookup_answers_though_a_cluster_is_down,
    a_user_is_needed_where_etcd_asks_for_one,
    a_plan_says_what_moves_and_asks_the_clusters_who_they_are,
    apply_is_refused_by_the_first_check_that_fails_and_says_what_to_do,
    without_a_rollout_there_is_nothing_to_pause_and_status_is_settled,
    verify_finds_what_lies_where_no_guard_admits_it,
);

async fn apply_is_refused_by_the_first_check_that_fails_and_says_what_to_do(
    version: EtcdVersion,
) -> Result<()> {
    let (a, b, c) = (
        etcd(version).await?,
        etcd(version).await?,
        etcd(version).await?,
    );
    let home = Home::of(&a);
    home.init(&[("a", &a), ("b", &b)], "8").await?.exits(0);
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("plan.json");
    let out = out.to_string_lossy();
    let add = format!("c={}", c.endpoint());
    home.run(&["plan", "--add", &add, "--out", &out])
        .await?
        .exits(0);
    let before = (dump(&a).await?, dump(&b).await?, dump(&c).await?);

    let apply = async |more: &[&str]| {
        home.run(&[&["apply", &out, "--dry-run"], more].concat())
            .await
    };
    apply(&["--canary", "0"])
        .await?
        .exits(2)
        .says("shard 0 does not move in this plan\nThese do: 3,7");
    let refused = apply(&[]).await?;
    match version {
        EtcdVersion::V3_4 => refused.exits(3).says("cluster c runs etcd 3.4"),
        EtcdVersion::V3_5 => refused.exits(3).says("no gateway is live"),
    };
    if version == EtcdVersion::V3_5 {
        let report = r#"{"instance":"g1","peerUrl":"http://g1","version":"1","map":1}"#;
        a.etcdctl(&["put", "/holdfast/map/gateways/g1", report])
            .await?;
        apply(&[])
            .await?
            .exits(0)
            .prints("1 live gateways run the present map");
        let session = r#"{"instance":"g2","peerUrl":"http://g2","version":"1"}"#;
        b.etcdctl(&["put", "/holdfast/sessions/1", session]).await?;
        apply(&[])
            .await?
            .exits(3)
            .says("gateway g2 (http://g2) does not say in home");
        a.etcdctl(&["del", "/holdfast/map/gateways/g1"]).await?;
        b.etcdctl(&["del", "/holdfast/sessions/1"]).await?;
    }
    assert_eq!((dump(&a).await?, dump(&b).await?, dump(&c).await?), before);
    Ok(())
}

async fn without_a_rollout_there_is_nothing_to_pause_and_status_is_settled(
    version: EtcdVersion,
) -> Result<()> {
    let a = etcd(version).await?;
    let home = Home::of(&a);
    home.init(&[("a", &a)], "8").await?.exits(0);
    home.run(&["status"])
        .await?
        .exits(0)
        .prints("settled: map version 1");
    home.run(&["status", "--watch"])
        .await?
        .exits(0)
        .prints("settled: map version 1");
    let status = home.run(&["status", "-o", "json"]).await?.json()?;
    assert_eq!(
        (&status["state"], &status["gateways"]),
        (&json!("settled"), &json!([]))
    );
    home.run(&["history"])
        .await?
        .exits(0)
        .prints("has not changed since init");
    for command in ["pause", "resume", "rollback"] {
        home.run(&[command]).await?.exits(3).says("no rollout runs");
    }
    Ok(())
}

async fn verify_finds_what_lies_where_no_guard_admits_it(version: EtcdVersion) -> Result<()> {
    let (a, b) = (etcd(version).await?, etcd(version).await?);
    let home = Home::of(&a);
    home.init(&[("a", &a), ("b", &b)], "8").await?.exits(0);
    home.run(&["verify"])
        .await?
        .exits(0)
        .prints("clean: map version 1, 2 clusters, 0 locks");

    // A name of each cluster, by the command itself; both records into b.
    let names = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];
    let found = home
        .run(&[&["lookup", "-o", "json"], &names[..]].concat())
        .await?
        .json()?;
    let of_a = found
        .as_array()
        .into_iter()
        .flatten()
        .find(|it| it["cluster"] == "a");
    let of_a = of_a.and_then(|it| it["name"].as_str()).unwrap_or_default();
    b.etcdctl(&["put", &format!("/locks/{of_a}"), r#"{"tokenBase":0}"#])
        .await?;
    let verdict = home.run(&["verify", "-o", "json"]).await?;
    let verdict = verdict.exits(4).json()?;
    assert_eq!(
        (&verdict["clean"], &verdict["locks"]),
        (&json!(false), &json!(1))
    );
    let problems = verdict["problems"].to_string();
    assert!(
        problems.contains("is there, but the shard is not"),
        "{problems}"
    );
    Ok(())
}

async fn a_plan_says_what_moves_and_asks_the_clusters_who_they_are(
    version: EtcdVersion,
) -> Result<()> {
    let (a, b, c) = (
        etcd(version).await?,
        etcd(version).await?,
        etcd(version).await?,
    );
    let home = Home::of(&a);
    home.init(&[("a", &a), ("b", &b)], "256").await?.exits(0);
    a.etcdctl(&["put", "/locks/n", "x"]).await?;
    let before = (dump(&a).await?, dump(&b).await?);
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("plan.json");
    let out = out.to_string_lossy();
    let out = out.as_ref();
    let plan = async |wish: &[&str]| home.run(&[&["plan", "--out", out], wish].concat()).await;

    let add = format!("c={}", c.endpoint());
    let planned = plan(&["--add", &add, "--remove", "a"]).await?;
    planned
        .exits(0)
        .prints("a     c      128  0-127")
        .prints("about 1 held locks");
    let file: Value = serde_json::from_slice(&std::fs::read(out)?)?;
    assert_eq!(
        file["moves"],
        json!([{"from": "a", "to": "c", "shards": "0-127"}])
    );

    let taken = format!("c=http://localhost:{}", b.client_port());
    let taken = plan(&["--add", &taken]).await?;
    taken.exits(3).says("cluster c is cluster b of deployment");
    let nobodys = format!("b={}", c.endpoint());
    let nobodys = plan(&["--endpoints", &nobodys]).await?;
    nobodys.exits(3).says("cluster b has no identity record");
    plan(&["--remove", "x"])
        .await?
        .exits(3)
        .says("no cluster x");
    plan(&[]).await?.exits(2);
    assert_eq!(
        (dump(&a).await?, dump(&b).await?),
        before,
        "a plan changes nothing"
    );
    Ok(())
}

async fn init_prepares_the_clusters_and_again_changes_nothing(version: EtcdVersion) -> Result<()> {
    let (a, b) = (etcd(version).await?, etcd(version).await?);
    let home = Home::of(&a);
    let first = home.init(&[("a", &a), ("b", &b)], "256").await?;
    first.exits(0).prints("is for good");
    assert_eq!(guards(&a).await?, 128);
    assert_eq!(guards(&b).await?, 128);
    let guard = b
        .etcdctl(&["get", "--print-value-only", "/holdfast/shards/255"])
        .await?;
    assert_eq!(
        guard.trim(),
        r#"{"epoch":1,"state":"active","tokenBase":0}"#
    );
    let before = (dump(&a).await?, dump(&b).await?);
    assert!(!before.0.contains("/holdfast/map/init"));

    let again = home.init(&[("b", &b), ("a", &a)], "256").await?;
    again.exits(0).prints("nothing was changed");
    assert_eq!((dump(&a).await?, dump(&b).await?), before);
    Ok(())
}

async fn a_second_init_with_another_request_is_refused(version: EtcdVersion) -> Result<()> {
    let (a, b) = (etcd(version).await?, etcd(version).await?);
    let home = Home::of(&a);
    home.init(&[("a", &a)], "256").await?.exits(0);
    let other = home.init(&[("a", &a)], "128").await?;
    other.exits(3).says("it has 256 shards, not 128");
    let other = home.init(&[("a", &a), ("b", &b)], "256").await?;
    other.exits(3).says("it has no cluster b");
    assert_eq!(guards(&b).await?, 0);
    Ok(())
}

async fn two_names_for_one_etcd_cluster_are_refused_by_name(version: EtcdVersion) -> Result<()> {
    let etcd = etcd(version).await?;
    let (url, other_url) = (
        format!("a={}", etcd.endpoint()),
        format!("b=http://localhost:{}", etcd.client_port()),
    );
    let args = [
        "init",
        "--home",
        &etcd.endpoint(),
        "--cluster",
        &url,
        "--cluster",
        &other_url,
    ];
    let refused = shard_map(&args).await?;
    refused
        .exits(3)
        .says("clusters a and b are one etcd cluster");
    assert_eq!(dump(&etcd).await?, "");
    Ok(())
}

async fn an_endpoint_that_belongs_to_another_cluster_is_refused(
    version: EtcdVersion,
) -> Result<()> {
    let (a, b) = (etcd(version).await?, etcd(version).await?);
    let urls = format!("a={},{}", a.endpoint(), b.endpoint());
    let refused = shard_map(&["init", "--home", &a.endpoint(), "--cluster", &urls]).await?;
    refused
        .exits(3)
        .says("belong to two etcd clusters")
        .says(&b.endpoint());
    assert_eq!(dump(&a).await?, "");
    Ok(())
}

async fn a_cluster_of_another_deployment_is_refused(version: EtcdVersion) -> Result<()> {
    let (a, b) = (etcd(version).await?, etcd(version).await?);
    Home::of(&a).init(&[("a", &a)], "8").await?.exits(0);
    let refused = Home::of(&b).init(&[("one", &a), ("two", &b)], "8").await?;
    refused
        .exits(3)
        .says("cluster one is cluster a of deployment");
    assert_eq!(dump(&b).await?, "");
    Ok(())
}

async fn show_and_lookup_tell_where_names_live(version: EtcdVersion) -> Result<()> {
    let (a, b) = (etcd(version).await?, etcd(version).await?);
    let home = Home::of(&b);
    let nothing = home.run(&["show"]).await?;
    nothing.exits(3).says("home has no shard map");
    let init = home
        .init_with(&[("a", &a), ("b", &b)], &["--weight", "a=3", "-o", "json"])
        .await?;
    assert_eq!(init.exits(0).json()?["outcome"], "initialised");

    let shown = home.run(&["show", "-o", "json"]).await?.exits(0).json()?;
    let expected = json!([
        {"name": "a", "endpoints": [a.endpoint()], "weight": 3, "shardCount": 192, "shards": "0-191"},
        {"name": "b", "endpoints": [b.endpoint()], "weight": 1, "shardCount": 64, "shards": "192-255"},
    ]);
    assert_eq!(shown["clusters"], expected);
    assert_eq!(
        (&shown["version"], &shown["shards"]),
        (&json!(1), &json!(256))
    );
    home.run(&["show"]).await?.exits(0).prints("192-255");

    // Shards 14, 126 and 239, by the golden vectors.
    let found = home.run(&["lookup", "-o", "json", "a", "ß", "ab"]).await?;
    let guard = json!({"epoch": 1, "state": "active", "tokenBase": 0});
    let expected: Value = [("a", 14, "a"), ("ß", 126, "a"), ("ab", 239, "b")]
        .map(|(name, shard, cluster)| {
            json!({"name": name, "shard": shard, "cluster": cluster, "guard": guard})
        })
        .into();
    assert_eq!(found.exits(0).json()?, expected);
    let text = home.run(&["lookup", "a"]).await?;
    text.exits(0).prints("active, epoch 1, token base 0");
    Ok(())
}

async fn lookup_answers_though_a_cluster_is_down(version: EtcdVersion) -> Result<()> {
    let (a, mut b) = (etcd(version).await?, etcd(version).await?);
    let home = Home::of(&a);
    home.init(&[("a", &a), ("b", &b)], "256").await?.exits(0);
    b.kill()?;
    let found = home
        .run(&["lookup", "-o", "json", "a", "ab"])
        .await?
        .exits(0)
        .json()?;
    assert_eq!(found[0]["guard"]["state"], "active");
    assert_eq!(found[1]["guard"], Value::Null);
    let problem = found[1]["guardProblem"].as_str().unwrap_or_default();
    assert!(problem.starts_with("unknown: "), "{found}");

    let fresh = etcd(version).await?;
    let refused = Home::of(&fresh).init(&[("b", &b)], "8").await?;
    refused
        .exits(3)
        .says("cluster b: endpoint")
        .says("cannot be used");
    assert_eq!(dump(&fresh).await?, "");
    Ok(())
}

async fn a_user_is_needed_where_etcd_asks_for_one(version: EtcdVersion) -> Result<()> {
    let etcd = etcd(version).await?;
    etcd.etcdctl(&["user", "add", "root:secret"]).await?;
    etcd.etcdctl(&["user", "grant-role", "root", "root"])
        .await?;
    etcd.etcdctl(&["auth", "enable"]).await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("user");
    std::fs::write(&file, "root:secret\n")?;
    let from_file = format!("@{}", file.display());

    let home = Home::of(&etcd);
    home.init(&[("a", &etcd)], "8")
        .await?
        .exits(3)
        .says("--user");
    let literal = home
        .init_with(&[("a", &etcd)], &["--user", "root:secret"])
        .await?;
    literal.exits(2).says("--user @FILE");
    let init = home
        .init_with(&[("a", &etcd)], &["--user", &from_file])
        .await?;
    init.exits(0).prints(&file.display().to_string());
    let shown = home
        .run(&["show", "--user", "root:secret", "-o", "json"])
        .await?;
    let shown = shown.exits(0).json()?;
    assert_eq!(shown["clusters"][0]["credentialsFile"], json!(file));
    assert!(!shown.to_string().contains("secret"));
    Ok(())
}

async fn guards(etcd: &Etcd) -> Result<usize> {
    let keys = etcd
        .etcdctl(&["get", "--prefix", "--keys-only", "/holdfast/shards/"])
        .await?;
    Ok(keys.lines().filter(|line| !line.is_empty()).count())
}

/// Every key with its value and revisions.
async fn dump(etcd: &Etcd) -> Result<String> {
    let json = etcd
        .etcdctl(&["get", "--prefix", "/", "-w", "json"])
        .await?;
    let reply: Value = serde_json::from_str(&json)?;
    let kvs = reply["kvs"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Ok(kvs
        .iter()
        .map(Value::to_string)
        .collect::<Vec<_>>()
        .join("\n"))
}
