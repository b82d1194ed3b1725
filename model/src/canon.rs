//! Many states are one: this finds those that differ in nothing that counts.
//!
//! Ids are random and revisions only compared, so which number stands for one does not matter.
//! Nothing that is gone comes back, so all that is gone is the same. Gateways are all alike, and so
//! are clients.

use crate::Ownership;
use crate::state::{
    CLIENTS_MAX, Client, ClientIx, Etcd, GATEWAYS_MAX, Gateway, GatewayIx, GroupId, GroupKey,
    GroupRef, Late, Left, LockId, Revision, Session, SessionId, SessionKey, State, Write, WriteOp,
};

const CURRENT: Revision = Revision(1);
const STALE: Revision = Revision(0);

/// A write of a session that is gone: etcd refuses it.
const REFUSED: Write = Write {
    session: SessionId::GONE,
    fence: STALE,
    lane: STALE,
    op: WriteOp::Claim {
        group: GroupRef::GONE,
    },
};

impl Ownership {
    /// The one state that stands for all those that differ in nothing that counts.
    pub(crate) fn canonical(&self, mut state: State) -> State {
        self.collapse(&mut state);
        let count = usize::from(self.bounds.gateways);
        let looks = state.gateways.map(|gateway| looks(&state, gateway));
        let orders = self.gateway_orders().iter();
        // Of gateways that look alike each may come first.
        let sorted = orders
            .filter(|order| !self.symmetry || order[..count].is_sorted_by_key(|at| &looks[*at]));
        let all = sorted.flat_map(|order| {
            let mut one = in_order(&state, order);
            let mut other = one;
            other.late.swap(0, 1);
            self.sort_clients(&mut one);
            self.sort_clients(&mut other);
            [Some(one), state.late[1].map(|_| other)]
        });
        all.flatten().map(renamed).min().unwrap_or(state)
    }

    fn gateway_orders(&self) -> &'static [[usize; GATEWAYS_MAX]] {
        const ORDERS: [[usize; GATEWAYS_MAX]; 6] = [
            [0, 1, 2],
            [1, 0, 2],
            [0, 2, 1],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        match self.bounds.gateways {
            _ if !self.symmetry => &ORDERS[..1],
            0 | 1 => &ORDERS[..1],
            2 => &ORDERS[..2],
            _ => &ORDERS,
        }
    }

    /// Whatever is not as it is in etcd is `STALE` or `GONE`.
    fn collapse(&self, state: &mut State) {
        let etcd = state.etcd;
        for gateway in &mut state.gateways {
            gateway.guard = gateway
                .guard
                .map(|seen| current(seen == etcd.guard.revision));
            if let Some(session) = &mut gateway.session {
                *session = collapsed_session(&etcd, *session);
            }
        }
        state.each_group(|group| {
            if etcd.group(*group).is_none() {
                *group = GroupRef::GONE;
            }
        });
        state.each_write(|write| self.collapse_write(&etcd, write));
        for key in state.etcd.sessions.iter_mut().flatten() {
            key.revision = CURRENT;
            key.lane = CURRENT;
        }
        state.etcd.guard.revision = CURRENT;
        state.late.sort_by_key(Option::is_none);
    }

    fn collapse_write(&self, etcd: &Etcd, write: &mut Write) {
        if self.refusal(etcd, write).is_some() {
            *write = REFUSED;
            return;
        }
        if let Some(key) = etcd.session(write.session) {
            write.fence = current(write.fence == key.revision);
            write.lane = current(write.lane == key.lane);
        }
        match &mut write.op {
            WriteOp::Grant { guard, .. } => *guard = current(*guard == etcd.guard.revision),
            WriteOp::Delete { record, .. } => {
                if etcd.record.is_none_or(|found| found.revision != *record) {
                    *record = STALE;
                }
            }
            WriteOp::Claim { .. } => {}
        }
    }

    fn sort_clients(&self, state: &mut State) {
        if self.symmetry
            && usize::from(self.bounds.clients) == CLIENTS_MAX
            && view(state, 1) < view(state, 0)
        {
            swap_clients(state);
        }
    }
}

fn in_order(state: &State, order: &[usize; GATEWAYS_MAX]) -> State {
    let mut sorted = *state;
    sorted.gateways = order.map(|at| state.gateways[at]);
    for client in &mut sorted.clients {
        if let Client::Asking(at) = client {
            let to = order.iter().position(|from| *from == usize::from(at.0));
            *at = GatewayIx(to.map_or(at.0, number));
        }
    }
    sorted
}

fn renamed(mut state: State) -> State {
    rename_sessions(&mut state);
    rename_groups(&mut state);
    rename_locks(&mut state);
    rank_tokens(&mut state);
    state
}

fn current(is: bool) -> Revision {
    if is { CURRENT } else { STALE }
}

fn collapsed_session(etcd: &Etcd, session: Session) -> Session {
    match etcd.session(session.id) {
        Some(key) => Session {
            fence: current(session.fence == key.revision),
            lane: current(session.lane == key.lane),
            ..session
        },
        None => Session {
            id: SessionId::GONE,
            fence: STALE,
            lane: STALE,
            ..session
        },
    }
}

/// What can be seen of a gateway without ids, how long its lease is, and how many late writes it has.
fn looks(state: &State, gateway: Gateway) -> (Option<(Left, usize)>, Gateway) {
    let session = gateway.session.and_then(|own| state.etcd.session(own.id));
    let record = state.etcd.record;
    let mut alone = State {
        gateways: [gateway, Gateway::DOWN, Gateway::DOWN],
        late: Default::default(),
        clients: [Client::Idle; CLIENTS_MAX],
        ..*state
    };
    alone.each_session(|id| *id = SessionId(u8::from(*id != SessionId::GONE)));
    alone.each_lock(|id| *id = LockId(u8::from(state.etcd.has_record_of(*id))));
    alone.each_client(|client| *client = ClientIx(0));
    alone.each_token(|token| *token = STALE);
    alone.each_group(|group| {
        let of_record = record.is_some_and(|record| record.group == group.id);
        group.id = GroupId(u8::from(of_record));
        group.revision = STALE;
    });
    let own = |late: &Option<Late>| {
        matches!(late, Some(Late::Write(write))
        if session.is_some_and(|key| key.id == write.session))
    };
    let own_late = state.late.iter().filter(|late| own(late)).count();
    let lease = session.map(|key| (key.left, own_late));
    (lease, alone.gateways[0])
}

/// What can be seen of a client without ids, and where it and its lock are named.
fn view(state: &State, client: usize) -> (Client, u32, u32) {
    let mut seen = *state;
    let (mut named, mut named_lock) = (0, 0);
    seen.each_client(|ix| named = named << 1 | u32::from(usize::from(ix.0) == client));
    let mut believes = state.clients[client];
    seen.clients = [Client::Idle; CLIENTS_MAX];
    if let Client::Holding { lock, .. } | Client::Releasing { lock } = &mut believes {
        seen.each_lock(|known| named_lock = named_lock << 1 | u32::from(known == lock));
        *lock = LockId(0);
    }
    (believes, named, named_lock)
}

fn swap_clients(state: &mut State) {
    state.clients.swap(0, 1);
    state.each_client(|client| client.0 = 1 - client.0);
}

/// Numbers those of the gateways in their order, then those of gateways that died.
fn rename_sessions(state: &mut State) {
    let mut keys = state.etcd.sessions;
    keys.sort_by_cached_key(|key| (key.is_none(), key.map(|key| session_order(state, &key))));
    let found = |id| keys.iter().flatten().position(|key| key.id == id);
    let id = |at| SessionId(number(at) + 1);
    state.each_session(|session| *session = found(*session).map_or(SessionId::GONE, id));
    for (at, key) in keys.iter_mut().enumerate() {
        if let Some(key) = key {
            key.id = id(at);
        }
    }
    state.etcd.sessions = keys;
}

fn session_order(state: &State, key: &SessionKey) -> impl Ord + use<> {
    let own = |gateway: &Gateway| gateway.session.is_some_and(|own| own.id == key.id);
    let believed = state.gateways.iter().position(own).unwrap_or(GATEWAYS_MAX);
    let record = state.etcd.record.map(|record| record.group);
    let mut groups = state.etcd.groups.iter().flatten();
    let owns = groups.any(|group| group.session == key.id && Some(group.id) == record);
    let writes = state
        .late
        .map(|late| matches!(late, Some(Late::Write(write)) if write.session == key.id));
    (believed, key.left, owns, writes)
}

fn rename_groups(state: &mut State) {
    let mut keys = state.etcd.groups;
    let order = |key: GroupKey| (key.session, key.claimed);
    keys.sort_by_key(|key| (key.is_none(), key.map(order)));
    let found = |id| keys.iter().flatten().position(|key| key.id == id);
    let id = |at| GroupId(number(at) + 1);
    state.each_group(|group| {
        *group = found(group.id).map_or(GroupRef::GONE, |at| GroupRef {
            id: id(at),
            revision: CURRENT,
        });
    });
    if let Some(record) = &mut state.etcd.record {
        record.group = found(record.group).map_or(GroupId::GONE, id);
    }
    for (at, key) in keys.iter_mut().enumerate() {
        if let Some(key) = key {
            key.id = id(at);
            key.revision = CURRENT;
        }
    }
    state.etcd.groups = keys;
}

/// Numbers them in the order in which they stand in the state.
fn rename_locks(state: &mut State) {
    const LOCKS_MAX: usize = 2 * GATEWAYS_MAX + CLIENTS_MAX + 8;
    let mut seen = [LockId(0); LOCKS_MAX];
    let mut count = 0;
    state.each_lock(|lock| {
        let known = seen[..count].iter().position(|known| known == lock);
        let at = known.unwrap_or_else(|| {
            seen[count] = *lock;
            count += 1;
            count - 1
        });
        *lock = LockId(number(at) + 1);
    });
}

/// Keeps the order of tokens, and nothing else of them.
fn rank_tokens(state: &mut State) {
    let bit = |token: &Revision| 1_u128 << token.0.min(127);
    let mut known = 0;
    state.each_token(|token| known |= bit(token));
    state.each_token(|token| {
        if *token != STALE {
            let below = known & (bit(token) - 1) & !1;
            *token = Revision(u8::try_from(below.count_ones() + 1).unwrap_or(u8::MAX));
        }
    });
}

fn number(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::Action;
    use crate::bounds::{Bounds, Often};
    use crate::steps::Step;
    use stateright::Model;

    const WALKS: u64 = 300;
    const STEPS: usize = 60;

    fn model(symmetry: bool) -> Ownership {
        Ownership {
            bounds: Bounds {
                late_writes: 2,
                wrong_revokes: Often::Always,
                kills: Often::Always,
                guard_changes: Often::Always,
                ..Bounds::default()
            },
            mutation: None,
            symmetry,
        }
    }

    /// States on random ways, as they are before they are made canonical.
    fn each_raw_state(mut look: impl FnMut(State)) {
        let model = model(false);
        for walk in 0..WALKS {
            let mut random = walk.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut state = model.init_states()[0];
            for _ in 0..STEPS {
                let mut actions = Vec::new();
                model.actions(&state, &mut actions);
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let at = usize::try_from(random >> 8).unwrap() % actions.len();
                state = Step::after(&model, &state, actions[at]);
                look(state);
            }
        }
    }

    /// The different states after one step.
    fn after(model: &Ownership, state: &State) -> Vec<String> {
        let mut actions: Vec<Action> = Vec::new();
        model.actions(state, &mut actions);
        let next = actions
            .into_iter()
            .map(|action| model.canonical(Step::after(model, state, action)));
        let mut next: Vec<_> = next.map(|state| format!("{state:?}")).collect();
        next.sort();
        next.dedup();
        next
    }

    #[test]
    fn a_canonical_state_goes_on_like_the_one_it_stands_for() {
        for symmetry in [false, true] {
            let model = model(symmetry);
            each_raw_state(|raw| {
                let canonical = model.canonical(raw);
                let (a, b) = (after(&model, &raw), after(&model, &canonical));
                let x: Vec<_> = a.iter().filter(|s| !b.contains(s)).collect();
                let y: Vec<_> = b.iter().filter(|s| !a.contains(s)).collect();
                assert!(
                    x.is_empty() && y.is_empty(),
                    "RAW {raw:?}\nCAN {canonical:?}\nx {x:#?} y {y:#?}"
                );
            });
        }
    }

    #[test]
    fn a_canonical_state_breaks_what_the_one_it_stands_for_breaks() {
        let model = model(true);
        each_raw_state(|raw| {
            let canonical = model.canonical(raw);
            for property in model.properties() {
                let found = [raw, canonical].map(|state| (property.condition)(&model, &state));
                assert_eq!(found[0], found[1], "{}: {raw:?}", property.name);
            }
        });
    }

    #[test]
    fn what_is_canonical_stays_as_it_is() {
        let model = model(true);
        each_raw_state(|raw| {
            let canonical = model.canonical(raw);
            assert_eq!(model.canonical(canonical), canonical);
        });
    }

    #[test]
    fn gateways_and_clients_that_change_places_make_the_same_state() {
        let model = model(true);
        each_raw_state(|raw| {
            let mut mirrored = raw;
            mirrored.gateways.swap(0, 1);
            for client in &mut mirrored.clients {
                if let Client::Asking(at) = client {
                    at.0 = 1 - at.0;
                }
            }
            swap_clients(&mut mirrored);
            assert_eq!(model.canonical(mirrored), model.canonical(raw), "{raw:?}");
        });
    }
}
