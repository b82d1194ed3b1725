//! What must be true again when everything works.

use crate::court::Court;
use crate::fleet::{Answer, Client, Fleet};
use crate::stack::Stack;
use anyhow::{Result, ensure};
use holdfast_judge::{Rule, Terms};
use holdfast_rig::wait_until;
use std::sync::Arc;
use std::time::Duration;

/// The longest TTL that workers ask for.
const TTL_MAX: Duration = Duration::from_secs(8);
/// On top of every bound that the documents give, for a machine that does other things too.
const SLACK: Duration = Duration::from_secs(20);

/// No worker has it.
const NOBODYS_NUMBER: usize = 1_000_000;

/// Heals everything, and looks whether holds live, ends are ends, and nothing is left behind.
///
/// # Errors
/// When something cannot be started or asked. What is wrong with the product is a finding.
pub(crate) async fn ask(
    stack: &Stack,
    court: &Arc<Court>,
    fleet: Fleet,
    session: Duration,
    names: usize,
    prefix: &Arc<str>,
) -> Result<()> {
    stack.heal().await?;
    // Sessions that were lost are made anew, groups are claimed, what was held back arrives.
    tokio::time::sleep(2 * session + TTL_MAX).await;
    court.set_terms(Terms {
        one_holder: true,
        no_loss: true,
        may_lapse: false,
    });
    fleet.hold();
    tokio::time::sleep(TTL_MAX + session).await;
    court.set_terms(Terms::default());
    fleet.release().await;

    let limit = TTL_MAX + 2 * session + SLACK;
    let left = wait_until("every name to be free", limit, || async {
        let records = stack.records().await?;
        ensure!(records == 0, "{records} records are left");
        Ok(())
    });
    if let Err(error) = left.await {
        court.find(Rule::NoGhost, None, format!("{error:#}"));
    }
    sessions(stack, court).await;
    every_name(stack, court, names, prefix).await;
    Ok(())
}

/// Each gateway has one session in each cluster, no group is without one, and nobody stands in line.
async fn sessions(stack: &Stack, court: &Court) {
    for cluster in &stack.clusters {
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
                sessions.len() == stack.gateways.len() && orphans == 0 && waiters.is_empty(),
                "{} sessions, {orphans} groups without one, {} waiters",
                sessions.len(),
                waiters.len()
            );
            Ok(())
        });
        if let Err(error) = tidy.await {
            let text = format!("{}: {error:#}", cluster.name());
            court.find(Rule::NoGhost, None, text);
        }
    }
}

/// Every name can be acquired and released through every gateway.
async fn every_name(stack: &Stack, court: &Arc<Court>, names: usize, prefix: &Arc<str>) {
    let targets = stack.targets();
    let mut client = Client::new(
        Arc::clone(court),
        NOBODYS_NUMBER,
        Arc::clone(prefix),
        &targets,
    );
    for name in 0..names {
        let through = name % targets.len();
        let (answer, held) = client.acquire(through, None, name, 5_000).await;
        let Some(held) = held else {
            let text = format!("everything works, and an acquire is answered {answer:?}");
            return court.find(Rule::NoGhost, Some(name), text);
        };
        let answer = client.release(through, None, &held).await;
        if answer != Answer::Released {
            let text = format!("everything works, and a release is answered {answer:?}");
            return court.find(Rule::NoGhost, Some(name), text);
        }
    }
}
