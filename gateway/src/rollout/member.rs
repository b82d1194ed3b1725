//! What this gateway keeps in home: a lease, and on it its report and perhaps the driver's key.

use crate::limits;
use crate::map::{MapProblem, MapStatus};
use crate::time::{Instant, Millis};
use holdfast_store::{Compare, KeyRange, LeaseId, Op, Put, Reply, StoreError, Txn, TxnOp};
use shard_map::records::{Record, keys};
use shard_map::rollout::{DriverRecord, GatewayReport};

/// What is to be asked of home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    /// A lease, from random bits that the caller has.
    Lease,
    /// That the lease lives on.
    KeepAlive(LeaseId),
    /// That it has what this gateway says of its map; and its candidacy, unless it has resigned.
    Report(Box<(LeaseId, GatewayReport, Candidacy)>),
}

/// Whether a gateway wants to be the driver, if nobody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Candidacy {
    Stands,
    /// It has found that it cannot.
    Resigned,
}

impl Ask {
    /// The operation, with this lease if one is to be granted.
    pub(super) fn op(&self, fresh: LeaseId) -> Op {
        match self {
            Self::Lease => Op::LeaseGrant {
                lease: fresh,
                ttl_s: u32::try_from(limits::REPORT_TTL.as_secs()).unwrap_or(u32::MAX),
            },
            Self::KeepAlive(lease) => Op::KeepAlive {
                leases: vec![*lease],
            },
            Self::Report(it) => Op::Txn(report(it.0, &it.1, it.2)),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Member {
    instance: String,
    peer_url: String,
    lease: Option<LeaseId>,
    /// When the lease was granted or kept alive last, as sent.
    alive: Instant,
    reported: Option<GatewayReport>,
    /// It does not stand for driver before this.
    stands_from: Instant,
}

impl Member {
    pub(super) fn new(instance: String, peer_url: String) -> Self {
        Self {
            instance,
            peer_url,
            lease: None,
            alive: Instant::NEVER,
            reported: None,
            stands_from: Instant::NEVER,
        }
    }

    /// Gives its lease up, and with it the driver's key: another gateway shall drive, and this one not
    /// for some time. The lease, to be revoked.
    pub(super) fn resign(&mut self, now: Instant) -> Option<LeaseId> {
        self.stands_from = now + limits::DRIVER_REST;
        let lease = self.lease;
        self.begin_anew();
        lease
    }

    pub(super) fn instance(&self) -> &str {
        &self.instance
    }

    /// The lease, to be revoked at the end.
    pub(super) fn lease(&self) -> Option<LeaseId> {
        self.lease
    }

    /// What to ask of home now; `stand`: nobody is elected.
    pub(super) fn next(&self, now: Instant, status: &MapStatus, stand: bool) -> Option<Ask> {
        let Some(lease) = self.lease else {
            return Some(Ask::Lease);
        };
        let report = self.report(status);
        let candidacy = match now >= self.stands_from {
            true => Candidacy::Stands,
            false => Candidacy::Resigned,
        };
        let stand = stand && candidacy == Candidacy::Stands;
        if stand || self.reported.as_ref() != Some(&report) {
            return Some(Ask::Report(Box::new((lease, report, candidacy))));
        }
        let due = now.since(self.alive) >= limits::REPORT_KEEPALIVE;
        due.then_some(Ask::KeepAlive(lease))
    }

    /// What came of it. `sent`: when it was asked.
    pub(super) fn heard(
        &mut self,
        ask: Ask,
        fresh: LeaseId,
        sent: Instant,
        outcome: &Result<Reply, StoreError>,
    ) {
        match (ask, outcome) {
            (Ask::Lease, Ok(Reply::LeaseGranted { .. })) => {
                self.lease = Some(fresh);
                self.alive = sent;
            }
            (Ask::KeepAlive(lease), Ok(Reply::KeepAlive(answers))) => {
                match answers.iter().find(|answer| answer.lease == lease) {
                    Some(answer) if answer.ttl_s > 0 => self.alive = sent,
                    Some(_) => self.begin_anew(),
                    None => {}
                }
            }
            (Ask::Report(it), Ok(Reply::Txn(_))) => self.reported = Some(it.1),
            (Ask::Report(_), Err(StoreError::Definite(_))) => self.begin_anew(),
            _ => {}
        }
    }

    /// The lease is gone, and with it what hung from it.
    fn begin_anew(&mut self) {
        self.lease = None;
        self.reported = None;
    }

    fn report(&self, status: &MapStatus) -> GatewayReport {
        let refused = match (&status.problem, &status.apply_problem) {
            (Some(MapProblem::Refused(refusal)), _) => Some(refusal.to_string()),
            (_, problem) => problem.clone(),
        };
        GatewayReport {
            instance: self.instance.clone(),
            peer_url: self.peer_url.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            map: status.applied,
            refused,
        }
    }
}

/// Writes the report; and the driver's key if there is none and it stands.
fn report(lease: LeaseId, report: &GatewayReport, candidacy: Candidacy) -> Txn {
    let put = |key, value| {
        TxnOp::Put(Put {
            key,
            value,
            lease: Some(lease),
        })
    };
    let driver = DriverRecord {
        instance: report.instance.clone(),
    };
    let elect = TxnOp::Txn(Txn {
        compare: vec![Compare::absent(KeyRange::one(keys::map_driver()))],
        then: vec![put(keys::map_driver(), driver.to_value())],
        or_else: Vec::new(),
    });
    let report = put(keys::map_gateway(&report.instance), report.to_value());
    let then = match candidacy {
        Candidacy::Stands => vec![report, elect],
        Candidacy::Resigned => vec![report],
    };
    Txn {
        then,
        ..Txn::default()
    }
}

const _: () = assert!(limits::REPORT_KEEPALIVE.as_ms() * 3 <= limits::REPORT_TTL.as_ms());
const _: () = assert!(Millis::from_secs(1).as_ms() <= limits::REPORT_KEEPALIVE.as_ms());
