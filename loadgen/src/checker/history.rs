//! The last things that happened to one lock, eight bytes each.

use crate::outcome::{Op, Outcome};
use serde::{Deserialize, Serialize};

/// One answered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// When it was sent, in milliseconds since the run began.
    pub(crate) sent_ms: u32,
    /// How long the answer took, in milliseconds; the largest number stands for more.
    pub(crate) took_ms: u16,
    /// What was asked.
    pub(crate) op: Op,
    /// What came of it.
    pub(crate) outcome: Outcome,
}

/// An [`Event`] in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryLine {
    /// When it was sent, in milliseconds since the run began.
    pub(crate) sent_ms: u32,
    /// How long the answer took, in milliseconds.
    pub(crate) took_ms: u16,
    /// What was asked.
    pub(crate) op: String,
    /// What came of it.
    pub(crate) outcome: String,
}

/// The last [`History::LEN`] events.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    events: [Option<Event>; History::LEN],
    next: u8,
}

impl History {
    const LEN: usize = 4;

    pub(crate) fn push(&mut self, event: Event) {
        let next = usize::from(self.next) % Self::LEN;
        self.events[next] = Some(event);
        self.next = self.next.wrapping_add(1);
    }

    /// Oldest first.
    pub(crate) fn lines(&self) -> Vec<HistoryLine> {
        let next = usize::from(self.next) % Self::LEN;
        let (newer, older) = self.events.split_at(next);
        let in_order = older.iter().chain(newer).flatten();
        in_order
            .map(|event| HistoryLine {
                sent_ms: event.sent_ms,
                took_ms: event.took_ms,
                op: event.op.name().to_owned(),
                outcome: event.outcome.name().to_owned(),
            })
            .collect()
    }
}

const _: () = assert!(size_of::<Option<Event>>() == 8);
const _: () = assert!(256 % History::LEN == 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_keeps_the_last_four_in_order() {
        let mut history = History::default();
        assert!(history.lines().is_empty());
        for sent_ms in 0..1001 {
            history.push(Event {
                sent_ms,
                took_ms: 1,
                op: Op::Renew,
                outcome: Outcome::RENEWED,
            });
            let lines = history.lines();
            let sent: Vec<_> = lines.iter().map(|line| line.sent_ms).collect();
            let expected: Vec<_> = (sent_ms.saturating_sub(3)..=sent_ms).collect();
            assert_eq!(sent, expected);
        }
    }
}
