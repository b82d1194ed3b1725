//! A stack for one test, its clients, and the court.

use anyhow::{Result, bail, ensure};
use futures::future::join_all;
use holdfast_chaos::{Answer, Client, ClusterShape, Court, Held, Stack, StackOptions, now};
use holdfast_judge::Terms;
use holdfast_rig::wait_until;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// The sessions' TTL.
pub(crate) const SESSION: Duration = Duration::from_secs(3);
/// On top of a bound that the documents give: the machine does other things too.
pub(crate) const SLACK: Duration = Duration::from_secs(8);
/// The longest that anything may take, on a slow machine that runs other tests.
pub(crate) const AMPLE: Duration = Duration::from_secs(120);
/// The TTL of a hold that must live while commands run and nobody renews it. No test waits for its end.
pub(crate) const LONG: Duration = Duration::from_secs(300);

pub(crate) struct Scene {
    pub(crate) stack: Stack,
    pub(crate) court: Arc<Court>,
    prefix: Arc<str>,
    clients: usize,
}

impl Scene {
    /// So many gateways over these clusters. ONE-HOLDER is asked for.
    pub(crate) async fn start(gateways: usize, clusters: &[ClusterShape]) -> Self {
        Self::start_with_spares(gateways, clusters, 0).await
    }

    /// As [`Scene::start`]; the last so many clusters are not in the map.
    pub(crate) async fn start_with_spares(
        gateways: usize,
        clusters: &[ClusterShape],
        spares: usize,
    ) -> Self {
        Self::start_with(gateways, clusters, spares, SESSION).await
    }

    /// As [`Scene::start_with_spares`], where nothing but the machine can keep gateways from proving
    /// that their sessions live: those are long enough for it to stall for some seconds.
    pub(crate) async fn start_calm(
        gateways: usize,
        clusters: &[ClusterShape],
        spares: usize,
    ) -> Self {
        Self::start_with(gateways, clusters, spares, 4 * SESSION).await
    }

    async fn start_with(
        gateways: usize,
        clusters: &[ClusterShape],
        spares: usize,
        session_ttl: Duration,
    ) -> Self {
        let mut options = StackOptions::new(gateways, clusters.to_vec(), None).unwrap();
        options.spares = spares;
        options.session_ttl = session_ttl;
        Self {
            stack: Stack::start(&options).await.unwrap(),
            court: Arc::new(Court::default()),
            prefix: "row/".into(),
            clients: 0,
        }
    }

    /// From now on no hold may end that is renewed, though its promise may lapse.
    pub(crate) fn nothing_may_be_lost(&self) {
        self.court.set_terms(Terms {
            no_loss: true,
            ..Terms::default()
        });
    }

    /// From now on only tokens and the form of answers are judged.
    pub(crate) fn holds_may_overlap(&self) {
        self.court.set_terms(Terms {
            one_holder: false,
            ..Terms::default()
        });
    }

    pub(crate) fn client(&mut self) -> Client {
        self.clients += 1;
        let (court, prefix) = (Arc::clone(&self.court), Arc::clone(&self.prefix));
        Client::new(court, self.clients, prefix, &self.stack.targets())
    }

    /// The keys of all clusters that have this name's record.
    pub(crate) async fn records_of(&self, name: usize) -> usize {
        let mut records = 0;
        for cluster in &self.stack.clusters {
            let key = format!("/locks/{}{name}", self.prefix);
            let keys = cluster.keys(&key).await.unwrap();
            records += keys.iter().filter(|found| **found == key).count();
        }
        records
    }

    /// Waits until etcd has no lock.
    pub(crate) async fn until_all_is_free(&self) {
        wait_until("no record to be left", AMPLE, || async {
            let records = self.stack.records().await?;
            ensure!(records == 0, "{records} are left");
            Ok(())
        })
        .await
        .unwrap();
    }

    /// Nothing was found.
    pub(crate) fn verdict(&self) {
        let found = self.court.finding();
        assert!(found.is_none(), "{found:#?}");
    }
}

/// Asks again until the name is granted; any other definite answer but "held" is an error.
pub(crate) async fn granted(
    client: &mut Client,
    through: usize,
    name: usize,
    ttl: Duration,
) -> Held {
    let client = tokio::sync::Mutex::new(client);
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
    wait_until("a grant", AMPLE, || async {
        let (answer, held) = client
            .lock()
            .await
            .acquire(through, None, name, ttl_ms)
            .await;
        match held {
            Some(held) => Ok(held),
            None => bail!("it is answered {answer:?}"),
        }
    })
    .await
    .unwrap()
}

/// Asks again until the renewal is answered definitely, and gives that.
pub(crate) async fn definite_renewal(client: &mut Client, through: usize, held: &Held) -> Answer {
    let asking = tokio::sync::Mutex::new((client, held.clone()));
    wait_until("a definite answer to a renewal", AMPLE, || async {
        let mut asking = asking.lock().await;
        let (client, held) = &mut *asking;
        match client.renew(through, None, held).await {
            Answer::Unknown(why) => bail!("it is not known: {why}"),
            answer => Ok(answer),
        }
    })
    .await
    .unwrap()
}

/// The hold goes on.
pub(crate) async fn renewed(client: &mut Client, through: usize, held: &Held) {
    let answer = definite_renewal(client, through, held).await;
    assert!(matches!(answer, Answer::Renewed(_)), "{answer:?}");
}

/// Asks again until the hold is released.
pub(crate) async fn released(client: &mut Client, through: usize, held: &Held) {
    let client = tokio::sync::Mutex::new(client);
    wait_until("a release", AMPLE, || async {
        let answer = client.lock().await.release(through, None, held).await;
        ensure!(answer == Answer::Released, "it is answered {answer:?}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Renews all the time, through one gateway after the other, for so long. Gives why nothing was known
/// when that was so.
pub(crate) async fn kept(client: &mut Client, held: &mut Held, lasting: Duration) -> Vec<String> {
    kept_through(client, held, lasting, None).await
}

/// As [`kept`], through one gateway only.
pub(crate) async fn kept_through(
    client: &mut Client,
    held: &mut Held,
    lasting: Duration,
    only: Option<usize>,
) -> Vec<String> {
    let until = now() + u64::try_from(lasting.as_millis()).unwrap();
    let (mut unknown, mut turn) = (Vec::new(), 0);
    while now() < until {
        let through = only.unwrap_or(turn % client.gateways());
        turn += 1;
        match client.renew(through, None, held).await {
            Answer::Renewed(_) => {}
            Answer::Unknown(why) => unknown.push(why),
            answer => panic!("a hold that is renewed all the time is answered {answer:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unknown
}

/// Renews them all the time, through one gateway only or through one after the other, until `end`.
pub(crate) async fn all_kept(
    holders: &mut [(Client, Held)],
    only: Option<usize>,
    end: impl Future<Output = ()>,
) -> Vec<String> {
    let over = Cell::new(false);
    let keeping = holders.iter_mut().map(|(client, held)| {
        let over = &over;
        async move {
            let mut unknown = Vec::new();
            while !over.get() {
                let turn = Duration::from_millis(500);
                unknown.extend(kept_through(client, held, turn, only).await);
            }
            unknown
        }
    });
    let ending = async {
        end.await;
        over.set(true);
    };
    let (unknown, ()) = tokio::join!(join_all(keeping), ending);
    unknown.concat()
}

/// A fault lasts so long.
pub(crate) async fn lasting(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// What a cluster's etcdctl prints.
pub(crate) async fn etcdctl(scene: &Scene, cluster: usize, args: &[&str]) -> Result<String> {
    let etcd = scene.stack.clusters[cluster].etcd().await;
    etcd.etcdctl(args).await
}
