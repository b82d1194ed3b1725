//! The clusters that the checks run against, and what is done to them from outside.

use etcd_client::{AlarmAction, AlarmType, Client};
use holdfast_rig::{Etcd, EtcdOptions, EtcdVersion};
use holdfast_store::etcd::EtcdConfig;
use holdfast_store::{EtcdStore, Model, ModelStore, ModelTime, Revision, Store};
use tokio::time::Instant;

pub(crate) struct Target {
    name: &'static str,
    cluster: Cluster,
}

enum Cluster {
    Model(ModelStore),
    Etcd(Box<EtcdMember>),
}

struct EtcdMember {
    store: EtcdStore,
    member: Etcd,
}

impl Target {
    /// The model, on Tokio's clock.
    #[expect(clippy::disallowed_methods, reason = "reads Tokio's paused clock")]
    pub(crate) fn model() -> Self {
        let start = Instant::now();
        let store = ModelStore::new(Model::new(17, 4), move || {
            let ms = Instant::now().duration_since(start).as_millis();
            ModelTime::from_ms(ms.try_into().unwrap())
        });
        Self {
            name: "the model",
            cluster: Cluster::Model(store),
        }
    }

    /// A fresh cluster of one member.
    pub(crate) async fn etcd(version: EtcdVersion) -> Self {
        let options = EtcdOptions {
            unsafe_no_fsync: true,
            ..EtcdOptions::default()
        };
        let member = Etcd::start_with(version, options).await.unwrap();
        Self {
            name: match version {
                EtcdVersion::V3_4 => "etcd 3.4",
                EtcdVersion::V3_5 => "etcd 3.5",
            },
            cluster: Cluster::Etcd(Box::new(EtcdMember {
                store: connect(&member),
                member,
            })),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match &self.cluster {
            Cluster::Model(store) => store,
            Cluster::Etcd(etcd) => &etcd.store,
        }
    }

    /// Raises the NoSpace alarm, or clears it.
    pub(crate) async fn set_no_space(&self, raised: bool) {
        match &self.cluster {
            Cluster::Model(store) => store.with_model(|model| model.set_no_space(raised)),
            Cluster::Etcd(etcd) => {
                let action = if raised {
                    AlarmAction::Activate
                } else {
                    AlarmAction::Deactivate
                };
                let endpoints = [etcd.member.endpoint()];
                let mut client = Client::connect(endpoints, None).await.unwrap();
                client
                    .alarm(action, AlarmType::Nospace, None)
                    .await
                    .unwrap();
            }
        }
    }

    pub(crate) async fn compact(&self, revision: Revision) {
        match &self.cluster {
            Cluster::Model(store) => store.with_model(|model| model.compact(revision)),
            Cluster::Etcd(etcd) => {
                let revision = revision.0.to_string();
                etcd.member
                    .etcdctl(&["compaction", &revision])
                    .await
                    .unwrap();
            }
        }
    }
}

/// A store over this member.
pub(crate) fn connect(member: &Etcd) -> EtcdStore {
    EtcdStore::connect(EtcdConfig::new([member.endpoint()])).unwrap()
}
