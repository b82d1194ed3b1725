//! How many connections there are, in all and from each address.

use crate::auth::network_of;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

/// Counts connections by address, those of the addresses that have any.
#[derive(Debug)]
pub(super) struct Places {
    /// `None`: any number.
    per_address_max: Option<u32>,
    taken: Mutex<HashMap<IpAddr, u32>>,
}

/// A connection's place; gives it back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(per_address_max: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            per_address_max,
            taken: Mutex::default(),
        })
    }

    /// A place for a connection from this address; `None` when it has too many.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = network_of(address);
        let mut taken = self.taken.lock();
        let count = taken.entry(address).or_default();
        if self.per_address_max.is_some_and(|max| *count >= max) {
            return None;
        }
        *count += 1;
        Some(Place {
            of: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.of.taken.lock().entry(self.address) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_places_and_gets_them_back() {
        let places = Places::new(Some(2));
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let (one, _two) = (places.take(address(1)), places.take(address(1)));
        assert!(one.is_some() && places.take(address(1)).is_none());
        let other = places.take(address(2));
        assert!(other.is_some());
        drop(one);
        let again = places.take(address(1));
        assert!(again.is_some() && places.take(address(1)).is_none());
        drop((again, other, _two));
        assert!(
            places.taken.lock().is_empty(),
            "nothing is left of those who went"
        );
    }
}
