//! Which endpoint to use next: decisions only, no sockets and no clock.

use std::time::Duration;

/// The first pause of an endpoint that could not be reached: long enough not to spin, too short to
/// be noticed.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// The longest pause. A member takes about a second to restart, and one attempt per second costs
/// nobody anything.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// An endpoint, by its place in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct EndpointIndex(pub(super) usize);

/// What is known of the endpoints. Times are those since an arbitrary start.
#[derive(Debug)]
pub(super) struct Endpoints {
    health: Vec<Health>,
    preferred: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Health {
    failures: u32,
    retry_at: Duration,
}

/// The endpoints that one call has tried in vain.
#[derive(Debug, Clone, Default)]
pub(super) struct Tried(Vec<EndpointIndex>);

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Use this one.
    Use(EndpointIndex),
    /// All are paused; wait so long, then use this one.
    WaitThenUse(Duration, EndpointIndex),
    /// None is left to try.
    Exhausted,
}

impl Endpoints {
    /// `count` endpoints, beginning with `first` modulo `count`, which must not be 0.
    pub(super) fn new(count: usize, first: usize) -> Self {
        assert!(count > 0, "a store without endpoints is not built");
        Self {
            health: vec![Health::default(); count],
            preferred: first % count,
        }
    }

    /// The endpoint for a call that has `tried` some: the preferred one, else the next that is not
    /// paused. A call that has tried none waits for the one whose pause ends first.
    pub(super) fn choose(&self, tried: &Tried, now: Duration) -> Choice {
        if let Some(ready) = self
            .ring()
            .find(|&e| !tried.has(e) && self.is_ready(e, now))
        {
            return Choice::Use(ready);
        }
        if !tried.0.is_empty() {
            return Choice::Exhausted;
        }
        match self.ring().min_by_key(|&e| self.health[e.0].retry_at) {
            Some(first) => {
                Choice::WaitThenUse(self.health[first.0].retry_at.saturating_sub(now), first)
            }
            None => Choice::Exhausted,
        }
    }

    /// It answered: no pause any more, and preferred over one that cannot be reached.
    pub(super) fn answered(&mut self, endpoint: EndpointIndex) {
        self.health[endpoint.0] = Health::default();
        if self.health[self.preferred].failures > 0 {
            self.preferred = endpoint.0;
        }
    }

    /// It could not be reached, or refused because of its own state: pause it, and prefer another.
    pub(super) fn unreachable(&mut self, endpoint: EndpointIndex, now: Duration) {
        let health = &mut self.health[endpoint.0];
        // Calls that fail together are one failure.
        if now >= health.retry_at {
            let doublings = health.failures.min(BACKOFF_MAX.as_millis().ilog2());
            let pause = BACKOFF_FIRST
                .saturating_mul(1 << doublings)
                .min(BACKOFF_MAX);
            health.failures += 1;
            health.retry_at = now + pause;
        }
        self.prefer_other_than(endpoint, now);
    }

    /// It was sent something and the outcome is unknown: prefer another, but do not pause it. It
    /// may be slow, or the only one.
    pub(super) fn doubtful(&mut self, endpoint: EndpointIndex, now: Duration) {
        self.prefer_other_than(endpoint, now);
    }

    fn prefer_other_than(&mut self, endpoint: EndpointIndex, now: Duration) {
        if self.preferred != endpoint.0 {
            return;
        }
        if let Some(other) = self.ring().skip(1).find(|&e| self.is_ready(e, now)) {
            self.preferred = other.0;
        }
    }

    fn is_ready(&self, endpoint: EndpointIndex, now: Duration) -> bool {
        now >= self.health[endpoint.0].retry_at
    }

    /// Every endpoint once, the preferred one first.
    fn ring(&self) -> impl Iterator<Item = EndpointIndex> + use<> {
        let (first, count) = (self.preferred, self.health.len());
        (0..count).map(move |step| EndpointIndex((first + step) % count))
    }
}

impl Tried {
    /// One more.
    pub(super) fn add(&mut self, endpoint: EndpointIndex) {
        self.0.push(endpoint);
    }

    fn has(&self, endpoint: EndpointIndex) -> bool {
        self.0.contains(&endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: EndpointIndex = EndpointIndex(0);
    const B: EndpointIndex = EndpointIndex(1);
    const C: EndpointIndex = EndpointIndex(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn choose(endpoints: &Endpoints, tried: &[EndpointIndex], now: Duration) -> Choice {
        endpoints.choose(&Tried(tried.to_vec()), now)
    }

    #[test]
    fn a_working_endpoint_is_kept() {
        let mut endpoints = Endpoints::new(3, 4);
        for _ in 0..3 {
            assert_eq!(choose(&endpoints, &[], ms(1)), Choice::Use(B));
            endpoints.answered(B);
        }
    }

    #[test]
    fn a_call_goes_once_around_the_endpoints() {
        let endpoints = Endpoints::new(3, 1);
        assert_eq!(choose(&endpoints, &[B], ms(0)), Choice::Use(C));
        assert_eq!(choose(&endpoints, &[B, C], ms(0)), Choice::Use(A));
        assert_eq!(choose(&endpoints, &[B, C, A], ms(0)), Choice::Exhausted);
    }

    #[test]
    fn an_unreachable_endpoint_is_left_and_skipped_until_its_pause_is_over() {
        let mut endpoints = Endpoints::new(3, 0);
        endpoints.unreachable(A, ms(1000));
        assert_eq!(choose(&endpoints, &[], ms(1000)), Choice::Use(B));
        endpoints.unreachable(B, ms(1000));
        endpoints.unreachable(C, ms(1010));
        assert_eq!(
            choose(&endpoints, &[], ms(1020)),
            Choice::WaitThenUse(ms(30), A)
        );
        assert_eq!(choose(&endpoints, &[], ms(1050)), Choice::Use(A));
    }

    #[test]
    fn a_call_that_has_tried_one_does_not_wait_for_a_paused_one() {
        let mut endpoints = Endpoints::new(2, 0);
        endpoints.unreachable(A, ms(0));
        endpoints.unreachable(B, ms(0));
        assert_eq!(choose(&endpoints, &[B], ms(10)), Choice::Exhausted);
    }

    #[test]
    fn pauses_double_up_to_a_second_and_end_with_an_answer() {
        let mut endpoints = Endpoints::new(1, 0);
        let mut now = ms(0);
        for expected in [50, 100, 200, 400, 800, 1000, 1000] {
            endpoints.unreachable(A, now);
            assert_eq!(
                choose(&endpoints, &[], now),
                Choice::WaitThenUse(ms(expected), A)
            );
            now += ms(expected);
        }
        for _ in 0..100 {
            endpoints.unreachable(A, now);
            now += ms(1000);
        }
        endpoints.answered(A);
        assert_eq!(choose(&endpoints, &[], now), Choice::Use(A));
        endpoints.unreachable(A, now);
        assert_eq!(choose(&endpoints, &[], now), Choice::WaitThenUse(ms(50), A));
    }

    #[test]
    fn calls_that_fail_together_count_as_one_failure() {
        let mut endpoints = Endpoints::new(1, 0);
        for _ in 0..120 {
            endpoints.unreachable(A, ms(5));
        }
        assert_eq!(
            choose(&endpoints, &[], ms(5)),
            Choice::WaitThenUse(ms(50), A)
        );
    }

    #[test]
    fn after_an_unknown_outcome_another_endpoint_is_preferred_but_none_is_paused() {
        let mut endpoints = Endpoints::new(2, 0);
        endpoints.doubtful(A, ms(0));
        assert_eq!(choose(&endpoints, &[], ms(0)), Choice::Use(B));
        endpoints.doubtful(A, ms(0));
        assert_eq!(choose(&endpoints, &[], ms(0)), Choice::Use(B));
        assert_eq!(choose(&endpoints, &[B], ms(0)), Choice::Use(A));

        let mut alone = Endpoints::new(1, 0);
        alone.doubtful(A, ms(0));
        assert_eq!(choose(&alone, &[], ms(0)), Choice::Use(A));
    }

    #[test]
    fn an_endpoint_that_answers_is_preferred_over_an_unreachable_one_even_after_its_pause() {
        let mut endpoints = Endpoints::new(2, 0);
        endpoints.unreachable(B, ms(0));
        endpoints.unreachable(A, ms(10));
        assert_eq!(
            choose(&endpoints, &[], ms(20)),
            Choice::WaitThenUse(ms(30), B)
        );
        endpoints.answered(B);
        assert_eq!(choose(&endpoints, &[], ms(5000)), Choice::Use(B));
    }

    #[test]
    fn a_paused_endpoint_is_not_preferred_over_a_doubtful_one() {
        let mut endpoints = Endpoints::new(2, 0);
        endpoints.unreachable(B, ms(0));
        endpoints.doubtful(A, ms(10));
        assert_eq!(choose(&endpoints, &[], ms(10)), Choice::Use(A));
    }
}
