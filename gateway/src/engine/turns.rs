//! Queues by what their items have in common, which take turns.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items that wait, by key. Items of one key stay in their order, and keys take turns, so that one
/// with many items holds up no other.
#[derive(Debug)]
pub(crate) struct Turns<K, T> {
    /// Each key with items once; the first has the next turn.
    order: VecDeque<K>,
    waiting: HashMap<K, VecDeque<T>>,
    len: usize,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            waiting: HashMap::new(),
            len: 0,
        }
    }
}

impl<K: Copy + Eq + Hash, T> Turns<K, T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, key: K, item: T) {
        let queue = self.waiting.entry(key).or_default();
        if queue.is_empty() {
            self.order.push_back(key);
        }
        queue.push_back(item);
        self.len += 1;
    }

    /// Puts items that were taken back to where they were; their key has the next turn.
    pub(crate) fn put_back(&mut self, key: K, items: Vec<T>) {
        if items.is_empty() {
            return;
        }
        self.len += items.len();
        let queue = self.waiting.entry(key).or_default();
        if !queue.is_empty() {
            self.order.retain(|known| *known != key);
        }
        self.order.push_front(key);
        items
            .into_iter()
            .rev()
            .for_each(|item| queue.push_front(item));
    }

    /// The first items of the key whose turn it is, at most so many (at least one); if it has more,
    /// it comes again after the others.
    pub(crate) fn next_turn(&mut self, items_max: usize) -> Option<(K, Vec<T>)> {
        let key = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&key)?;
        let items: Vec<T> = queue.drain(..queue.len().min(items_max.max(1))).collect();
        self.len -= items.len();
        if queue.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.order.push_back(key);
        }
        Some((key, items))
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.waiting.retain(|_, queue| {
            queue.retain(&keep);
            !queue.is_empty()
        });
        self.order.retain(|key| self.waiting.contains_key(key));
        self.len = self.waiting.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(items: &[(char, u32)]) -> Turns<char, u32> {
        let mut turns = Turns::default();
        items.iter().for_each(|(key, item)| turns.push(*key, *item));
        turns
    }

    fn all(mut turns: Turns<char, u32>, at_once: usize) -> Vec<(char, Vec<u32>)> {
        let taken: Vec<_> = std::iter::from_fn(|| turns.next_turn(at_once)).collect();
        assert!(turns.is_empty() && turns.waiting.is_empty());
        taken
    }

    #[test]
    fn keys_take_turns_and_their_items_stay_in_order() {
        let turns = turns(&[('a', 1), ('a', 2), ('a', 3), ('b', 4), ('a', 5), ('c', 6)]);
        assert_eq!(turns.len(), 6);
        let expected = [
            ('a', vec![1, 2]),
            ('b', vec![4]),
            ('c', vec![6]),
            ('a', vec![3, 5]),
        ];
        assert_eq!(all(turns, 2), expected);
    }

    #[test]
    fn what_is_put_back_comes_next_and_first() {
        let mut turns = turns(&[('a', 1), ('a', 2), ('b', 3), ('a', 4)]);
        let (key, items) = turns.next_turn(2).unwrap();
        turns.put_back(key, items);
        assert_eq!(turns.len(), 4);
        assert_eq!(all(turns, 9), [('a', vec![1, 2, 4]), ('b', vec![3])]);
    }

    #[test]
    fn what_is_not_kept_is_forgotten_with_its_turn() {
        let mut turns = turns(&[('a', 1), ('b', 2), ('b', 3)]);
        turns.retain(|item| item % 2 == 0);
        assert_eq!(turns.len(), 1);
        assert_eq!(all(turns, 9), [('b', vec![2])]);
    }
}
