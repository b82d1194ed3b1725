//! What must be true again when everything works.

use crate::court::Court;
use crate::fleet::{Answer, Client, Fleet, FleetOptions};
use crate::stack::Stack;
use anyhow::{Context as _, Result, ensure};
use holdfast_judge::{Rule, Terms};
use holdfast_rig::wait_until;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The longest TTL that workers ask for.
const TTL_MAX: Duration = Duration::from_secs(8);
/// On top of every bound that the documents give, for a machine that does other things too.
const SLACK: Duration = Duration::from_secs(20);

/// No worker has it, nor the one after it.
const NOBODYS_NUMBER: usize = 1_000_000;
/// A hold that must live through a release on a slow machine.
const TTL_MS: u64 = 30_000;
/// Whoever stands behind one that is released at once is served long before.
const WAIT: Duration = Duration::from_secs(20);
/// Meanwhile somebody comes to stand in line.
const HELD_FOR: Duration = Duration::from_millis(50);

/// A round that is over: where it was, and who was in it.
pub(crate) struct Calm<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) court: &'a Arc<Court>,
    /// The TTL of gateways' sessions.
    pub(crate) session: Duration,
    pub(crate) fleet: &'a FleetOptions,
    /// How its names begin.
    pub(crate) prefix: &'a Arc<str>,
}

impl Calm<'_> {
    /// Heals everything, and looks whether holds live, ends are ends, and nothing is left behind.
    ///
    /// # Errors
    /// When something cannot be started or asked. What is wrong with the product is a finding.
    pub(crate) async fn ask(&self, fleet: Fleet) -> Result<()> {
        self.stack.heal().await?;
        // Sessions that were lost are made anew, groups are claimed, what was held back arrives.
        tokio::time::sleep(2 * self.session + TTL_MAX).await;
        self.court.set_terms(Terms {
            one_holder: true,
            no_loss: true,
            may_lapse: false,
        });
        fleet.hold();
        tokio::time::sleep(TTL_MAX + self.session).await;
        self.exactly_what_is_held().await;
        self.court.set_terms(Terms::default());
        self.end(fleet).await
    }

    /// Everyone gives back, and nothing is left behind.
    ///
    /// # Errors
    /// When something cannot be asked. What is wrong with the product is a finding.
    pub(crate) async fn end(&self, fleet: Fleet) -> Result<()> {
        fleet.release().await;
        let left = wait_until("every name to be free", self.free_within(), || async {
            let records = self.stack.records().await?;
            ensure!(records == 0, "{records} records are left");
            Ok(())
        });
        if let Err(error) = left.await {
            self.found_left(&error);
        }
        self.sessions().await;
        self.every_name().await;
        Ok(())
    }

    /// Whoever has gone without giving back has lost everything after this.
    fn free_within(&self) -> Duration {
        TTL_MAX + 2 * self.session + SLACK
    }

    fn found_left(&self, error: &anyhow::Error) {
        self.court.find(Rule::NoGhost, None, format!("{error:#}"));
    }

    /// Each gateway has one session in each cluster, no group is without one, and nobody stands in line.
    async fn sessions(&self) {
        for cluster in &self.stack.clusters {
            let tidy = wait_until("one session for each gateway", SLACK, || async {
                let sessions = cluster.keys("/holdfast/sessions/").await?;
                let groups = cluster.keys("/holdfast/groups/").await?;
                let waiters = cluster.keys("/holdfast/waiters/").await?;
                let ids: Vec<&str> = sessions
                    .iter()
                    .filter_map(|key| key.rsplit('/').next())
                    .collect();
                let has_session = |group: &String| ids.iter().any(|id| group.contains(id));
                let orphans = groups.iter().filter(|group| !has_session(group)).count();
                ensure!(
                    sessions.len() == self.stack.gateways.len()
                        && orphans == 0
                        && waiters.is_empty(),
                    "{} sessions, {orphans} groups without one, {} waiters",
                    sessions.len(),
                    waiters.len()
                );
                Ok(())
            });
            if let Err(error) = tidy.await {
                self.found_left(&error.context(cluster.name().to_owned()));
            }
        }
    }

    /// Every name can be acquired and released through every gateway, and goes to who waits for it.
    async fn every_name(&self) {
        let targets = self.stack.targets();
        let client = |number| {
            let (court, prefix) = (Arc::clone(self.court), Arc::clone(self.prefix));
            let client = Client::new(court, number, prefix, &targets);
            match self.fleet.bearers.first() {
                Some(bearer) => client.with_bearer(bearer),
                None => client,
            }
        };
        let (mut first, mut second) = (client(NOBODYS_NUMBER), client(NOBODYS_NUMBER + 1));
        for name in 0..self.fleet.names {
            let through = (name % targets.len(), (name + 1) % targets.len());
            if let Err(wrong) = hand_over(&mut first, &mut second, through, name).await {
                let text = format!("everything works, and {wrong:#}");
                return self.court.find(Rule::NoGhost, Some(name), text);
            }
        }
    }

    /// etcd has the records of the names that are held, and no others, and nobody stands in line.
    async fn exactly_what_is_held(&self) {
        let what = "etcd to have exactly what is held";
        let exact = wait_until(what, self.free_within(), || async {
            let before = self.court.held();
            let records: BTreeSet<String> = self.stack.keys("/locks/").await?.into_iter().collect();
            let waiters = self.stack.keys("/holdfast/waiters/").await?;
            let held = self.court.held();
            ensure!(before == held, "holds come and go");
            let key = |name: &usize| format!("/locks/{}{name}", self.prefix);
            let held: BTreeSet<String> = held.iter().map(key).collect();
            ensure!(
                records == held && waiters.is_empty(),
                "only etcd has {:?}, only clients have {:?}; {} stand in line",
                records.difference(&held).collect::<Vec<_>>(),
                held.difference(&records).collect::<Vec<_>>(),
                waiters.len()
            );
            Ok(())
        });
        if let Err(error) = exact.await {
            self.found_left(&error);
        }
    }
}

/// One client takes the name, another one waits for it, the first gives it back.
async fn hand_over(
    first: &mut Client,
    second: &mut Client,
    through: (usize, usize),
    name: usize,
) -> Result<()> {
    let wait_ms = u64::try_from(WAIT.as_millis())?;
    let (answer, held) = first.acquire(through.0, None, name, TTL_MS).await;
    let held = held.with_context(|| format!("an acquire is answered {answer:?}"))?;
    let waiting = second.acquire_in_line(through.1, name, TTL_MS, wait_ms, WAIT + SLACK);
    let releasing = async {
        // If this is too short for the other to stand in line, it finds the name free.
        tokio::time::sleep(HELD_FOR).await;
        first.release(through.0, None, &held).await
    };
    let ((answer, held), released) = tokio::join!(waiting, releasing);
    ensure!(
        released == Answer::Released,
        "a release is answered {released:?}"
    );
    let held = held.with_context(|| format!("who waits is answered {answer:?}"))?;
    let released = second.release(through.1, None, &held).await;
    ensure!(
        released == Answer::Released,
        "a release is answered {released:?}"
    );
    Ok(())
}
