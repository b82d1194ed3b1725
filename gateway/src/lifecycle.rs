//! How a gateway stops: in phases, each with a deadline.
//!
//! Serving → draining → finishing → done. A phase never goes back.

use crate::time::Millis;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::Notify;

/// Where a gateway is between its start and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Everything is served.
    Serving,
    /// Readiness fails, everything is still served, and every reply ends its connection, so that
    /// clients and load balancers move on.
    Draining,
    /// No connection is accepted; what is under way is finished.
    Finishing,
    /// Whatever is left is cut off.
    Done,
}

impl Phase {
    pub(crate) const ALL: [Self; 4] = [Self::Serving, Self::Draining, Self::Finishing, Self::Done];

    /// As it stands in logs and in the answer of `/readyz`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Finishing => "finishing",
            Self::Done => "done",
        }
    }
}

/// How long the phases of a stop may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopPlan {
    /// Draining lasts exactly this: as long as a load balancer takes to notice.
    pub drain: Millis,
    /// The hand-over at the end of draining lasts at most this.
    pub hand_over: Millis,
    /// Finishing lasts at most this.
    pub finish: Millis,
}

/// The phase of this process. Clones share it.
#[derive(Debug, Clone)]
pub struct Lifecycle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    phase: AtomicU8,
    /// For each phase, who waits for it.
    waiting: [Notify; Phase::ALL.len()],
}

impl Default for Lifecycle {
    fn default() -> Self {
        let shared = Shared {
            phase: AtomicU8::new(Phase::Serving as u8),
            ..Shared::default()
        };
        Self(Arc::new(shared))
    }
}

impl Lifecycle {
    /// The present phase. Costs one load.
    pub fn phase(&self) -> Phase {
        let phase = self.0.phase.load(Ordering::Acquire);
        Phase::ALL[usize::from(phase) % Phase::ALL.len()]
    }

    /// Goes on to `phase`; does nothing when that or a later one is reached already.
    pub fn advance(&self, phase: Phase) {
        let before = self.0.phase.fetch_max(phase as u8, Ordering::AcqRel);
        if before >= phase as u8 {
            return;
        }
        tracing::info!(phase = phase.as_str(), "shutdown phase");
        let reached = usize::from(before) + 1..=usize::from(phase as u8);
        self.0.waiting[reached]
            .iter()
            .for_each(Notify::notify_waiters);
    }

    /// Waits until `phase` or a later one is reached. Its task is woken then and not before: one that
    /// has polled this once need not do so again until it is.
    pub async fn reached(&self, phase: Phase) {
        let mut reached = pin!(self.0.waiting[usize::from(phase as u8)].notified());
        // Whoever reaches it after this look wakes this task.
        reached.as_mut().enable();
        if self.phase() < phase {
            reached.await;
        }
    }

    /// Stops: drains, runs `hand_over` (which gives the locks to other gateways), and finishes
    /// when `idle` is ready or the time is up. Cancelling it leaves the phase as it is; what was not
    /// handed over is as after a crash.
    pub async fn stop(
        &self,
        plan: StopPlan,
        hand_over: impl Future<Output = ()>,
        idle: impl Future<Output = ()>,
    ) {
        self.advance(Phase::Draining);
        tokio::time::sleep(plan.drain.to_std()).await;
        let handed_over = tokio::time::timeout(plan.hand_over.to_std(), hand_over).await;
        if handed_over.is_err() {
            tracing::warn!("the hand-over took too long; other gateways take over without it");
        }
        self.advance(Phase::Finishing);
        if tokio::time::timeout(plan.finish.to_std(), idle)
            .await
            .is_err()
        {
            tracing::warn!("requests were still under way when their time to finish was up");
        }
        self.advance(Phase::Done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use std::task::{Context, Wake, Waker};

    const PLAN: StopPlan = StopPlan {
        drain: Millis::from_secs(15),
        hand_over: Millis::from_secs(5),
        finish: Millis::from_secs(10),
    };

    #[tokio::test(start_paused = true)]
    async fn the_hand_over_comes_after_draining_and_before_finishing() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.phase(), Phase::Serving);
        let during = lifecycle.clone();
        lifecycle
            .stop(
                PLAN,
                async { assert_eq!(during.phase(), Phase::Draining) },
                async { assert_eq!(during.phase(), Phase::Finishing) },
            )
            .await;
        assert_eq!(lifecycle.phase(), Phase::Done);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_finish_in_time_is_cut_off() {
        let lifecycle = Lifecycle::default();
        lifecycle.stop(PLAN, pending(), pending()).await;
        lifecycle.reached(Phase::Done).await;
    }

    #[derive(Default)]
    struct Woken(AtomicU8);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_for_a_phase_is_woken_by_it_and_by_no_earlier_one() {
        let lifecycle = Lifecycle::default();
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut reached = pin!(lifecycle.reached(Phase::Finishing));
        assert!(reached.as_mut().poll(&mut context).is_pending());
        lifecycle.advance(Phase::Draining);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        // Not polled in between.
        lifecycle.advance(Phase::Done);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(reached.as_mut().poll(&mut context).is_ready());
        assert!(
            pin!(lifecycle.reached(Phase::Draining))
                .poll(&mut context)
                .is_ready()
        );
    }

    #[test]
    fn a_phase_never_goes_back() {
        let lifecycle = Lifecycle::default();
        lifecycle.advance(Phase::Finishing);
        lifecycle.advance(Phase::Draining);
        assert_eq!(lifecycle.phase(), Phase::Finishing);
    }
}
