//! Which etcd cluster each endpoint belongs to.

use super::Failure;
use super::connection::{Connection, read};
use futures::future::join_all;
use holdfast_store::{Get, KeyRange};
use shard_map::Endpoint;
use shard_map::records::keys;

/// What an endpoint said.
#[derive(Debug, Clone)]
struct Probe {
    /// "home" or "cluster a".
    who: String,
    endpoint: Endpoint,
    /// etcd's id of the cluster, or why there is none.
    etcd_id: Result<u64, String>,
}

/// Asks every endpoint for itself: a list with one that belongs elsewhere would work until the
/// day that one is used.
///
/// # Errors
/// When an endpoint does not answer, or belongs to another etcd cluster than those listed with it.
pub(super) async fn probe(
    connection: &Connection<'_>,
    clusters: &[(String, &[Endpoint])],
) -> Result<(), Failure> {
    let mut asked = Vec::new();
    for (who, endpoints) in clusters {
        for endpoint in *endpoints {
            let store = connection.store(std::slice::from_ref(endpoint))?;
            asked.push(async move {
                let reply = read(&store, [Get::keys(KeyRange::one(keys::identity()))]).await;
                Probe {
                    who: who.clone(),
                    endpoint: endpoint.clone(),
                    etcd_id: reply
                        .map(|reply| reply.header.cluster_id)
                        .map_err(|error| error.to_string()),
                }
            });
        }
    }
    check(&join_all(asked).await).map_err(Failure::Refused)
}

fn check(probes: &[Probe]) -> Result<(), String> {
    let mut seen: Vec<(&Probe, u64)> = Vec::new();
    for probe in probes {
        let Probe {
            who,
            endpoint,
            etcd_id,
        } = probe;
        let id = etcd_id.clone().map_err(|problem| {
            format!(
                "{who}: endpoint {endpoint} cannot be used: {problem}\n\
                 Check that etcd runs there, and --cacert, --cert, --key and --user; or leave it out, \
                 endpoints can be added later."
            )
        })?;
        let sibling = seen.iter().find(|(other, _)| other.who == *who);
        if let Some((first, first_id)) = sibling.filter(|(_, first_id)| *first_id != id) {
            let elsewhere = seen.iter().find(|(_, other_id)| *other_id == id);
            let elsewhere =
                elsewhere.map_or_else(String::new, |(other, _)| format!(", that of {}", other.who));
            return Err(format!(
                "{who}: endpoints {} and {endpoint} belong to two etcd clusters ({first_id:x} and {id:x}{elsewhere})\n\
                 List under one name only members of one etcd cluster.",
                first.endpoint
            ));
        }
        seen.push((probe, id));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(who: &str, port: u16, etcd_id: u64) -> Probe {
        Probe {
            who: who.into(),
            endpoint: format!("http://127.0.0.1:{port}").parse().unwrap(),
            etcd_id: Ok(etcd_id),
        }
    }

    #[test]
    fn endpoints_of_one_name_must_belong_to_one_etcd_cluster() {
        let (a, b) = ("cluster a", "cluster b");
        let good = [
            answered("home", 1, 7),
            answered(a, 1, 7),
            answered(a, 2, 7),
            answered(b, 3, 8),
        ];
        assert_eq!(check(&good), Ok(()));

        let strayed = [answered(a, 1, 7), answered(b, 3, 8), answered(b, 2, 7)];
        let text = check(&strayed).unwrap_err();
        let expected = "cluster b: endpoints http://127.0.0.1:3 and http://127.0.0.1:2 belong to two \
                        etcd clusters (8 and 7, that of cluster a)";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn an_endpoint_that_does_not_answer_is_named() {
        let silent = Probe {
            etcd_id: Err("no answer".into()),
            ..answered("cluster a", 9, 0)
        };
        let text = check(&[silent]).unwrap_err();
        assert!(
            text.starts_with("cluster a: endpoint http://127.0.0.1:9 cannot be used: no answer")
        );
    }
}
