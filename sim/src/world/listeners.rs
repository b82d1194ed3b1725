//! What a gateway's listener for other gateways does: the shell around [`Course::of_forwarded`].

use super::{Asker, Open, World};
use crate::clock::Shows as _;
use crate::gateway::EngineAt;
use crate::network::{LineNo, Parcel, Way};
use holdfast_api::ErrorCode;
use holdfast_gateway::engine::{Answer, Course, Hop, Input, Ticket};
use holdfast_gateway::peer::{Call, CallNo, Frame, Left, Said};
use holdfast_gateway::service::{Forward, ForwardOutcome, ServiceError};
use holdfast_gateway::time::Millis;

impl World {
    pub(super) fn frame_comes(&mut self, no: LineNo, parcel: Parcel) {
        match parcel {
            Parcel::Frame(Frame::Calls(calls)) => {
                if self.network.get(no).is_none_or(|line| !line.is_open) {
                    let count = calls.len() as u64;
                    self.figures
                        .events_add("forwards that nobody waits for", count);
                }
                calls.iter().for_each(|call| self.serve_call(no, call));
            }
            Parcel::Frame(Frame::Ping) => self.push(no, Way::Back, Parcel::Frame(Frame::Pong)),
            Parcel::Frame(Frame::Left(left)) => self.inherit(no, left),
            Parcel::Frame(Frame::Pong | Frame::Answers(_)) | Parcel::End => {}
        }
    }

    fn inherit(&mut self, no: LineNo, left: Left) {
        let Some(gateway) = self.network.get(no).map(|line| line.to) else {
            return;
        };
        let (cluster, heritage) = left.heritage();
        let mut engines = self.engines_of(gateway).into_iter();
        let tasks = &self.gateways[gateway].engines;
        if let Some(at) = engines.find(|at| *tasks[at.cluster].cluster == *cluster) {
            self.figures.event("groups that were left arrive");
            self.give(at, Input::Heritage(heritage));
        }
    }

    /// A gateway's listener has a call.
    fn serve_call(&mut self, line: LineNo, call: &Call) {
        let Some(gateway) = self.network.get(line).map(|line| line.to) else {
            return;
        };
        let no = call.no;
        let Some(forward) = call.forward() else {
            unreachable!("no client of this world forges a lock id");
        };
        let process = &self.gateways[gateway];
        let shown = process.clock.instant(self.now);
        match Course::of_forwarded(&process.table, shown, &forward) {
            Course::Answer(outcome) => self.answer_call(line, no, outcome),
            Course::Engine(hop) => self.ask_engine_for_call(line, no, hop, forward),
            Course::Owner(_) => unreachable!("what was forwarded goes no further"),
        }
    }

    fn ask_engine_for_call(&mut self, line: LineNo, no: CallNo, hop: Hop, forward: Forward) {
        let Some(gateway) = self.network.get(line).map(|line| line.to) else {
            return;
        };
        let shard = Self::shard_of_name(forward.lock_id().name());
        let cluster = self.cluster_at(gateway, shard, Some(forward.lock_id()));
        let process = &self.gateways[gateway];
        let shown = process.clock.instant(self.now);
        if !process.engines[cluster].proof.is_proven(shown) {
            let outcome = ForwardOutcome::Failed(unproven());
            return self.answer_call(line, no, outcome);
        }
        let at = EngineAt {
            gateway,
            cluster,
            life: process.life,
        };
        let ticket = Ticket(self.number());
        let open = Open {
            asker: Asker::Peer(line, no),
            at,
            arrived: self.now,
        };
        self.open.insert(ticket, open);
        self.give(at, hop.input(ticket, shard, forward));
    }

    pub(super) fn call_answered(&mut self, line: LineNo, no: CallNo, answer: Answer) {
        let Some(outcome) = answer.into_forwarded() else {
            unreachable!("acquires are not forwarded");
        };
        self.answer_call(line, no, outcome);
    }

    fn answer_call(&mut self, line: LineNo, no: CallNo, outcome: ForwardOutcome) {
        self.figures.event(match &outcome {
            ForwardOutcome::Renew(_) => "forwards answered: renewals",
            ForwardOutcome::Release(_) => "forwards answered: releases",
            ForwardOutcome::Close(_) => "forwards answered: force-releases",
            ForwardOutcome::NotTheirs => "forwards answered: not mine",
            ForwardOutcome::Failed(_) => "forwards answered: not known",
        });
        let frame = Frame::Answers(vec![(no, Said::from(outcome))]);
        self.push(line, Way::Back, Parcel::Frame(frame));
    }
}

fn unproven() -> ServiceError {
    ServiceError {
        code: ErrorCode::ClusterUnavailable,
        detail: "unproven",
        retry_after: Millis::from_ms(500),
        cluster: None,
    }
}
