//! What clients ask for, and what they are told.
//!
//! A promise counts from the moment at which the gateway answers. A client counts from an earlier
//! one, when it sent the request, and hears the answer at a later one: it holds a part of what is
//! counted here.

use crate::actions::Heard;
use crate::mutation::Mutation;
use crate::state::{Call, Client, ClientIx, GatewayIx, Hold, Left, LockId, Slot, Write, WriteOp};
use crate::steps::Step;

impl Step<'_> {
    pub(super) fn grant(&mut self, at: GatewayIx, client: ClientIx) {
        let gateway = *self.state.gateway(at);
        let (Some(session), Some(guard)) = (gateway.session, gateway.guard) else {
            return;
        };
        let lock = self.state.new_lock();
        let left = self.model.bounds.lock_ttl;
        self.gateway(at).slot = Slot::Pending { lock, client, left };
        self.gateway(at).call = Call::Sent(Write {
            session: session.id,
            fence: session.fence,
            lane: session.lane,
            op: WriteOp::Grant {
                lock,
                client,
                guard,
                group: session.group,
            },
        });
        *self.client(client) = Client::Asking(at);
    }

    pub(super) fn enter_again(&mut self, at: GatewayIx, client: ClientIx) {
        if let Slot::Held(hold) = self.state.gateway(at).slot {
            self.extend(at, hold);
            self.tell_grant(at, hold, client, self.model.bounds.lock_ttl);
        }
    }

    pub(super) fn give_up(&mut self, client: ClientIx) {
        *self.client(client) = Client::Idle;
    }

    pub(super) fn forget(&mut self, client: ClientIx) {
        *self.client(client) = Client::Idle;
    }

    pub(super) fn renew(&mut self, at: GatewayIx, client: ClientIx, heard: Heard) {
        let gateway = *self.state.gateway(at);
        let Client::Holding { lock, .. } = self.state.client(client) else {
            return;
        };
        let proven = !gateway.proof.is_over();
        match gateway.slot {
            Slot::Held(hold) if hold.lock == lock => {
                if !proven && !self.mutated(Mutation::PromiseUnproven) {
                    return;
                }
                if !hold.left.is_over() {
                    self.extend(at, hold);
                    self.tell_renewed(at, client, lock, heard);
                } else if self.mutated(Mutation::ExpiryUnconfirmed) {
                    self.tell_lost(client, lock, heard);
                }
            }
            Slot::Ending(hold) if hold.lock == lock => {
                if proven && self.mutated(Mutation::EndingRevived) {
                    self.extend(at, hold);
                    self.tell_renewed(at, client, lock, heard);
                }
            }
            _ => {
                let miss_is_lost = self.mutated(Mutation::MissTakenAsLost);
                if self.is_not_held(at, lock) || miss_is_lost {
                    self.tell_lost(client, lock, heard);
                }
            }
        }
    }

    pub(super) fn release(&mut self, at: GatewayIx, client: ClientIx) {
        let gateway = *self.state.gateway(at);
        let (Client::Holding { lock, .. } | Client::Releasing { lock }) = self.state.client(client)
        else {
            return;
        };
        *self.client(client) = Client::Releasing { lock };
        if gateway.proof.is_over() {
            return;
        }
        match gateway.slot {
            Slot::Held(hold) if hold.lock == lock => {
                self.end_hold(at);
                if self.mutated(Mutation::ReleaseUnconfirmed) {
                    self.tell_released(lock);
                }
            }
            Slot::Ending(hold) if hold.lock == lock => {}
            _ => {
                if self.is_not_held(at, lock) {
                    self.tell_released(lock);
                }
            }
        }
    }

    /// A cold look-up says for certain that the lock is not held: its record is not there, and the
    /// guard says that it would be here.
    fn is_not_held(&self, at: GatewayIx, lock: LockId) -> bool {
        let gateway = self.state.gateway(at);
        !gateway.proof.is_over()
            && gateway.loading.is_none()
            && self.state.etcd.guard.active
            && !self.state.etcd.has_record_of(lock)
    }

    /// Moves the deadline of a hold, never back.
    fn extend(&mut self, at: GatewayIx, hold: Hold) {
        let ttl = self.model.bounds.lock_ttl;
        let left = match self.mutated(Mutation::DeadlineMovesBack) {
            true => ttl,
            false => hold.left.max(ttl),
        };
        self.gateway(at).slot = Slot::Held(Hold { left, ..hold });
    }

    /// A 200 to an acquire: the client holds the lock for so long.
    pub(super) fn tell_grant(&mut self, at: GatewayIx, hold: Hold, client: ClientIx, left: Left) {
        let Hold { lock, token, .. } = hold;
        let record = self.state.etcd.record;
        let own_token = record.is_none_or(|record| record.lock != lock || record.revision == token);
        self.state.broken.fence |= token < self.state.newest_told || !own_token;
        self.state.newest_told = self.state.newest_told.max(token);
        self.check_held(at, lock);
        *self.client(client) = Client::Holding { lock, left };
    }

    /// A 200 to a renewal: the client holds the lock for a TTL from now.
    fn tell_renewed(&mut self, at: GatewayIx, client: ClientIx, lock: LockId, heard: Heard) {
        self.check_held(at, lock);
        if heard == Heard::Yes {
            let left = self.model.bounds.lock_ttl;
            *self.client(client) = Client::Holding { lock, left };
        }
    }

    /// What is told is proven, and true.
    fn check_held(&mut self, at: GatewayIx, lock: LockId) {
        self.state.broken.proof |= self.state.gateway(at).proof.is_over();
        self.state.broken.one_answer |= !self.state.etcd.has_record_of(lock);
    }

    /// A 409: the hold is over.
    fn tell_lost(&mut self, client: ClientIx, lock: LockId, heard: Heard) {
        let promised = self.state.client(client).promised() == Some(lock);
        self.state.broken.one_answer |= promised || self.state.etcd.has_record_of(lock);
        if heard == Heard::Yes {
            *self.client(client) = Client::Idle;
        }
    }

    /// A 204, to whoever waits for the end of this lock.
    pub(super) fn tell_released(&mut self, lock: LockId) {
        let held = self.state.etcd.has_record_of(lock);
        for client in &mut self.state.clients {
            if *client == (Client::Releasing { lock }) {
                self.state.broken.one_answer |= held;
                *client = Client::Idle;
            }
        }
    }

    /// Those who wait for this gateway's answer get none.
    pub(super) fn fail_asking(&mut self, at: GatewayIx) {
        for client in &mut self.state.clients {
            if *client == Client::Asking(at) {
                *client = Client::Idle;
            }
        }
    }
}
