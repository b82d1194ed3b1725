//! Things that are due at odd moments: retries, polls, errands.

use crate::outcome::Op;
use holdfast_client::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One lock's part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    /// When it should have been sent at first; latency counts from here.
    pub(crate) intended: Instant,
    /// Which of the worker's locks.
    pub(crate) lock: u32,
    /// Which of the lock's holds, so that a late answer is not taken for one to a later hold.
    pub(crate) generation: u16,
    /// How many tries came before.
    pub(crate) tries: u8,
    /// What is asked.
    pub(crate) op: Op,
}

impl Item {
    /// The same, once more.
    pub(crate) fn again(self) -> Self {
        Self {
            tries: self.tries.saturating_add(1),
            ..self
        }
    }
}

/// Items by the moment at which they are due.
#[derive(Debug, Default)]
pub(crate) struct DueHeap {
    heap: BinaryHeap<Reverse<(Instant, Item)>>,
}

impl DueHeap {
    pub(crate) fn push(&mut self, due: Instant, item: Item) {
        self.heap.push(Reverse((due, item)));
    }

    /// When the first is due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((due, _))| *due)
    }

    /// The first, if it is due, and if it is of this kind where one is wanted.
    pub(crate) fn take(&mut self, now: Instant, wanted: Option<Op>) -> Option<Item> {
        let Reverse((due, item)) = self.heap.peek()?;
        if *due > now || wanted.is_some_and(|wanted| wanted != item.op) {
            return None;
        }
        self.heap.pop().map(|Reverse((_, item))| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(lock: u32, op: Op) -> Item {
        Item {
            intended: Instant::ZERO,
            lock,
            generation: 0,
            tries: 0,
            op,
        }
    }

    #[test]
    fn the_earliest_comes_first_and_none_before_its_time() {
        let mut heap = DueHeap::default();
        let ms = |ms: u64| Instant::from_micros(ms * 1000);
        heap.push(ms(20), item(2, Op::Renew));
        heap.push(ms(10), item(1, Op::Renew));
        heap.push(ms(30), item(3, Op::Release));
        assert_eq!(heap.next_at(), Some(ms(10)));
        assert_eq!(heap.take(ms(9), None), None);
        assert_eq!(heap.take(ms(25), None).unwrap().lock, 1);
        assert_eq!(heap.take(ms(25), Some(Op::Release)), None);
        assert_eq!(heap.take(ms(25), Some(Op::Renew)).unwrap().lock, 2);
        assert_eq!(heap.take(ms(25), None), None);
        assert_eq!(heap.next_at(), Some(ms(30)));
    }
}
