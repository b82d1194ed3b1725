//! Whether what home has becomes the map that runs.

use shard_map::{DeploymentId, MapError, MapVersion, ShardCount, ShardMap};

/// What a look at home means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Run this map from now on.
    Adopt(Box<ShardMap>),
    /// It runs already.
    Same,
    /// Keep what runs.
    Refuse(Refusal),
}

/// Why home's map is not run. The text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error(
        "home has no shard map; create it with `shard-map init`, or correct [home] if it has one elsewhere"
    )]
    Missing,
    /// It breaks a rule, or is of a later version of Holdfast.
    #[error(
        "home's shard map is refused: {0}; correct it, or update this gateway if a later version wrote it"
    )]
    Unreadable(MapError),
    /// It is somebody else's.
    #[error(
        "home has the map of deployment {found}, but this gateway belongs to {running}; correct [home], or \
         stop the gateway and remove map.json from its state_dir if it is to change over"
    )]
    OtherDeployment {
        /// Of the map that runs.
        running: DeploymentId,
        /// Of home's.
        found: DeploymentId,
    },
    /// The number of shards is for good.
    #[error(
        "home's map has {found} shards, but there are {running}, for good; restore the map from its history"
    )]
    OtherShards {
        /// Of the map that runs.
        running: ShardCount,
        /// Of home's.
        found: ShardCount,
    },
    /// Home went back in time.
    #[error(
        "home has map version {found}, but this gateway has seen {running}; publish the newer map again (home \
         may have been restored from a backup)"
    )]
    OlderVersion {
        /// Of the map that runs.
        running: MapVersion,
        /// Of home's.
        found: MapVersion,
    },
    /// Two maps with one version.
    #[error(
        "home's map {0} is not the map {0} that this gateway has seen; publish it with a higher version"
    )]
    SameVersion(MapVersion),
}

/// Judges home's document (`None`: it has none) beside the map that runs.
pub(super) fn judge(running: Option<&ShardMap>, document: Option<&[u8]>) -> Verdict {
    let Some(document) = document else {
        return Verdict::Refuse(Refusal::Missing);
    };
    let found = match ShardMap::from_json(document) {
        Ok(found) => found,
        Err(error) => return Verdict::Refuse(Refusal::Unreadable(error)),
    };
    let Some(running) = running else {
        return Verdict::Adopt(Box::new(found));
    };
    if found.deployment() != running.deployment() {
        return Verdict::Refuse(Refusal::OtherDeployment {
            running: running.deployment(),
            found: found.deployment(),
        });
    }
    if found.shards() != running.shards() {
        return Verdict::Refuse(Refusal::OtherShards {
            running: running.shards(),
            found: found.shards(),
        });
    }
    match found.version().cmp(&running.version()) {
        std::cmp::Ordering::Greater => Verdict::Adopt(Box::new(found)),
        std::cmp::Ordering::Equal if found == *running => Verdict::Same,
        std::cmp::Ordering::Equal => Verdict::Refuse(Refusal::SameVersion(found.version())),
        std::cmp::Ordering::Less => Verdict::Refuse(Refusal::OlderVersion {
            running: running.version(),
            found: found.version(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::map;
    use super::*;

    fn judged(running: &ShardMap, found: &ShardMap) -> Verdict {
        judge(Some(running), Some(&found.to_json()))
    }

    #[test]
    fn any_good_map_is_adopted_when_none_runs() {
        let verdict = judge(None, Some(&map(7, 256, 3).to_json()));
        assert_eq!(verdict, Verdict::Adopt(Box::new(map(7, 256, 3))));
    }

    #[test]
    fn only_a_higher_version_of_the_same_deployment_with_as_many_shards_is_adopted() {
        let running = map(7, 256, 3);
        let higher = map(7, 256, 9);
        assert_eq!(
            judged(&running, &higher),
            Verdict::Adopt(Box::new(higher.clone()))
        );
        assert_eq!(judged(&running, &running), Verdict::Same);
        for (found, expected) in [
            (
                map(7, 256, 2),
                "home has map version 2, but this gateway has seen 3",
            ),
            (
                map(8, 256, 4),
                "home has the map of deployment 00000000000000000000000000000008",
            ),
            (
                map(7, 128, 4),
                "home's map has 128 shards, but there are 256",
            ),
        ] {
            let Verdict::Refuse(refusal) = judged(&running, &found) else {
                panic!("not refused: {found:?}");
            };
            assert!(refusal.to_string().contains(expected), "{refusal}");
        }
    }

    #[test]
    fn two_maps_with_one_version_are_never_swapped() {
        let running = map(7, 256, 3);
        let mut document = running.document().clone();
        document.clusters[0].endpoints = vec!["http://elsewhere:2379".parse().unwrap()];
        let other = ShardMap::try_from(document).unwrap();
        let expected = Verdict::Refuse(Refusal::SameVersion(MapVersion(3)));
        assert_eq!(judged(&running, &other), expected);
    }

    #[test]
    fn no_map_and_a_bad_map_are_refused_whatever_runs() {
        for running in [None, Some(&map(7, 256, 3))] {
            assert_eq!(judge(running, None), Verdict::Refuse(Refusal::Missing));
            let bad = judge(running, Some(b"{}"));
            assert!(
                matches!(bad, Verdict::Refuse(Refusal::Unreadable(_))),
                "{bad:?}"
            );
        }
    }
}
