use holdfast_rig::{Etcd, EtcdCluster, EtcdOptions, EtcdVersion, TlsFiles, wait_until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn each_version_starts_and_is_the_version_it_says() {
    for (version, says) in [(EtcdVersion::V3_4, "3.4."), (EtcdVersion::V3_5, "3.5.")] {
        let etcd = Etcd::start(version).await.unwrap();
        let status = etcd.etcdctl(&["endpoint", "status"]).await.unwrap();
        assert!(status.contains(&format!(", {says}")), "{status}");
    }
}

#[tokio::test]
async fn a_member_killed_and_restarted_has_its_data_at_the_same_endpoint() {
    for version in EtcdVersion::ALL {
        let mut etcd = Etcd::start(version).await.unwrap();
        let endpoint = etcd.endpoint();
        etcd.etcdctl(&["put", "k", "v1"]).await.unwrap();
        etcd.kill().unwrap();
        assert!(
            etcd.etcdctl(&["--command-timeout=1s", "get", "k"])
                .await
                .is_err()
        );
        etcd.restart().await.unwrap();
        assert_eq!(etcd.endpoint(), endpoint);
        assert_eq!(etcd.etcdctl(&["get", "k"]).await.unwrap(), "k\nv1\n");
    }
}

#[tokio::test]
async fn a_member_that_was_terminated_can_be_started_again() {
    let mut etcd = Etcd::start(EtcdVersion::V3_5).await.unwrap();
    etcd.etcdctl(&["put", "k", "v1"]).await.unwrap();
    etcd.terminate().await.unwrap();
    assert!(!etcd.process().is_running());
    etcd.restart().await.unwrap();
    assert_eq!(etcd.etcdctl(&["get", "k"]).await.unwrap(), "k\nv1\n");
}

#[tokio::test]
async fn a_stopped_member_is_silent_until_it_continues() {
    let mut etcd = Etcd::start(EtcdVersion::V3_5).await.unwrap();
    etcd.stop().await.unwrap();
    assert!(
        etcd.etcdctl(&["--command-timeout=1s", "get", "k"])
            .await
            .is_err()
    );
    etcd.cont().unwrap();
    etcd.etcdctl(&["put", "k", "v1"]).await.unwrap();
}

#[tokio::test]
async fn a_cluster_of_three_survives_the_kill_of_its_leader_and_takes_it_back() {
    for version in EtcdVersion::ALL {
        let mut cluster = EtcdCluster::start(version, 3).await.unwrap();
        cluster.etcdctl(&["put", "k", "before"]).await.unwrap();
        let killed = cluster.wait_leader().await.unwrap();
        cluster.member(killed).kill().unwrap();
        let heir = cluster.wait_leader().await.unwrap();
        assert_ne!(heir, killed);
        let survivor = cluster.member(heir);
        wait_until("a write through a survivor", PATIENCE, || {
            survivor.etcdctl(&["put", "k", "after"])
        })
        .await
        .unwrap();
        cluster.member(killed).restart().await.unwrap();
        assert_eq!(
            cluster.member(killed).etcdctl(&["get", "k"]).await.unwrap(),
            "k\nafter\n"
        );
    }
}

#[tokio::test]
async fn a_whole_cluster_killed_and_restarted_has_its_data() {
    let mut cluster = EtcdCluster::start(EtcdVersion::V3_5, 3).await.unwrap();
    cluster.etcdctl(&["put", "k", "v1"]).await.unwrap();
    cluster.restart().await.unwrap();
    assert_eq!(cluster.etcdctl(&["get", "k"]).await.unwrap(), "k\nv1\n");
}

#[tokio::test]
async fn clusters_side_by_side_are_different_clusters() {
    let one = Etcd::start(EtcdVersion::V3_5).await.unwrap();
    let other = Etcd::start(EtcdVersion::V3_5).await.unwrap();
    one.etcdctl(&["put", "k", "v1"]).await.unwrap();
    assert_eq!(other.etcdctl(&["get", "k"]).await.unwrap(), "");
}

#[tokio::test]
async fn a_member_past_its_quota_raises_nospace() {
    let options = EtcdOptions {
        quota_backend_bytes: Some(100_000),
        ..EtcdOptions::default()
    };
    let etcd = Etcd::start_with(EtcdVersion::V3_5, options).await.unwrap();
    let value = "x".repeat(50_000);
    let refusal = wait_until("a put to be refused", PATIENCE, || async {
        match etcd.etcdctl(&["put", "k", &value]).await {
            Ok(_) => anyhow::bail!("accepted"),
            Err(refusal) => Ok(refusal.to_string()),
        }
    })
    .await
    .unwrap();
    assert!(refusal.contains("database space exceeded"), "{refusal}");
    assert!(
        etcd.etcdctl(&["alarm", "list"])
            .await
            .unwrap()
            .contains("NOSPACE")
    );
}

#[tokio::test]
async fn a_member_with_authentication_stays_healthy_and_refuses_strangers() {
    for version in EtcdVersion::ALL {
        let options = EtcdOptions {
            auth_token_ttl: Some(Duration::from_secs(2)),
            ..EtcdOptions::default()
        };
        let mut etcd = Etcd::start_with(version, options).await.unwrap();
        etcd.etcdctl(&["user", "add", "root:secret"]).await.unwrap();
        etcd.etcdctl(&["user", "grant-role", "root", "root"])
            .await
            .unwrap();
        etcd.etcdctl(&["auth", "enable"]).await.unwrap();
        etcd.restart().await.unwrap();
        assert!(etcd.etcdctl(&["put", "k", "v1"]).await.is_err());
        etcd.etcdctl(&["--user=root:secret", "put", "k", "v1"])
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_flag_that_etcd_does_not_know_is_an_error_that_shows_the_log() {
    let options = EtcdOptions {
        extra_args: vec!["--no-such-flag".to_owned()],
        ..EtcdOptions::default()
    };
    let error = Etcd::start_with(EtcdVersion::V3_5, options)
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("no-such-flag"), "{error:#}");
}

#[tokio::test]
async fn a_member_without_syncing_to_disk_survives_its_own_kill() {
    let options = EtcdOptions {
        unsafe_no_fsync: true,
        ..EtcdOptions::default()
    };
    for version in EtcdVersion::ALL {
        let mut etcd = Etcd::start_with(version, options.clone()).await.unwrap();
        etcd.etcdctl(&["put", "k", "v1"]).await.unwrap();
        etcd.restart().await.unwrap();
        assert_eq!(etcd.etcdctl(&["get", "k"]).await.unwrap(), "k\nv1\n");
    }
}

#[tokio::test]
async fn etcd_starts_with_the_recommended_flags() {
    let flags = include_str!("../../../deploy/etcd.flags");
    let options = EtcdOptions {
        extra_args: flags.lines().map(str::to_owned).collect(),
        ..EtcdOptions::default()
    };
    let etcd = Etcd::start_with(EtcdVersion::V3_5, options).await.unwrap();
    let metrics = etcd.metrics().await.unwrap();
    assert!(
        metrics.contains("\netcd_server_quota_backend_bytes 8.589934592e+09\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_member_with_tls_refuses_a_certificate_of_another_authority() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = TlsFiles::generate(folder.path()).unwrap();
    let strange = TlsFiles::generate(elsewhere.path()).unwrap();
    let cert = format!("--cert={}", strange.cert.display());
    let key = format!("--key={}", strange.key.display());
    for version in EtcdVersion::ALL {
        let options = EtcdOptions {
            tls: Some(files.clone()),
            ..EtcdOptions::default()
        };
        let mut etcd = Etcd::start_with(version, options).await.unwrap();
        etcd.etcdctl(&["put", "k", "v1"]).await.unwrap();
        assert!(
            !etcd
                .process()
                .log()
                .contains("certificate signed by unknown authority")
        );
        let refused = [
            "--command-timeout=1s",
            "--dial-timeout=1s",
            &cert,
            &key,
            "get",
            "k",
        ];
        etcd.etcdctl(&refused).await.unwrap_err();
        let log = etcd.process().log();
        assert!(
            log.contains("certificate signed by unknown authority"),
            "{log}"
        );
    }
}
