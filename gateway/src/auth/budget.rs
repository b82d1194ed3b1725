//! How much each principal and each address may ask for.
//!
//! Acquires, and what operators ask, have a budget of their own, apart from renewals and releases:
//! whoever floods acquires still keeps what it holds. A budget is a bucket that fills evenly and holds what one second
//! brings. Buckets are kept for the principals of the roll, and for addresses in a table of fixed
//! size, so that nobody can make them grow.

use super::waits::{NoPlace, WaitPlace, Waits};
use crate::limits;
use crate::names::Principal;
use crate::time::Millis;
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// New holds, and a look at those of others or an end to them: what is asked of etcd.
    Acquires,
    /// Renewals and releases.
    Upkeep,
}

/// So many per second; `None`: any number.
pub type PerSecond = Option<NonZeroU32>;

/// The budgets of one principal or address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rates {
    /// Acquires, inspections and force-releases together.
    pub acquires: PerSecond,
    /// Renewals and releases together.
    pub upkeep: PerSecond,
    /// Requests that wait in line at once; `None`: any number.
    pub waits: Option<NonZeroU32>,
}

/// A budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exhausted {
    /// There is room again after this.
    pub retry_after: Millis,
}

/// The buckets of one principal or address.
#[derive(Debug)]
pub struct Buckets {
    acquires: Option<DefaultDirectRateLimiter>,
    upkeep: Option<DefaultDirectRateLimiter>,
    waits: Waits,
}

/// Everybody's.
#[derive(Debug)]
pub struct Budgets {
    principal: Rates,
    principals: Mutex<HashMap<Box<str>, Arc<Buckets>>>,
    /// None where addresses have no budget.
    addresses: Vec<Arc<Buckets>>,
    places: RandomState,
}

impl Buckets {
    /// Full ones.
    pub fn new(rates: Rates) -> Self {
        let bucket =
            |rate: PerSecond| rate.map(|rate| RateLimiter::direct(Quota::per_second(rate)));
        Self {
            acquires: bucket(rates.acquires),
            upkeep: bucket(rates.upkeep),
            waits: Waits::new(rates.waits),
        }
    }

    /// Takes a place in line.
    ///
    /// # Errors
    /// When all are taken.
    pub fn wait(&self) -> Result<WaitPlace, NoPlace> {
        self.waits.take()
    }

    /// Takes one out.
    ///
    /// # Errors
    /// When there is none.
    pub fn spend(&self, share: Share) -> Result<(), Exhausted> {
        let bucket = match share {
            Share::Acquires => &self.acquires,
            Share::Upkeep => &self.upkeep,
        };
        let Some(bucket) = bucket else { return Ok(()) };
        bucket.check().map_err(|not_until| {
            let wait = not_until.wait_time_from(DefaultClock::default().now());
            let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Exhausted {
                retry_after: Millis::from_ms(ms).max(limits::RATE_RETRY_AFTER_MIN),
            }
        })
    }
}

impl Budgets {
    /// Every principal and every address has these.
    pub fn new(principal: Rates, address: Rates) -> Self {
        let count = match address == Rates::default() {
            true => 0,
            false => limits::ADDRESS_BUCKETS,
        };
        Self {
            principal,
            principals: Mutex::default(),
            addresses: (0..count)
                .map(|_| Arc::new(Buckets::new(address)))
                .collect(),
            places: RandomState::new(),
        }
    }

    /// Those of a principal, the same ones each time.
    pub(super) fn of_principal(&self, principal: &Principal) -> Arc<Buckets> {
        let mut principals = self.principals.lock();
        let buckets = principals.entry(principal.as_str().into());
        Arc::clone(buckets.or_insert_with(|| Arc::new(Buckets::new(self.principal))))
    }

    /// Forgets those who are not on the roll any more.
    pub(super) fn keep(&self, known: impl Fn(&str) -> bool) {
        self.principals.lock().retain(|name, _| known(name));
    }

    /// Those of an address. Two addresses may share them; which ones do is drawn at random when the
    /// gateway starts, so nobody can choose to share another one's.
    pub(super) fn of_address(&self, address: IpAddr) -> Option<Arc<Buckets>> {
        if self.addresses.is_empty() {
            return None;
        }
        let hash = self.places.hash_one(network_of(address));
        let place = hash % self.addresses.len() as u64;
        let buckets = self.addresses.get(usize::try_from(place).ok()?)?;
        Some(Arc::clone(buckets))
    }
}

/// Who has one IPv6 address usually has the 64 bits below it too.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(
            address.to_bits() & !u128::from(u64::MAX),
        )),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn per_second(rate: u32) -> PerSecond {
        NonZeroU32::new(rate)
    }

    /// Spends until there is nothing left.
    fn drain(buckets: &Buckets, share: Share) -> Exhausted {
        (0..1_000_000)
            .find_map(|_| buckets.spend(share).err())
            .expect("it never ends")
    }

    #[test]
    fn acquires_do_not_eat_the_budget_of_renewals() {
        let rates = Rates {
            acquires: per_second(10),
            upkeep: per_second(10),
            waits: None,
        };
        let buckets = Buckets::new(rates);
        let exhausted = drain(&buckets, Share::Acquires);
        assert!(exhausted.retry_after >= limits::RATE_RETRY_AFTER_MIN);
        assert!(exhausted.retry_after <= Millis::from_ms(1_000));
        assert!(buckets.spend(Share::Upkeep).is_ok());
        let unlimited = Buckets::new(Rates::default());
        assert!((0..1_000).all(|_| unlimited.spend(Share::Acquires).is_ok()));
    }

    #[test]
    fn one_principals_budget_is_not_anothers_and_outlasts_its_connections() {
        let rates = Rates {
            acquires: per_second(1),
            ..Rates::default()
        };
        let budgets = Budgets::new(rates, Rates::default());
        let (one, other) = (Principal::new("one"), Principal::new("other"));
        drain(&budgets.of_principal(&one), Share::Acquires);
        assert!(Arc::ptr_eq(
            &budgets.of_principal(&one),
            &budgets.of_principal(&one)
        ));
        assert!(budgets.of_principal(&other).spend(Share::Acquires).is_ok());
        budgets.keep(|name| name == "one");
        assert_eq!(budgets.principals.lock().len(), 1);
        assert!(budgets.of_address([127, 0, 0, 1].into()).is_none());
    }

    #[test]
    fn addresses_of_one_network_share_their_buckets_in_a_table_that_does_not_grow() {
        let rates = Rates {
            acquires: per_second(1),
            ..Rates::default()
        };
        let budgets = Budgets::new(Rates::default(), rates);
        let buckets = |address: &str| budgets.of_address(address.parse().unwrap()).unwrap();
        let one = buckets("2001:db8:1:2::1");
        assert!(Arc::ptr_eq(&one, &buckets("2001:db8:1:2:ffff::9")));
        assert!(Arc::ptr_eq(
            &buckets("10.0.0.1"),
            &buckets("::ffff:10.0.0.1")
        ));
        let others = (0..=255).filter(|i| !Arc::ptr_eq(&one, &buckets(&format!("10.0.0.{i}"))));
        assert!(others.count() > 200);
        assert_eq!(budgets.addresses.len(), limits::ADDRESS_BUCKETS);
    }
}
