//! What is over and can make no difference any more.

use crate::Ownership;
use crate::state::{GroupKey, Late, SessionKey, State};

impl Ownership {
    /// Forgets what a late write would do where etcd refuses it. Drops the keys of claimed groups without a record, which their owner retires; of other
    /// groups without one whose session is gone, which an heir retires; and of sessions that no
    /// gateway believes in, that own no record, and for which no write is under way.
    pub(crate) fn forget_what_is_over(&self, state: &mut State) {
        for late in state.late.iter_mut().flatten() {
            if let Late::Write(write) = late
                && let Some(refusal) = self.refusal(&state.etcd, write)
            {
                *late = Late::Refused(refusal);
            }
        }
        let before = *state;
        for session in &mut state.etcd.sessions {
            session.take_if(|key| !before.needs_session(key));
        }
        let after = *state;
        for group in &mut state.etcd.groups {
            group.take_if(|key| !after.needs_group(key));
        }
    }
}

impl State {
    fn needs_session(mut self, key: &SessionKey) -> bool {
        let record = self.etcd.record.map(|record| record.group);
        let mut groups = self.etcd.groups.iter().flatten();
        let mut writes = false;
        let owns = groups.any(|group| group.session == key.id && Some(group.id) == record);
        let believed = self
            .gateways
            .iter()
            .any(|gateway| gateway.session.is_some_and(|session| session.id == key.id));
        self.each_write(|write| writes |= write.session == key.id);
        owns || believed || writes
    }

    fn needs_group(&self, key: &GroupKey) -> bool {
        let used = self
            .etcd
            .record
            .is_some_and(|record| record.group == key.id);
        used || (!key.claimed && self.etcd.session(key.session).is_some())
    }
}
