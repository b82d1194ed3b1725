//! One worker: a thread with a runtime of its own, its connections, and the driver that wakes
//! them when something is due.

use super::control::{Control, Order, Snapshot};
use super::link::Link;
use crate::fleet::{Fleet, Job};
use crate::limits::{DRIVER_SLEEP_MAX, PUBLISH_EVERY, RECENT};
use crate::outcome::{Op, Outcome, Phase};
use crate::plan::{Plan, Share};
use holdfast_client::{Access, BootClock, Clock as _, Instant};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// What the connections of a worker share.
pub(super) struct Hub {
    pub(super) plan: Arc<Plan>,
    pub(super) share: Share,
    pub(super) access: Access,
    pub(super) clock: BootClock,
    fleet: RefCell<Fleet>,
    /// Connections without a job, the one that has waited longest first.
    idle: RefCell<VecDeque<usize>>,
    wake: Vec<Notify>,
    stopped: Cell<bool>,
}

impl Hub {
    /// The fleet; not to be kept across an await.
    pub(super) fn fleet(&self) -> RefMut<'_, Fleet> {
        self.fleet.borrow_mut()
    }

    /// Waits for a job; `None`: there will be no more.
    pub(super) async fn next_job(&self, link: usize) -> Option<Job> {
        loop {
            if self.stopped.get() {
                return None;
            }
            let now = self.clock.now();
            let job = self.fleet().next(now);
            if job.is_some() {
                // What else is due is for the others.
                self.wake_one_if_due(now);
                return job;
            }
            self.idle.borrow_mut().push_back(link);
            self.wake[link].notified().await;
        }
    }

    fn wake_one_if_due(&self, now: Instant) {
        let due = self.fleet.borrow().next_due(now);
        if due.is_some_and(|due| due <= now)
            && let Some(link) = self.idle.borrow_mut().pop_front()
        {
            self.wake[link].notify_one();
        }
    }

    fn stop(&self) {
        self.stopped.set(true);
        for wake in &self.wake {
            wake.notify_one();
        }
    }
}

/// Runs one worker's share to its end. Blocks the thread.
///
/// # Errors
/// When the runtime cannot be built.
pub(super) fn work(
    plan: Arc<Plan>,
    share: Share,
    access: Access,
    control: &Control,
) -> std::io::Result<Fleet> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let clock = BootClock;
    let fleet = Fleet::new(Arc::clone(&plan), share.clone(), clock.now());
    let hub = Rc::new(Hub {
        wake: (0..share.connections).map(|_| Notify::new()).collect(),
        plan,
        share,
        access,
        clock,
        fleet: RefCell::new(fleet),
        idle: RefCell::default(),
        stopped: Cell::new(false),
    });
    let entered = runtime.enter();
    let links = LocalSet::new();
    for index in 0..hub.share.connections {
        links.spawn_local(Link::new(Rc::clone(&hub), index).run());
    }
    runtime.block_on(links.run_until(drive(&hub, control)));
    drop(links);
    drop(entered);
    let placeholder = Fleet::new(Arc::clone(&hub.plan), nothing(&hub.share), clock.now());
    Ok(hub.fleet.replace(placeholder))
}

fn nothing(share: &Share) -> Share {
    Share {
        locks: 0,
        ..share.clone()
    }
}

async fn drive(hub: &Hub, control: &Control) {
    let mut publish_at = Instant::ZERO;
    let mut recent = Recent::default();
    loop {
        let now = hub.clock.now();
        obey(hub, control.order(), now);
        hub.fleet().tick(now);
        hub.wake_one_if_due(now);
        if now >= publish_at {
            publish_at = now + PUBLISH_EVERY;
            recent.refresh(&mut hub.fleet(), now);
            control.publish(hub.share.worker, snapshot(&hub.fleet(), &recent));
        }
        if control.order() == Order::Stop {
            break;
        }
        let due = hub
            .fleet()
            .next_due(now)
            .unwrap_or(Instant::ZERO + Duration::MAX);
        let pause = due.since(now).clamp(DRIVER_SLEEP_MIN, DRIVER_SLEEP_MAX);
        tokio::time::sleep(pause).await;
    }
    hub.stop();
}

/// The runtime's timers have no finer grain.
const DRIVER_SLEEP_MIN: Duration = Duration::from_millis(1);

fn obey(hub: &Hub, order: Order, now: Instant) {
    let mut fleet = hub.fleet();
    match (fleet.phase(), order) {
        (Phase::Acquire, Order::Hold) => fleet.begin_hold(now),
        (Phase::Acquire | Phase::Hold, Order::Release) => fleet.begin_release(),
        _ => {}
    }
}

/// The latency of renewals in the last [`RECENT`].
#[derive(Default)]
struct Recent {
    next: Instant,
    p99_ms: f64,
}

impl Recent {
    fn refresh(&mut self, fleet: &mut Fleet, now: Instant) {
        if now >= self.next {
            self.next = now + RECENT;
            // Microseconds of a run: far below 2^53.
            self.p99_ms = fleet.stats.take_recent().value_at_quantile(0.99) as f64 / 1000.0;
        }
    }
}

fn snapshot(fleet: &Fleet, recent: &Recent) -> Snapshot {
    Snapshot {
        phase: Some(fleet.phase()),
        held: fleet.held(),
        first_grants: fleet.first_grants(),
        done: fleet.done(),
        over: fleet.is_over(),
        renewals: fleet.stats.total(Op::Renew, Outcome::RENEWED),
        recent_p99_ms: recent.p99_ms,
        unknown: fleet.stats.unknown,
        lost: fleet.findings.lost(),
        findings: fleet.findings.other_than_lost(),
        fatal: fleet.fatal.clone(),
        troubles: fleet.troubles,
        last_trouble: fleet.last_trouble.clone(),
        figures: fleet.stats.figures(),
    }
}
