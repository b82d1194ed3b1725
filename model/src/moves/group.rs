//! The group's move, step by step, and what a claim makes of it.

use super::Moves;
use super::mutation::Mutation;
use super::rollout::GuardState;
use super::state::{
    ClusterIx, Course, Gateway, GatewayIx, GroupKey, HoldState, Lease, Origin, Owner, Record, Slot,
    State, Table, Write,
};

impl Moves {
    /// Its cluster is being left for one that admits groups from there, or did when a gateway read its
    /// guard. Without the second half a group would move to and fro while both guards are leaving, in the
    /// middle of a rollback.
    pub(crate) fn may_leave(&self, state: &State, gateway: GatewayIx) -> bool {
        let own = state.gateway(gateway);
        own.table.is_some_and(|table| {
            let (here, there) = (table.at, table.at.other());
            let guard = state.cluster(here).guard;
            own.course == Course::Stays
                && table.key.from == Origin::Nowhere
                && table.key.to.is_none()
                && state.session_lives(gateway, here)
                && state.session_lives(gateway, there)
                && guard.is_some_and(|guard| guard.state != GuardState::Active)
                && state.cluster(there).admitting.is_some()
        })
    }

    pub(crate) fn leave(&self, state: &mut State, gateway: GatewayIx) {
        let Some(table) = state.gateway(gateway).table else {
            return;
        };
        let (here, there) = (table.at, table.at.other());
        if let (Some(guard), Some(admitting), Some(lease)) = (
            state.cluster(here).guard,
            state.cluster(there).admitting,
            state.fresh_lease(),
        ) {
            state.cluster_mut(there).leases.add(lease);
            state.gateway_mut(gateway).course = Course::Leased {
                guard,
                admitting,
                lease,
            };
        }
    }

    /// The owner's next write, and where it goes.
    pub(crate) fn next_write(
        &self,
        state: &State,
        gateway: GatewayIx,
    ) -> Option<(ClusterIx, Write)> {
        let own = state.gateway(gateway);
        let table = own.table?;
        let (at, write) = self.wanted(state, gateway, own.course, &table)?;
        state.session_lives(gateway, at).then_some((at, write))
    }

    fn wanted(
        &self,
        state: &State,
        gateway: GatewayIx,
        course: Course,
        table: &Table,
    ) -> Option<(ClusterIx, Write)> {
        let (here, there) = (table.at, table.at.other());
        let rekey = |new: GroupKey| {
            (
                here,
                Write::Replace {
                    old: table.key,
                    new,
                },
            )
        };
        let delete = |hold| {
            (
                here,
                Write::Delete {
                    key: table.key,
                    hold,
                },
            )
        };
        match (course, table.slot) {
            (Course::Stays | Course::Leased { .. } | Course::Marked { .. }, Slot::Ending(hold)) => {
                Some(delete(hold))
            }
            // No copy was sent, so none can arrive; or the lease that it hung from is revoked.
            (Course::Put { .. } | Course::Unmarking, Slot::Ending(hold)) => Some(delete(hold)),
            (Course::Stays, _) => match table.key.from {
                Origin::Arriving(lease) if !state.cluster(there).leases.has(lease) => {
                    Some(rekey(GroupKey {
                        from: Origin::Arrived(lease),
                        ..table.key
                    }))
                }
                Origin::Arrived(lease) if !state.cluster(there).leases.has(lease) => {
                    Some(rekey(GroupKey {
                        from: Origin::Nowhere,
                        ..table.key
                    }))
                }
                _ => None,
            },
            (Course::Leased { lease, .. }, _) => Some(rekey(GroupKey {
                to: Some(lease),
                ..table.key
            })),
            (
                Course::Marked {
                    lease, admitting, ..
                },
                _,
            ) => {
                let life = state.gateway(gateway).life(there);
                let new = GroupKey {
                    owner: Owner { gateway, life },
                    lease,
                    to: None,
                    from: Origin::Arriving(table.key.lease),
                };
                Some((there, Write::Put { new, admitting }))
            }
            (Course::Put { there: key, .. }, Slot::Held(hold)) => {
                let record = Record {
                    hold,
                    lease: key.lease,
                };
                Some((there, Write::Copy { key, record }))
            }
            (
                Course::Copied {
                    there: key,
                    copy: true,
                    ..
                },
                Slot::Ending(hold),
            ) if !self.mutated(Mutation::ReleaseWithoutChase) => {
                Some((there, Write::Delete { key, hold }))
            }
            (Course::Copied { .. }, Slot::Ending(hold)) => Some(delete(hold)),
            (Course::Copied { copy: true, .. }, Slot::Held(hold))
                if self.mutated(Mutation::SwitchAfterDelete)
                    && state
                        .cluster(here)
                        .record
                        .is_some_and(|record| record.hold == hold) =>
            {
                Some(delete(hold))
            }
            (Course::Copied { guard, .. }, _) => Some((
                here,
                Write::Switch {
                    key: table.key,
                    guard,
                },
            )),
            (Course::Unmarking, _) => Some(rekey(GroupKey {
                to: None,
                ..table.key
            })),
            (Course::Undoing { .. }, _) if self.mutated(Mutation::UnmarkBeforeRevoke) => {
                (table.key.to.is_some()).then(|| {
                    rekey(GroupKey {
                        to: None,
                        ..table.key
                    })
                })
            }
            (Course::Put { .. } | Course::Undoing { .. }, _) => None,
        }
    }

    /// What the owner makes of the answer to its write.
    pub(crate) fn learn(&self, state: &mut State, gateway: GatewayIx, write: Write, done: bool) {
        let own = state.gateway_mut(gateway);
        let (course, Some(mut table)) = (own.course, own.table) else {
            return;
        };
        match (write, course) {
            (Write::Replace { new, .. }, _) if done => {
                table.key = new;
                own.course = match course {
                    Course::Leased {
                        guard,
                        admitting,
                        lease,
                    } => Course::Marked {
                        guard,
                        admitting,
                        lease,
                    },
                    Course::Unmarking => Course::Stays,
                    course => course,
                };
            }
            (Write::Put { new, .. }, Course::Marked { guard, .. }) if done => {
                own.course = Course::Put { guard, there: new };
            }
            (Write::Copy { .. }, Course::Put { guard, there }) if done => {
                own.course = Course::Copied {
                    guard,
                    there,
                    copy: true,
                };
            }
            (Write::Switch { .. }, Course::Copied { there, .. }) if done => {
                table.at = table.at.other();
                table.key = there;
                own.course = Course::Stays;
            }
            (
                Write::Put {
                    new: GroupKey { lease, .. },
                    ..
                },
                _,
            ) => own.course = Course::Undoing { lease },
            (Write::Copy { key, .. }, _) => own.course = Course::Undoing { lease: key.lease },
            (Write::Switch { .. }, Course::Copied { there, .. }) => {
                own.course = Course::Undoing { lease: there.lease };
            }
            (Write::Delete { hold, .. }, _) => {
                own.table = Some(table);
                return self.deleted(state, gateway, hold, done);
            }
            // The group's key is not as it was: the session must be gone, which is learned next.
            _ => {}
        }
        own.table = Some(table);
        self.settle_copy(state, gateway);
    }

    fn deleted(
        &self,
        state: &mut State,
        gateway: GatewayIx,
        hold: super::state::HoldIx,
        done: bool,
    ) {
        let own = state.gateway_mut(gateway);
        let (Some(table), true) = (&mut own.table, done) else {
            return;
        };
        match (own.course, table.slot) {
            (
                Course::Copied {
                    guard,
                    there,
                    copy: true,
                },
                Slot::Ending(_),
            ) if !self.mutated(Mutation::ReleaseWithoutChase) => {
                own.course = Course::Copied {
                    guard,
                    there,
                    copy: false,
                };
            }
            (_, Slot::Ending(_)) => {
                table.slot = Slot::Free;
                state.set_hold(hold, HoldState::Ended);
            }
            // The mistake of deleting before the switch.
            _ => {}
        }
        self.settle_copy(state, gateway);
    }

    /// Where there is nothing to copy, the copy is done. And a mistake: the new place serves now.
    fn settle_copy(&self, state: &mut State, gateway: GatewayIx) {
        let own = state.gateway_mut(gateway);
        let Some(table) = &mut own.table else { return };
        if let (Course::Put { guard, there }, Slot::Free) = (own.course, table.slot) {
            own.course = Course::Copied {
                guard,
                there,
                copy: false,
            };
        }
        if let (Course::Copied { there, .. }, true) =
            (own.course, self.mutated(Mutation::ServeBeforeSwitch))
        {
            (table.at, table.key) = (table.at.other(), there);
            own.course = Course::Stays;
        }
    }

    /// The lease in the other cluster, when the move is taken back.
    pub(crate) fn lease_to_revoke(&self, own: &Gateway) -> Option<Lease> {
        let unmarked = own.table.is_some_and(|table| table.key.to.is_none());
        match own.course {
            Course::Undoing { lease } => {
                (!self.mutated(Mutation::UnmarkBeforeRevoke) || unmarked).then_some(lease)
            }
            _ => None,
        }
    }

    pub(crate) fn revoke_there(&self, state: &mut State, gateway: GatewayIx) {
        let own = state.gateway(gateway);
        let (Some(lease), Some(table)) = (self.lease_to_revoke(own), own.table) else {
            return;
        };
        state.cluster_mut(table.at.other()).revoke(lease);
        state.gateway_mut(gateway).course = match table.key.to {
            Some(_) => Course::Unmarking,
            None => Course::Stays,
        };
    }

    /// A session has ended: the table that rested on it is given up; a move into its cluster is taken
    /// back.
    pub(crate) fn give_up(&self, state: &mut State, gateway: GatewayIx, at: ClusterIx) {
        let gone = state.cluster(at).group.is_none();
        let own = state.gateway_mut(gateway);
        let unheard = own.unheard.take();
        let Some(table) = own.table else { return };
        let switched = unheard.is_some_and(|unheard| matches!(unheard.write, Write::Switch { .. }));
        if switched && gone && self.mutated(Mutation::AbsenceTakenAsMine) {
            let Course::Copied { there, .. } = own.course else {
                return;
            };
            own.table = Some(Table {
                at: at.other(),
                key: there,
                ..table
            });
            own.course = Course::Stays;
        } else if table.at == at {
            (own.table, own.course) = (None, Course::Stays);
        } else {
            own.course = match own.course {
                Course::Leased { lease, .. } | Course::Marked { lease, .. } => {
                    Course::Undoing { lease }
                }
                Course::Put { there, .. } | Course::Copied { there, .. } => {
                    Course::Undoing { lease: there.lease }
                }
                course => course,
            };
        }
    }

    /// A group without a session, or under the gateway's own session without a table.
    pub(crate) fn may_claim(&self, state: &State, gateway: GatewayIx, at: ClusterIx) -> bool {
        let own = state.gateway(gateway);
        let Some(key) = state.cluster(at).group else {
            return false;
        };
        let source_is_there = state.cluster(at.other()).group.is_some();
        let blocked = matches!(key.from, Origin::Arriving(_))
            && source_is_there
            && !self.mutated(Mutation::ClaimWhileSourceIsThere);
        let is_own = key.owner.gateway == gateway && key.owner.life == own.life(at);
        let orphan = !state.owner_lives(&key, at) || is_own;
        own.table.is_none() && own.unheard.is_none() && orphan && !blocked
    }

    pub(crate) fn claim(&self, state: &mut State, gateway: GatewayIx, at: ClusterIx) {
        let life = state.gateway(gateway).life(at);
        let beside = state.cluster(at.other()).group;
        let (guard, record) = (state.cluster(at).guard, state.cluster(at).record);
        let Some(key) = &mut state.cluster_mut(at).group else {
            return;
        };
        key.owner = Owner { gateway, life };
        let key = *key;
        let held = record.filter(|record| record.lease == key.lease);
        let slot = held.map_or(Slot::Free, |record| Slot::Held(record.hold));
        let course = match (key.to, beside, guard) {
            (None, ..) => Course::Stays,
            (Some(lease), Some(there), Some(guard))
                if there.lease == lease && self.mutated(Mutation::FinishOnAnothersLease) =>
            {
                Course::Copied {
                    guard,
                    there,
                    copy: false,
                }
            }
            (Some(lease), ..) => Course::Undoing { lease },
        };
        let own = state.gateway_mut(gateway);
        own.table = Some(Table { at, key, slot });
        own.course = course;
    }
}
