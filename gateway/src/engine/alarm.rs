//! etcd's space alarm. Batches are nested transactions, which etcd's quota check passes, so a
//! gateway looks at the alarm itself before it grants: an etcd without space must go on taking
//! releases and takeovers, and nothing else.

use crate::engine::Engine;
use crate::engine::calls::Purpose;
use crate::engine::later::Task;
use crate::limits;
use crate::time::Instant;
use holdfast_store::{Alarm, Op, Reply, StoreError};

/// What is known of the alarm. It is looked at only while there are acquires.
#[derive(Debug, Default)]
pub(crate) struct AlarmWatch {
    read_at: Option<Instant>,
    asked: bool,
    /// Not before this, after a failure.
    ask_next: Instant,
    no_space: bool,
}

/// Whether grants may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Left,
    UsedUp,
    /// The alarm is being looked at.
    Unknown,
}

impl Engine {
    pub(crate) fn space(&mut self) -> Space {
        let age = self.alarm.read_at.map(|read_at| self.now.since(read_at));
        if age.is_none_or(|age| age >= limits::ALARM_INTERVAL)
            && !self.alarm.asked
            && self.now >= self.alarm.ask_next
        {
            self.alarm.asked = true;
            self.call(Op::Alarms, limits::CALL_TIMEOUT, Purpose::Alarms);
        }
        match age {
            None => Space::Unknown,
            // An alarm is looked at again before anybody is refused because of it.
            Some(age) if self.alarm.no_space && age >= limits::ALARM_INTERVAL => Space::Unknown,
            Some(_) if self.alarm.no_space => Space::UsedUp,
            Some(_) => Space::Left,
        }
    }

    pub(crate) fn on_alarms(&mut self, result: Result<Reply, StoreError>) {
        self.alarm.asked = false;
        if let Ok(Reply::Alarms { alarms, .. }) = result {
            self.alarm.read_at = Some(self.now);
            self.alarm.no_space = alarms.contains(&Alarm::NoSpace);
        } else {
            self.alarm.ask_next = self.now + limits::RETRY_BACKOFF;
            self.do_later(limits::RETRY_BACKOFF, Task::Resume);
        }
    }
}
