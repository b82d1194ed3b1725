//! Whether clients should be sent here. Pure.

use crate::lifecycle::Phase;
use crate::service::ClusterHealth;
use crate::time::Millis;

/// Why clients should be sent elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// The process is about to stop.
    #[error("{}", .0.as_str())]
    Stopping(Phase),
    /// No shard map is loaded.
    #[error("no shard map is loaded")]
    NoMap,
    /// No cluster can be used.
    #[error("no cluster's session is proven: {0}")]
    NoProof(String),
}

/// Ready is who has a map loaded (then there are clusters) and at least one cluster's session
/// proven, and is not about to stop. The loss of some clusters is no reason to send clients
/// away: the others' locks can be served here as well as anywhere.
///
/// # Errors
/// When it is not ready.
pub fn readiness(phase: Phase, clusters: &[ClusterHealth]) -> Result<(), NotReady> {
    if phase != Phase::Serving {
        return Err(NotReady::Stopping(phase));
    }
    if clusters.is_empty() {
        return Err(NotReady::NoMap);
    }
    if clusters.iter().any(|cluster| cluster.proven) {
        return Ok(());
    }
    let last_proofs: Vec<String> = clusters.iter().map(last_proof).collect();
    Err(NotReady::NoProof(last_proofs.join(", ")))
}

fn last_proof(cluster: &ClusterHealth) -> String {
    let name = &cluster.name;
    match cluster.proof_age.map(Millis::as_ms) {
        Some(age_ms) => format!("{name} (last proof {age_ms} ms ago)"),
        None => format!("{name} (none so far)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn cluster(name: &str, proven: bool) -> ClusterHealth {
        ClusterHealth {
            name: Arc::from(name),
            proven,
            proof_age: proven.then_some(Millis::from_ms(1200)),
            groups: 0,
            locks: 0,
        }
    }

    #[test]
    fn losing_some_clusters_is_no_reason_to_send_clients_away_and_losing_all_is() {
        let (up, down) = (cluster("up", true), cluster("down", false));
        let both = [up, down.clone()];
        assert_eq!(readiness(Phase::Serving, &both), Ok(()));
        let none = readiness(Phase::Serving, &[down]).unwrap_err();
        let text = "no cluster's session is proven: down (none so far)";
        assert_eq!(none.to_string(), text);
    }

    #[test]
    fn without_a_map_or_about_to_stop_nobody_is_ready() {
        assert_eq!(readiness(Phase::Serving, &[]), Err(NotReady::NoMap));
        let up = [cluster("up", true)];
        for phase in [Phase::Draining, Phase::Finishing, Phase::Done] {
            let refused = readiness(phase, &up).unwrap_err();
            assert_eq!(refused.to_string(), phase.as_str());
        }
    }
}
