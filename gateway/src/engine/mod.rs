//! The lease engine: everything that is true of the locks of one cluster, as a state machine.
//!
//! An [`Engine`] is given [`Input`]s with the time and gives back [`Effect`]s. It does no I/O,
//! reads no clock, and draws its randomness from a seed, so that the same code runs over etcd in
//! production and over a model under virtual time and injected faults in the simulator. One
//! engine serves one cluster; what it shares with the threads that renew is the [`Table`].
//!
//! The calling order: [`Engine::new`], [`Engine::start`], then [`Engine::handle`] with each input
//! as it comes and with [`Input::Tick`] no later than [`Engine::next_wakeup`] says. Each
//! [`Effect::Call`] is answered by exactly one [`Input::Reply`]; a reply that never comes must be
//! given as ambiguous when the call's timeout has passed.
//!
//! Who does what:
//!
//! | file | what |
//! |---|---|
//! | `session`, `fence`, `round` | this gateway's liveness in the cluster, and its proofs |
//! | `shards`, `group`, `groups` | guards, and the lease groups that locks are put on |
//! | `quota` | how many of them each principal has |
//! | `writes`, `turns`, `filling` | what is to be written, and what leaves next |
//! | `bundle`, `batch`, `lanes`, `outcome` | writes as transactions; what came of them |
//! | `acquire`, `renew`, `ending` | the life of a hold |
//! | `closing` | force-release |
//! | `waiting`, `joining`, `line`, `looking`, `wandering`, `leases` | requests that wait for a name, in the order in which they came |
//! | `course`, `cold`, `owners`, `forward` | requests about locks that no table here knows, or that other gateways own |
//! | `step` | the step of a rollout that an engine takes by itself |
//! | `onward` | requests that another cluster's engine goes on with, because their shard moves |
//! | `moves`, `pace`, `places`, `arrivals`, `rekey`, `words` | groups that move between two clusters of one gateway |
//! | `claims`, `heritage`, `survey` | groups of sessions that are gone; comparing tables with etcd |

mod acquire;
mod alarm;
mod arrivals;
mod batch;
mod bundle;
mod calls;
mod claims;
mod closing;
mod cold;
mod course;
mod ending;
mod fence;
mod filling;
mod forward;
#[cfg(feature = "fuzz")]
pub(crate) mod fuzz;
mod group;
mod groups;
mod heritage;
mod invariants;
mod joining;
mod lanes;
mod later;
mod leases;
mod line;
mod looking;
mod moves;
mod mutation;
mod onward;
mod outcome;
mod owners;
mod pace;
mod places;
mod proof;
mod quota;
mod records;
mod rekey;
mod renew;
mod round;
mod session;
mod settings;
mod shards;
mod slot;
mod stats;
mod step;
mod survey;
mod table;
mod tickets;
mod turns;
pub(crate) mod view;
mod waiting;
mod wandering;
mod wheel;
mod words;
mod writes;

pub use calls::CallId;
pub use course::{Course, Hop};
pub use heritage::Heritage;
pub use invariants::InvariantId;
pub use mutation::Mutation;
pub use onward::{Onward, To};
pub use owners::{Owner, Owners};
pub use records::SessionId;
pub(crate) use records::all_sessions;
pub use settings::Settings;
pub use stats::{EngineStats, EtcdCall, RENEWAL_MARGIN_BOUNDS, RenewalMargins, Spread, Stat};
pub use table::{ClusterProof, Table};
pub(crate) use tickets::Trouble;
pub use tickets::{Answer, Ticket};
pub use words::Word;

use crate::limits;
use crate::lock_id::LockId;
use crate::names::LockName;
use crate::service::{Acquire, ForceRelease, Forward, ForwardOutcome, Release, Renew};
use crate::time::{Instant, Millis};
use calls::Calls;
use holdfast_store::{Key, Op, Reply, Revision, StoreError};
use rand::SeedableRng;
use rand::rngs::StdRng;
use shard_map::ShardId;
use std::collections::BTreeMap;
use std::sync::Arc;
use tickets::Via;

/// What happens to an engine.
#[derive(Debug)]
pub enum Input {
    /// A client wants a lock whose name lies in this shard.
    Acquire(Ticket, ShardId, Acquire),
    /// A client renews, and memory alone could not answer.
    Renew(Ticket, ShardId, Renew),
    /// A client gives a lock back.
    Release(Ticket, ShardId, Release),
    /// An operator ends whatever hold this name has.
    ForceRelease(Ticket, ShardId, ForceRelease),
    /// Another gateway forwards a client's request for a lock that it takes to be this one's, and
    /// [`Course::of_forwarded`] does not answer it from memory. It goes no further.
    Forwarded(Ticket, ShardId, Forward),
    /// A client's request that was forwarded to this session's gateway, which does not own the
    /// lock's group: the owner is looked up.
    NotTheirs(Ticket, ShardId, Forward, SessionId),
    /// A request that another engine of this gateway has sent on ([`Effect::Onward`]).
    Onward(Ticket, Box<Onward>),
    /// What the engine of this cluster says, of this gateway ([`Effect::Word`]).
    Word(Arc<str>, Word),
    /// What came of an [`Effect::Forward`].
    ForwardAnswered(Ticket, ForwardOutcome),
    /// A gateway that stops tells how long the holds of a group may last that falls to this one.
    Heritage(Heritage),
    /// Nobody waits any more for the answer to a request that may wait.
    Abandoned(Ticket),
    /// A grant to a request that may wait reached nobody: it is undone.
    Undelivered(LockId),
    /// What was watched for the line of this name is gone ([`Effect::Watch`]): a hint to look.
    Freed(LockName, Key),
    /// Some session of the cluster seems to have ended: a hint to look.
    SessionEnded,
    /// A call has an outcome.
    Reply(CallId, Result<Reply, StoreError>),
    /// Time has passed.
    Tick,
    /// Home has been seen: the map is known to be current, grants may begin.
    HomeSeen,
    /// The machine's clocks jumped against each other: no proof counts any more.
    ClockJumped,
    /// Stop promising and give the session up, so that others can claim at once.
    Stop,
}

/// What an engine wants done.
#[derive(Debug)]
pub enum Effect {
    /// Ask the cluster, and give up after the timeout.
    Call {
        /// To be given back with the reply.
        id: CallId,
        /// What to ask.
        op: Op,
        /// After this it is given up.
        timeout: Millis,
    },
    /// Answer a request.
    Answer(Ticket, Answer),
    /// The request is no longer this engine's: give it to another of this gateway as
    /// [`Input::Onward`], under any ticket of that one; if there is none, the answer is
    /// `shard_moving`.
    Onward(Ticket, To, Box<Onward>),
    /// Tell the engine of this cluster, of this gateway, as [`Input::Word`]: what one engine says to
    /// another arrives in order, once, and before what it sends on later. If there is none, nothing.
    Word(Arc<str>, Word),
    /// Ask the gateway that owns the lock, and give what it says as [`Input::ForwardAnswered`].
    Forward(Ticket, Arc<Owner>, Forward),
    /// Say, as [`Input::Freed`], when this key is deleted after this revision; one key for a name, the
    /// last that was named. Nothing depends on it.
    Watch(LockName, Key, Revision),
    /// Nothing is to be watched for this name any more.
    Unwatch(LockName),
    /// Tell another gateway, as [`Input::Heritage`]. Nothing depends on it.
    Bequeath(Arc<Owner>, Heritage),
    /// The session is given up; nothing is promised here any more.
    Stopped,
}

/// See the module.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    rng: StdRng,
    /// The time of the input that is being handled.
    now: Instant,
    out: Vec<Effect>,
    table: Arc<Table>,
    proof: Arc<ClusterProof>,
    stats: Arc<EngineStats>,
    calls: Calls,
    tickets: tickets::Tickets,
    later: later::Later,
    session: session::Session,
    fence: fence::Fence,
    round: round::Rounds,
    alarm: alarm::AlarmWatch,
    shards: BTreeMap<ShardId, shards::Shard>,
    groups: groups::Groups,
    writes: writes::Writes,
    endings: ending::Endings,
    closings: closing::Closings,
    lines: line::Lines,
    line_leases: leases::LineLeases,
    /// The latest revision of the cluster that an answer told.
    seen: Revision,
    cold: cold::Cold,
    forwards: forward::Forwards,
    owners: Arc<Owners>,
    claims: claims::Claims,
    moves: moves::Moves,
    places: places::Places,
    /// Up to this shard, guards were looked at in turn.
    guards_swept: ShardId,
    heritages: heritage::Heritages,
    survey: survey::Surveys,
    wheel: wheel::Wheel,
    home_seen: bool,
    /// What the wall clock shows when the engine's shows zero, in Unix milliseconds.
    wall_clock_ms: u64,
    survey_interval: Millis,
    /// Tables of groups that were given up; only a deliberate mistake keeps any.
    old_tables: Vec<Arc<table::Group>>,
    /// etcd's id of the cluster whose identity was found right; nothing else is believed.
    cluster_id: Option<u64>,
}

impl Engine {
    /// An engine for one cluster. `seed` must be unpredictable in production: lock ids are made
    /// from it.
    pub fn new(
        settings: Settings,
        seed: [u8; 32],
        now: Instant,
        table: Arc<Table>,
        proof: Arc<ClusterProof>,
    ) -> Self {
        Self {
            settings,
            rng: StdRng::from_seed(seed),
            now,
            out: Vec::new(),
            table,
            proof,
            stats: Arc::default(),
            calls: Calls::default(),
            tickets: tickets::Tickets::default(),
            later: later::Later::default(),
            session: session::Session::default(),
            fence: fence::Fence::default(),
            round: round::Rounds::default(),
            alarm: alarm::AlarmWatch::default(),
            shards: BTreeMap::new(),
            groups: groups::Groups::default(),
            writes: writes::Writes::default(),
            endings: ending::Endings::default(),
            closings: closing::Closings::default(),
            lines: line::Lines::default(),
            line_leases: leases::LineLeases::default(),
            seen: Revision::ABSENT,
            cold: cold::Cold::default(),
            forwards: forward::Forwards::default(),
            owners: Arc::default(),
            claims: claims::Claims::default(),
            moves: moves::Moves::default(),
            places: places::Places::default(),
            guards_swept: ShardId(0),
            heritages: heritage::Heritages::default(),
            survey: survey::Surveys::default(),
            wheel: wheel::Wheel::new(now),
            home_seen: false,
            wall_clock_ms: 0,
            survey_interval: limits::SURVEY_INTERVAL,
            old_tables: Vec::new(),
            cluster_id: None,
        }
    }

    /// Begins: asks for a session.
    pub fn start(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.now = now;
        self.start_session();
        effects.append(&mut self.out);
    }

    /// Handles inputs at `now`, which must not go back, and appends what is to be done. Inputs that
    /// come together are better given together: what they want to write shares a batch.
    pub fn handle(
        &mut self,
        now: Instant,
        inputs: impl IntoIterator<Item = Input>,
        effects: &mut Vec<Effect>,
    ) {
        self.now = self.now.max(now);
        self.void_lapsed_proofs();
        for input in inputs {
            match input {
                Input::Acquire(ticket, shard, acquire) => self.on_acquire(ticket, shard, acquire),
                Input::Renew(ticket, shard, renew) => {
                    self.on_forward(ticket, shard, Forward::Renew(renew), Via::CLIENT);
                }
                Input::Release(ticket, shard, release) => {
                    self.on_forward(ticket, shard, Forward::Release(release), Via::CLIENT);
                }
                Input::ForceRelease(ticket, shard, force) => {
                    self.on_force_release(ticket, shard, force);
                }
                Input::Forwarded(ticket, shard, forward) => {
                    self.on_forward(ticket, shard, forward, Via::Gateway);
                }
                Input::NotTheirs(ticket, shard, forward, asked) => {
                    self.on_forward(ticket, shard, forward, Via::after(asked));
                }
                Input::Word(from, word) => self.on_word(&from, word),
                Input::Onward(ticket, onward) => self.on_onward(ticket, *onward),
                Input::ForwardAnswered(ticket, outcome) => {
                    self.on_forward_answered(ticket, outcome);
                }
                Input::Heritage(heritage) => self.on_heritage(heritage),
                Input::Abandoned(ticket) => self.on_abandoned(ticket),
                Input::Undelivered(lock_id) => self.on_undelivered(&lock_id),
                Input::Freed(name, key) => self.on_freed(&name, &key),
                Input::SessionEnded => self.round.want_soon(self.now),
                Input::Reply(call, result) => self.on_reply(call, result),
                Input::Tick => self.on_tick(),
                Input::HomeSeen => self.home_seen = true,
                Input::ClockJumped => {
                    // What a round has asked so far was sent by the old clock.
                    self.round.reset();
                    self.void_all_proofs("the machine's clocks jumped");
                }
                Input::Stop => self.stop(),
            }
        }
        self.pump();
        self.check_invariants();
        effects.append(&mut self.out);
    }

    /// Whether any request waits for a name.
    pub fn has_waiters(&self) -> bool {
        self.lines.len() > 0
    }

    /// When the next [`Input::Tick`] is wanted.
    pub fn next_wakeup(&self) -> Instant {
        let housekeeping = self.round.next_wakeup();
        [
            self.later.next_wakeup(),
            self.wheel.next_wakeup(),
            self.tickets.next_wakeup(),
            self.moves_wakeup(),
            self.lines.next_wakeup(),
        ]
        .into_iter()
        .flatten()
        .fold(housekeeping, Instant::min)
        .max(self.now)
    }

    /// The groups of other gateways, as this engine comes to know them.
    pub fn owners(&self) -> Arc<Owners> {
        Arc::clone(&self.owners)
    }

    /// What happened so far, for metrics.
    pub fn stats(&self) -> Arc<EngineStats> {
        Arc::clone(&self.stats)
    }

    fn on_tick(&mut self) {
        self.expire_due();
        self.run_later();
        self.keep_lines();
        self.time_out_tickets();
        self.keep_round();
        self.keep_groups();
        self.keep_moves();
        self.keep_survey();
        self.publish_gauges();
    }

    /// Sets what the wall clock shows at the engine's time zero, in Unix milliseconds. It is written
    /// into records for those who inspect locks; nothing is decided by it.
    pub fn set_wall_clock(&mut self, at_zero_unix_ms: u64) {
        self.wall_clock_ms = at_zero_unix_ms;
    }

    /// Compares the keys on a group's lease with its table so often, from the next group on.
    pub fn set_survey_interval(&mut self, interval: Millis) {
        self.survey_interval = interval;
    }

    /// Whether this deliberate mistake is made; never without the feature `mutations`.
    pub(crate) fn mutated(&self, mutation: Mutation) -> bool {
        self.proof.mutated(mutation)
    }

    fn is_proven(&self) -> bool {
        self.proof.is_proven(self.now)
    }
}
