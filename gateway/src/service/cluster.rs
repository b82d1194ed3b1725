//! The task that runs one cluster's engine: it feeds it requests, replies and time, and carries
//! out what it wants done.

use crate::engine::{
    Answer, CallId, Effect, Engine, Heritage, Hop, Input, Onward, Ticket, To, Trouble, Word,
    all_sessions,
};
use crate::limits;
use crate::lock_id::LockId;
use crate::service::routes::Neighbours;
use crate::service::watches::{Freed, Watches};
use crate::service::{
    Acquire, AcquireOutcome, CloseOutcome, ForceRelease, Forward, ForwardOutcome, Forwarding,
    ServiceError, ShardStatus,
};
use crate::time::{Clock, Instant, Millis};
use arc_swap::ArcSwap;
use futures::StreamExt as _;
use holdfast_store::{Reply, Store, StoreError, WatchEvent};
use shard_map::ShardId;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

/// Requests that are taken over in one turn, so that they can share a batch.
const COMMANDS_AT_ONCE_MAX: usize = 512;
/// Replies that are taken over in one turn.
const REPLIES_AT_ONCE_MAX: usize = 256;
/// How often the shards' state is shown to operators.
const SHOW_INTERVAL: Millis = Millis::from_ms(1000);
/// If the wall clock and the monotonic clock move apart by more than this between two looks, one
/// of them jumped.
const CLOCK_JUMP: Millis = Millis::from_ms(1000);

/// What a cluster's task is told.
pub(super) enum Command {
    Acquire(
        ShardId,
        Acquire,
        oneshot::Sender<Result<AcquireOutcome, ServiceError>>,
    ),
    /// A request about an existing hold.
    Hold(ShardId, Box<Forward>, Hop, oneshot::Sender<ForwardOutcome>),
    ForceRelease(
        ShardId,
        ForceRelease,
        oneshot::Sender<Result<CloseOutcome, ServiceError>>,
    ),
    /// A request that another cluster's engine has sent on.
    Onward(Box<Onward>, Asker),
    /// A grant to a request that may wait has reached nobody.
    Undelivered(Box<LockId>),
    Heritage(Heritage),
    HomeSeen,
    /// Give the session up and end.
    Stop(oneshot::Sender<()>),
}

/// Whom to tell the answer.
pub(super) enum Asker {
    Acquire(oneshot::Sender<Result<AcquireOutcome, ServiceError>>),
    Hold(oneshot::Sender<ForwardOutcome>),
    ForceRelease(oneshot::Sender<Result<CloseOutcome, ServiceError>>),
}

/// What is around a cluster's task.
pub(super) struct Around {
    /// The cluster's name.
    pub(super) cluster: Arc<str>,
    /// The way to other gateways.
    pub(super) forwarding: Arc<dyn Forwarding>,
    /// The tasks of this gateway's other clusters.
    pub(super) neighbours: Neighbours,
}

pub(super) struct ClusterTask<C> {
    around: Around,
    forwarded: mpsc::UnboundedSender<(Ticket, ForwardOutcome)>,
    engine: Engine,
    store: Arc<dyn Store>,
    clock: Arc<C>,
    askers: HashMap<Ticket, Asker>,
    /// Requests that may wait; true: their clients have gone meanwhile.
    patient: HashMap<Ticket, bool>,
    gone_next: Instant,
    /// What comes of carrying effects out.
    afterwards: Vec<Input>,
    watches: Watches,
    tickets: u64,
    effects: Vec<Effect>,
    replies: mpsc::UnboundedSender<(CallId, Result<Reply, StoreError>)>,
    clock_offset_ms: i128,
    stopping: Option<oneshot::Sender<()>>,
    shown: Arc<ArcSwap<Vec<ShardStatus>>>,
    show_next: Instant,
}

impl<C: Clock> ClusterTask<C> {
    /// Runs the engine until nobody can tell it anything any more. One that has stopped goes on
    /// looking for its heirs.
    pub(super) async fn run(
        around: Around,
        engine: Engine,
        store: Arc<dyn Store>,
        clock: Arc<C>,
        (mut commands, mut words): (mpsc::Receiver<Command>, mpsc::Receiver<(Arc<str>, Word)>),
        shown: Arc<ArcSwap<Vec<ShardStatus>>>,
    ) {
        // As many replies can wait as calls are on their way, which the engine bounds.
        let (replies, mut replied) = mpsc::unbounded_channel();
        // As many as requests are open, which the engine bounds.
        let (forwarded, mut answered) = mpsc::unbounded_channel();
        // As many as keys are watched, which the engine bounds.
        let (freed, mut freed_keys) = mpsc::unbounded_channel();
        let mut ended_sessions = std::pin::pin!(ended_sessions(Arc::clone(&store)));
        let mut task = Self {
            around,
            forwarded,
            engine,
            store,
            askers: HashMap::new(),
            patient: HashMap::new(),
            gone_next: Instant::NEVER,
            afterwards: Vec::new(),
            watches: Watches::new(freed),
            tickets: 0,
            effects: Vec::new(),
            replies,
            clock_offset_ms: offset_ms(&*clock),
            clock,
            stopping: None,
            shown,
            show_next: Instant::NEVER,
        };
        let mut woken = Instant::NEVER;
        let mut sleep = Box::pin(tokio::time::sleep(std::time::Duration::ZERO));
        let mut told = Vec::new();
        let mut inputs = Vec::new();
        task.show_wall_clock();
        task.engine.start(task.clock.now(), &mut task.effects);
        loop {
            task.carry_out();
            if !task.afterwards.is_empty() {
                let inputs = std::mem::take(&mut task.afterwards);
                let now = task.clock.now();
                task.engine.handle(now, inputs, &mut task.effects);
                continue;
            }
            task.set_alarm(sleep.as_mut(), &mut woken);
            tokio::select! {
                reply = replied.recv() => {
                    inputs.extend(reply.map(|(call, result)| Input::Reply(call, result)));
                }
                () = sleep.as_mut() => woken = Instant::NEVER,
                Some((ticket, outcome)) = answered.recv() => {
                    inputs.push(Input::ForwardAnswered(ticket, outcome));
                }
                Some(freed) = freed_keys.recv() => inputs.push(task.freed(freed)),
                Some((from, word)) = words.recv() => inputs.push(Input::Word(from, word)),
                Some(()) = ended_sessions.next() => inputs.push(Input::SessionEnded),
                count = commands.recv_many(&mut told, COMMANDS_AT_ONCE_MAX) => {
                    if count == 0 {
                        break;
                    }
                }
            }
            // Whatever woke it, every source gets its turn, so that none starves the others.
            while inputs.len() < REPLIES_AT_ONCE_MAX
                && let Ok((call, result)) = replied.try_recv()
            {
                inputs.push(Input::Reply(call, result));
            }
            while inputs.len() < REPLIES_AT_ONCE_MAX
                && let Ok((ticket, outcome)) = answered.try_recv()
            {
                inputs.push(Input::ForwardAnswered(ticket, outcome));
            }
            while inputs.len() < REPLIES_AT_ONCE_MAX
                && let Ok(freed) = freed_keys.try_recv()
            {
                inputs.push(task.freed(freed));
            }
            while told.len() < COMMANDS_AT_ONCE_MAX
                && let Ok(command) = commands.try_recv()
            {
                told.push(command);
            }
            // Before the requests: what was said before one was sent on comes before it.
            for _ in 0..words.len() {
                let word = words.try_recv().ok();
                inputs.extend(word.map(|(from, word)| Input::Word(from, word)));
            }
            for command in told.drain(..) {
                inputs.extend(task.take(command));
            }
            let now = task.clock.now();
            task.look_for_gone(now, &mut inputs);
            if now >= task.engine.next_wakeup() {
                inputs.push(Input::Tick);
            }
            if let Some(jumped) = task.clock_jump() {
                inputs.insert(0, jumped);
            }
            task.show(now);
            task.engine.handle(now, inputs.drain(..), &mut task.effects);
        }
    }

    fn take(&mut self, command: Command) -> Option<Input> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let (asker, input) = match command {
            Command::Acquire(shard, acquire, asker) => {
                if acquire.wait > Millis::ZERO {
                    self.patient.insert(ticket, false);
                }
                (
                    Asker::Acquire(asker),
                    Input::Acquire(ticket, shard, acquire),
                )
            }
            Command::Undelivered(lock_id) => return Some(Input::Undelivered(*lock_id)),
            Command::Hold(shard, forward, hop, asker) => {
                (Asker::Hold(asker), hop.input(ticket, shard, *forward))
            }
            Command::ForceRelease(shard, force, asker) => (
                Asker::ForceRelease(asker),
                Input::ForceRelease(ticket, shard, force),
            ),
            Command::Onward(onward, asker) => {
                if onward.may_wait() {
                    self.patient.insert(ticket, false);
                }
                (asker, Input::Onward(ticket, onward))
            }
            Command::Heritage(heritage) => return Some(Input::Heritage(heritage)),
            Command::HomeSeen => return Some(Input::HomeSeen),
            Command::Stop(done) => {
                self.stopping = Some(done);
                return Some(Input::Stop);
            }
        };
        self.askers.insert(ticket, asker);
        Some(input)
    }

    fn carry_out(&mut self) {
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Call { id, op, timeout } => {
                    let call = self.store.call(op, timeout.to_std());
                    let replies = self.replies.clone();
                    tokio::spawn(async move {
                        // The engine may have ended; then nobody waits for the reply.
                        let _ = replies.send((id, call.await));
                    });
                }
                Effect::Forward(ticket, owner, forward) => {
                    let cluster = Arc::clone(&self.around.cluster);
                    let asking = self.around.forwarding.forward(&owner, &cluster, forward);
                    let forwarded = self.forwarded.clone();
                    tokio::spawn(async move {
                        let outcome = asking.await.unwrap_or_else(|_| {
                            ForwardOutcome::Failed(Trouble::OtherOwner.to_error(&cluster))
                        });
                        // The engine may have ended; then nobody waits for it.
                        let _ = forwarded.send((ticket, outcome));
                    });
                }
                Effect::Bequeath(owner, heritage) => {
                    let around = &self.around;
                    around
                        .forwarding
                        .bequeath(&owner, &around.cluster, heritage);
                }
                Effect::Word(to, word) => {
                    self.around.neighbours.say(&self.around.cluster, &to, word);
                }
                Effect::Watch(name, key, after) => {
                    self.watches.begin(&*self.store, name, key, after);
                }
                Effect::Unwatch(name) => self.watches.end(&name),
                Effect::Onward(ticket, to, onward) => {
                    self.patient.remove(&ticket);
                    if let Some(asker) = self.askers.remove(&ticket) {
                        send_on(&self.around, &to, onward, asker);
                    }
                }
                Effect::Answer(ticket, answer) => {
                    let was_patient = self.patient.remove(&ticket).is_some();
                    if let Some(asker) = self.askers.remove(&ticket) {
                        let undelivered = tell(asker, answer);
                        self.afterwards.extend(undelivered.filter(|_| was_patient));
                    }
                }
                Effect::Stopped => {
                    if let Some(done) = self.stopping.take() {
                        let _ = done.send(());
                    }
                }
            }
        }
    }

    /// Clients that have gone while they waited. Their requests stay until the engine has answered
    /// them, or sent them on: what it may have granted is undone then.
    fn look_for_gone(&mut self, now: Instant, inputs: &mut Vec<Input>) {
        if self.patient.is_empty() || now < self.gone_next {
            return;
        }
        self.gone_next = now + limits::GONE_LOOK_INTERVAL;
        for (ticket, gone) in self.patient.iter_mut().filter(|(_, gone)| !**gone) {
            *gone = self.askers.get(ticket).is_none_or(Asker::has_gone);
            if *gone {
                inputs.push(Input::Abandoned(*ticket));
            }
        }
    }

    /// Something that was watched is gone.
    fn freed(&mut self, freed: Freed) -> Input {
        self.watches.ended(&freed);
        Input::Freed(freed.name, freed.key)
    }

    fn set_alarm(&self, sleep: Pin<&mut tokio::time::Sleep>, woken: &mut Instant) {
        let wakeup = match self.patient.is_empty() {
            true => self.engine.next_wakeup(),
            false => self.engine.next_wakeup().min(self.gone_next),
        };
        if wakeup == *woken {
            return;
        }
        *woken = wakeup;
        let wait = wakeup.since(self.clock.now()).to_std();
        let from = sleep_origin();
        sleep.reset(from + wait);
    }

    fn show(&mut self, now: Instant) {
        if now >= self.show_next {
            self.show_next = now + SHOW_INTERVAL;
            self.shown.store(Arc::new(self.engine.shard_statuses()));
        }
    }

    fn show_wall_clock(&mut self) {
        let at_zero_ms = u64::try_from(self.clock_offset_ms).unwrap_or(0);
        self.engine.set_wall_clock(at_zero_ms);
    }

    fn clock_jump(&mut self) -> Option<Input> {
        let offset = offset_ms(&*self.clock);
        let moved = (offset - self.clock_offset_ms).unsigned_abs();
        self.clock_offset_ms = offset;
        self.show_wall_clock();
        (moved > u128::from(CLOCK_JUMP.as_ms())).then_some(Input::ClockJumped)
    }
}

/// Says that some session has ended, as far as a watch tells. Never ends.
fn ended_sessions(store: Arc<dyn Store>) -> impl futures::Stream<Item = ()> {
    let watches = futures::stream::iter(0..).then(move |attempt: u64| {
        let events = store.watch(all_sessions(), None);
        async move {
            if attempt > 0 {
                tokio::time::sleep(limits::RETRY_BACKOFF.to_std()).await;
            }
            events
        }
    });
    watches.flatten().filter_map(|event| {
        let ended = matches!(event, WatchEvent::Delete(..) | WatchEvent::Ended(_));
        std::future::ready(ended.then_some(()))
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tokio timer can only be set on tokio's own clock; decisions do not see it"
)]
fn sleep_origin() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

fn offset_ms(clock: &impl Clock) -> i128 {
    i128::from(clock.unix_ms()) - i128::from(clock.now().as_ms())
}

/// Gives a request to the task of another cluster; if there is none, nothing is known.
fn send_on(around: &Around, to: &To, onward: Box<Onward>, asker: Asker) {
    let Some(cluster) = around.neighbours.of(to, onward.shard()) else {
        tell(asker, onward.unanswerable(&around.cluster));
        return;
    };
    let sent = cluster.commands.try_send(Command::Onward(onward, asker));
    let (command, trouble) = match sent {
        Ok(()) => return,
        Err(TrySendError::Full(command)) => (command, Trouble::Overloaded),
        Err(TrySendError::Closed(command)) => (command, Trouble::Draining),
    };
    if let Command::Onward(_, asker) = command {
        refuse(asker, trouble.to_error(&cluster.name));
    }
}

/// Whoever asked may have gone.
fn refuse(asker: Asker, error: ServiceError) {
    match asker {
        Asker::Acquire(asker) => drop(asker.send(Err(error))),
        Asker::Hold(asker) => drop(asker.send(ForwardOutcome::Failed(error))),
        Asker::ForceRelease(asker) => drop(asker.send(Err(error))),
    }
}

impl Asker {
    fn has_gone(&self) -> bool {
        match self {
            Self::Acquire(asker) => asker.is_closed(),
            Self::Hold(asker) => asker.is_closed(),
            Self::ForceRelease(asker) => asker.is_closed(),
        }
    }
}

/// The asker may have gone (a client that disconnected); the work is done all the same. A grant that
/// reaches nobody so is told.
fn tell(asker: Asker, answer: Answer) -> Option<Input> {
    match (asker, answer) {
        (Asker::Acquire(asker), Answer::Acquire(answer)) => {
            if let Err(Ok(AcquireOutcome::Granted(grant))) = asker.send(answer) {
                return Some(Input::Undelivered(grant.lock_id));
            }
        }
        (Asker::Hold(asker), answer) => match answer.into_forwarded() {
            Some(outcome) => drop(asker.send(outcome)),
            None => debug_assert!(false, "an acquire's answer to another request"),
        },
        (Asker::ForceRelease(asker), Answer::Close(answer)) => drop(asker.send(answer)),
        (Asker::Acquire(_) | Asker::ForceRelease(_), _) => {
            debug_assert!(false, "an answer of another kind than the request");
        }
    }
    None
}
