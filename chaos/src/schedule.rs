//! Which fault strikes when: drawn from a seed, before anything is started.

use crate::faults::{Fault, Strike};
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;

/// What a schedule is drawn for.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// In the order in which they begin.
    pub strikes: Vec<Strike>,
}

/// Before the first fault, clients get going.
const QUIET_MS: u64 = 3_000;
/// Between two faults of a lane.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 200..=2_500;

impl Schedule {
    /// Two lanes of faults, one after the other in each, for `duration`: `members` has the number of
    /// members of each cluster. Every kind comes once before any comes again.
    #[must_use]
    pub fn draw(
        seed: u64,
        duration: Duration,
        gateways: usize,
        members: &[usize],
        session: Duration,
    ) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let end = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let session = u64::try_from(session.as_millis()).unwrap_or(u64::MAX);
        let mut deck = Vec::new();
        let mut lanes = [QUIET_MS, QUIET_MS];
        let mut strikes = Vec::new();
        loop {
            let lane = usize::from(lanes[1] < lanes[0]);
            let at_ms = lanes[lane] + dice.random_range(PAUSE_MS);
            let fault = next(&mut deck, &mut dice);
            let for_ms = lasting(fault, session, &mut dice);
            if at_ms + for_ms > end {
                break;
            }
            let cluster = match members.iter().position(|members| *members > 1) {
                Some(cluster) if fault.needs_members() => cluster,
                _ => dice.random_range(0..members.len()),
            };
            strikes.push(Strike {
                at_ms,
                for_ms,
                fault,
                gateway: dice.random_range(0..gateways),
                cluster,
                member: dice.random_range(0..members[cluster]),
            });
            lanes[lane] = at_ms + for_ms;
        }
        strikes.sort_by_key(|strike| strike.at_ms);
        Self { strikes }
    }
}

fn next(deck: &mut Vec<Fault>, dice: &mut StdRng) -> Fault {
    loop {
        if let Some(fault) = deck.pop() {
            return fault;
        }
        *deck = Fault::all();
        deck.shuffle(dice);
    }
}

/// So long that it matters: longer than a session lives where that is the point.
fn lasting(fault: Fault, session: u64, dice: &mut StdRng) -> u64 {
    match fault {
        Fault::GatewayStopped => dice.random_range(session..=3 * session),
        Fault::LeaderStopped => 2 * session,
        Fault::ClusterDown | Fault::AllGatewaysKilled => {
            dice.random_range(session / 2..=2 * session)
        }
        Fault::TransactionsRepeated | Fault::RevokesRepeated => 500,
        Fault::MemberSlow => dice.random_range(1_000..=3_000),
        _ => dice.random_range(500..=2 * session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn draw(seed: u64, minutes: u64) -> Vec<Strike> {
        let duration = Duration::from_secs(60 * minutes);
        Schedule::draw(seed, duration, 3, &[1, 3, 1], Duration::from_secs(3)).strikes
    }

    #[test]
    fn the_same_seed_draws_the_same_schedule() {
        assert_eq!(draw(7, 5), draw(7, 5));
        assert_ne!(draw(7, 5), draw(8, 5));
    }

    #[test]
    fn ten_minutes_have_every_kind_of_fault() {
        let kinds: BTreeSet<Fault> = draw(1, 10).iter().map(|strike| strike.fault).collect();
        assert_eq!(kinds, Fault::all().into_iter().collect());
    }

    #[test]
    fn members_are_cut_off_from_each_other_where_there_are_several() {
        for strike in draw(1, 30) {
            assert!(!strike.fault.needs_members() || strike.cluster == 1);
        }
    }
}
