//! Home, as those see it who change maps: what is read, and every write there is.

use super::record::{Direction, GatewayReport, LogEntry, Rollout, RunState};
use crate::plan::{Plan, at_version, during};
use crate::records::{Record, RecordError, keys};
use crate::{MapError, MapVersion, ShardMap};
use holdfast_store::{
    Compare, Get, KeyRange, KeyValue, Put, Revision, Txn, TxnOp, TxnOpReply, TxnReply,
};

/// Home at one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The present map.
    pub map: ShardMap,
    map_at: Revision,
    /// The rollout that runs.
    pub rollout: Option<Rollout>,
    rollout_at: Revision,
    /// The instance of the gateway that takes the steps.
    pub driver: Option<String>,
    /// What the live gateways say.
    pub gateways: Vec<GatewayReport>,
}

/// Why home cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// There is no map.
    #[error("home has no shard map")]
    NoMap,
    /// The map is none.
    #[error("home's map cannot be read: {0}")]
    Map(#[from] MapError),
    /// A record is none.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Not the reply to the read.
    #[error("home answered something else than it was asked")]
    Reply,
}

/// Reads [`Home`].
pub fn read_home() -> Txn {
    Txn::read([
        Get::all(KeyRange::one(keys::map_current())),
        Get::all(KeyRange::one(keys::map_rollout())),
        Get::all(KeyRange::one(keys::map_driver())),
        Get::all(keys::map_gateways()),
    ])
}

impl Home {
    /// From the reply to [`read_home`].
    ///
    /// # Errors
    /// When there is no map, or a record cannot be read.
    pub fn from_reply(reply: TxnReply) -> Result<Self, HomeError> {
        let gets = reply.ops.into_iter().map(|op| match op {
            TxnOpReply::Get(get) => Some(get.kvs),
            _ => None,
        });
        let gets: Option<Vec<Vec<KeyValue>>> = gets.collect();
        let Ok([map, rollout, driver, gateways]) = <[_; 4]>::try_from(gets.unwrap_or_default())
        else {
            return Err(HomeError::Reply);
        };
        let map = map.first().ok_or(HomeError::NoMap)?;
        let rollout = rollout.first();
        let driver: Option<super::record::DriverRecord> = driver.first().map(read).transpose()?;
        Ok(Self {
            map: ShardMap::from_json(&map.value)?,
            map_at: map.mod_revision,
            rollout_at: rollout.map_or(Revision::ABSENT, |record| record.mod_revision),
            rollout: rollout.map(read).transpose()?,
            driver: driver.map(|driver| driver.instance),
            gateways: gateways.iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    /// Begins the rollout of a plan, or publishes its map at once if nothing moves. Succeeds only if
    /// the map is as read and no rollout runs.
    ///
    /// # Errors
    /// When the map to publish is none.
    pub fn begin(&self, plan: &Plan, rollout: &Rollout) -> Result<Txn, MapError> {
        let map = plan.during()?;
        let moves = map.moving().next().is_some();
        let then = match moves {
            true => vec![put(keys::map_rollout(), rollout.to_value())],
            false => {
                let entry = LogEntry {
                    before: self.map.version(),
                    after: map.version(),
                    direction: Direction::Forward,
                    shards: 0,
                    who: rollout.who.clone(),
                    reason: rollout.reason.clone(),
                    began_unix_ms: rollout.began_unix_ms,
                    ended_unix_ms: rollout.began_unix_ms,
                };
                vec![put(keys::map_log(map.version()), entry.to_value())]
            }
        };
        Ok(self.change(Some(&map), then))
    }

    /// The rollout's record becomes `rollout`, if it is as read; the map stays.
    pub fn set(&self, rollout: &Rollout) -> Txn {
        self.change(None, vec![put(keys::map_rollout(), rollout.to_value())])
    }

    /// Turns the rollout around: publishes a map that has every moving shard where it was before,
    /// coming from where it was going.
    ///
    /// `before` is the map before the rollout, from the history.
    ///
    /// # Errors
    /// When the map to publish is none.
    pub fn turn_back(&self, before: &ShardMap, rollout: &Rollout) -> Result<Txn, MapError> {
        let map = during(&self.settled()?, before, self.map.version().next())?;
        let clusters = self.map.clusters().iter().map(|cluster| &cluster.name);
        let back = Rollout {
            direction: Direction::Back,
            state: RunState::Running,
            problem: None,
            canary: None,
            leaves: clusters
                .filter(|name| before.cluster(name).is_none())
                .cloned()
                .collect(),
            ..rollout.clone()
        };
        Ok(self.change(Some(&map), vec![put(keys::map_rollout(), back.to_value())]))
    }

    /// Ends the rollout, every shard of which is where it should be: publishes the map without
    /// moves and without the clusters that leave.
    ///
    /// # Errors
    /// When the map to publish is none.
    pub fn end(&self, rollout: &Rollout, now_unix_ms: u64) -> Result<Txn, MapError> {
        let map = self.last(rollout)?;
        let entry = LogEntry {
            before: rollout.before,
            after: map.version(),
            direction: rollout.direction,
            shards: self.map.moving().count() as u64,
            who: rollout.who.clone(),
            reason: rollout.reason.clone(),
            began_unix_ms: rollout.began_unix_ms,
            ended_unix_ms: now_unix_ms.max(rollout.began_unix_ms),
        };
        let then = vec![
            TxnOp::Delete(KeyRange::one(keys::map_rollout())),
            put(keys::map_log(map.version()), entry.to_value()),
        ];
        Ok(self.change(Some(&map), then))
    }

    /// The map at the end of the rollout.
    fn last(&self, rollout: &Rollout) -> Result<ShardMap, MapError> {
        let settled = self.settled()?;
        let mut document = settled.document().clone();
        document.version = self.map.version().next();
        document
            .clusters
            .retain(|cluster| !rollout.leaves.contains(&cluster.name));
        ShardMap::try_from(document)
    }

    /// The present map without its moves.
    fn settled(&self) -> Result<ShardMap, MapError> {
        at_version(&self.map, self.map.version())
    }

    /// Succeeds only if map and rollout are as read. With a map, that one is published.
    fn change(&self, map: Option<&ShardMap>, mut then: Vec<TxnOp>) -> Txn {
        if let Some(map) = map {
            let json = map.to_json();
            then.push(put(keys::map_current(), json.clone()));
            then.push(put(keys::map_history(map.version()), json));
        }
        let rollout = match self.rollout_at {
            Revision::ABSENT => Compare::absent(KeyRange::one(keys::map_rollout())),
            at => Compare::mod_revision(keys::map_rollout(), at),
        };
        Txn {
            compare: vec![
                Compare::mod_revision(keys::map_current(), self.map_at),
                rollout,
            ],
            then,
            or_else: Vec::new(),
        }
    }
}

/// Reads the map that had this version, from the history.
pub fn read_version(version: MapVersion) -> Txn {
    Txn::read([Get::all(KeyRange::one(keys::map_history(version)))])
}

fn read<T: Record>(record: &KeyValue) -> Result<T, RecordError> {
    T::from_value(&record.key, &record.value)
}

fn put(key: holdfast_store::Key, value: Vec<u8>) -> TxnOp {
    TxnOp::Put(Put {
        key,
        value,
        lease: None,
    })
}
