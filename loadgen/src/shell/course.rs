//! The main thread's part: leads the workers through the phases.

use super::control::{Control, Order, Snapshot};
use super::progress::{Progress, say};
use super::run::Worker;
use crate::limits::STALL;
use crate::outcome::Phase;
use crate::plan::Plan;
use crate::report::PhaseTimes;
use holdfast_client::{BootClock, Clock as _, Instant};
use rustix::time::{ClockId, clock_gettime};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Leads the workers through the phases.
pub(super) struct Course<'a> {
    plan: &'a Plan,
    control: &'a Control,
    workers: &'a [Worker],
    clock: BootClock,
    began: Instant,
    pub(super) times: PhaseTimes,
    /// Why there is nothing to report.
    pub(super) could_not_run: Option<String>,
    progress: Option<Progress>,
}

/// Signals that end the run; none is missed between two looks.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Why a phase is over.
#[derive(PartialEq, Eq)]
enum Ended {
    Done,
    Stalled,
    Interrupted,
}

impl<'a> Course<'a> {
    pub(super) fn new(plan: &'a Plan, control: &'a Control, workers: &'a [Worker]) -> Self {
        let clock = BootClock;
        Self {
            plan,
            control,
            workers,
            began: clock.now(),
            clock,
            times: PhaseTimes::default(),
            could_not_run: None,
            progress: Some(Progress::new()),
        }
    }

    /// To the end; `true` when it was interrupted.
    pub(super) async fn follow(&mut self, mut interrupts: Interrupts) -> bool {
        let acquired = self.acquire(&mut interrupts).await;
        let interrupted = if self.could_not_run.is_some() {
            false
        } else {
            let held = match acquired {
                Ended::Interrupted => Ended::Interrupted,
                Ended::Done | Ended::Stalled => self.hold(&mut interrupts).await,
            };
            if !self.plan.keep {
                self.release(&mut interrupts).await;
            }
            held == Ended::Interrupted
        };
        self.control.give(Order::Stop);
        if let Some(progress) = self.progress.take() {
            progress.finish();
        }
        interrupted
    }

    async fn acquire(&mut self, interrupts: &mut Interrupts) -> Ended {
        let locks = self.plan.locks;
        let ended = self
            .phase(interrupts, Phase::Acquire, None, |total| {
                let achieved = u64::from(total.first_grants);
                (
                    achieved,
                    total.first_grants == locks || total.fatal.is_some(),
                )
            })
            .await;
        let total = self.control.total();
        if let Some(fatal) = total.fatal {
            self.could_not_run = Some(format!("the gateway refuses acquires: {fatal}"));
        } else if total.first_grants == 0 {
            let trouble = total
                .last_trouble
                .unwrap_or_else(|| "the names are held".to_owned());
            self.could_not_run = Some(format!("no lock could be acquired; last: {trouble}"));
        }
        ended
    }

    async fn hold(&mut self, interrupts: &mut Interrupts) -> Ended {
        self.control.give(Order::Hold);
        let end = self.clock.now() + self.plan.duration;
        self.phase(interrupts, Phase::Hold, Some(end), |_| (0, false))
            .await
    }

    async fn release(&mut self, interrupts: &mut Interrupts) {
        self.control.give(Order::Release);
        self.phase(interrupts, Phase::Release, None, |total| {
            let over = total.over && total.phase == Some(Phase::Release);
            (u64::from(total.done), over)
        })
        .await;
    }

    /// Waits for the end of a phase: its moment, or that `judge` says it is done, or that what it
    /// says was achieved does not grow any more.
    async fn phase(
        &mut self,
        interrupts: &mut Interrupts,
        phase: Phase,
        end: Option<Instant>,
        judge: impl Fn(&Snapshot) -> (u64, bool),
    ) -> Ended {
        let began = self.clock.now();
        let cpu = cpu_used();
        let mut progress_at = (0, began);
        let ended = loop {
            let now = self.clock.now();
            let total = self.control.total();
            if let Some(progress) = &mut self.progress {
                progress.show(now, self.began, &total);
            }
            let (achieved, done) = judge(&total);
            if achieved != progress_at.0 {
                progress_at = (achieved, now);
            }
            if done || end.is_some_and(|end| now >= end) {
                break Ended::Done;
            }
            // They only end when they are told to, unless something broke.
            if self.workers.iter().any(JoinHandle::is_finished) {
                break Ended::Interrupted;
            }
            if end.is_none() && now >= progress_at.1 + STALL {
                say(&format!(
                    "nothing more is achieved in the {} phase",
                    phase.name()
                ));
                break Ended::Stalled;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = interrupts.next() => break Ended::Interrupted,
            }
        };
        let secs = self.clock.now().since(began).as_secs_f64();
        let cpu_secs = (cpu_used() - cpu).as_secs_f64();
        self.times.set(phase, secs, cpu_secs);
        ended
    }
}

/// Processor time of this process so far.
fn cpu_used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let secs = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::from_secs(secs) + Duration::from_nanos(u64::try_from(used.tv_nsec).unwrap_or(0))
}
