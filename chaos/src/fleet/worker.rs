//! Workers: clients that acquire, hold, write, oversleep, cheat and give back, until they are told
//! to stop.

use super::client::{ANSWER_TIMEOUT, Client, Held};
use super::hostile::Hostility;
use super::reply::Answer;
use crate::court::Court;
use holdfast_client::Target;
use http::HeaderValue;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Of these TTLs is a worker's hold.
const TTLS_MS: [u64; 3] = [3_000, 5_000, 8_000];
/// Between two things that a worker does.
const IDLE_MS: RangeInclusive<u64> = 20..=400;
/// So long do those wait in line who do.
const WAIT_MS: RangeInclusive<u64> = 100..=6_000;
/// Before an unanswered request is repeated.
const RETRY_MS: RangeInclusive<u64> = 50..=400;
/// So often is a release repeated before its client disappears.
const RELEASES_MAX: u32 = 20;
/// So many answers "held" or unknown, and a worker turns to another name.
const TRIES_MAX: u32 = 12;
/// A renewal or release that is cut off is so within this.
const CUT_MS_MAX: u64 = 20;
/// A try for a lock is, with all its requests.
const ACQUIRE_CUT_MS_MAX: u64 = 2_000;
/// A hold that nobody is told about after its end is given up after so much more.
const GRACE_MS: u64 = 3_000;

/// How many clients, for how many names, and what they are like.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Workers, each with one request at a time.
    pub workers: usize,
    /// Names; every other acquire is of the first eighth of them.
    pub names: usize,
    /// Of so many tries for a lock, renewals and releases one is cut off at any moment: the client
    /// disconnects.
    pub cut_one_in: Option<u32>,
    /// The workers' credentials; they take them in turn.
    pub bearers: Vec<HeaderValue>,
}

impl FleetOptions {
    /// Workers that do not disconnect, and show no credentials.
    #[must_use]
    pub fn new(workers: usize, names: usize) -> Self {
        Self {
            workers,
            names,
            cut_one_in: None,
            bearers: Vec::new(),
        }
    }
}

/// What workers are told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What they like.
    Free,
    /// Those who hold go on, and behave; the others stop.
    Hold,
    /// Those who hold give it back; then all stop.
    Release,
}

/// All workers.
#[derive(Debug)]
pub struct Fleet {
    stage: watch::Sender<Stage>,
    workers: JoinSet<()>,
}

impl Fleet {
    /// Starts the workers, whose habits are drawn from the seed.
    #[must_use]
    pub fn start(
        court: &Arc<Court>,
        targets: &[Target],
        options: &FleetOptions,
        seed: u64,
        prefix: &Arc<str>,
    ) -> Self {
        let (stage, seen) = watch::channel(Stage::Free);
        let mut workers = JoinSet::new();
        for number in 0..options.workers {
            let mix = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let dice = StdRng::seed_from_u64(seed ^ mix);
            let prefix = Arc::clone(prefix);
            let mut client = Client::new(Arc::clone(court), number, prefix, targets);
            if !options.bearers.is_empty() {
                client = client.with_bearer(&options.bearers[number % options.bearers.len()]);
            }
            let worker = Worker {
                client,
                dice,
                names: options.names,
                cut_one_in: options.cut_one_in,
                gateway: number % targets.len(),
                // Every third one asks whichever gateway comes next, as through a load balancer.
                is_spread: number % 3 == 0,
                stage: seen.clone(),
            };
            workers.spawn(worker.run());
        }
        Self { stage, workers }
    }

    /// Those who hold go on holding; the others stop.
    pub fn hold(&self) {
        self.stage.send_replace(Stage::Hold);
    }

    /// Everyone gives back and stops; returns when all have.
    pub async fn release(mut self) {
        self.stage.send_replace(Stage::Release);
        while self.workers.join_next().await.is_some() {}
    }
}

struct Worker {
    client: Client,
    dice: StdRng,
    names: usize,
    cut_one_in: Option<u32>,
    gateway: usize,
    is_spread: bool,
    stage: watch::Receiver<Stage>,
}

impl Worker {
    async fn run(mut self) {
        while self.is_free() {
            let cut_after = self.cut_after(ACQUIRE_CUT_MS_MAX);
            match cut_off(cut_after, self.acquire()).await {
                Some(Some(held)) => self.hold(held).await,
                Some(None) => {}
                None => {
                    // Nobody will ever know whether it was granted.
                    self.client.court().count(|counts| counts.cut_off += 1);
                    self.client.become_another();
                }
            }
            self.pause(IDLE_MS).await;
        }
    }

    fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    fn is_free(&self) -> bool {
        self.stage() == Stage::Free
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.dice.random_range(0..times) == 0
    }

    async fn pause(&mut self, ms: RangeInclusive<u64>) {
        let ms = self.dice.random_range(ms);
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn turn(&mut self) {
        self.gateway = (self.gateway + 1) % self.client.gateways();
    }

    /// When the client is to disconnect, if it is to.
    fn cut_after(&mut self, longest_ms: u64) -> Option<Duration> {
        let times = self.cut_one_in.filter(|_| self.is_free())?;
        let after = self.dice.random_range(0..=longest_ms);
        self.one_in(times).then_some(Duration::from_millis(after))
    }

    /// Which gateway is asked next, and sometimes a second one at the same time.
    fn through(&mut self) -> (usize, Option<usize>) {
        if self.is_spread {
            self.turn();
        }
        let also = self.is_free() && self.one_in(40);
        let other = (self.gateway + 1) % self.client.gateways();
        (self.gateway, also.then_some(other))
    }

    async fn acquire(&mut self) -> Option<Held> {
        let hot = (self.names / 8).max(1);
        let most = if self.one_in(2) { hot } else { self.names };
        let name = self.dice.random_range(0..most);
        let ttl_ms = TTLS_MS[self.dice.random_range(0..TTLS_MS.len())];
        let waits = self.one_in(3);
        for _ in 0..TRIES_MAX {
            if !self.is_free() {
                return None;
            }
            let (through, also) = self.through();
            let (answer, held) = match waits {
                true => self.wait_in_line(through, name, ttl_ms).await,
                false => self.client.acquire(through, also, name, ttl_ms).await,
            };
            match answer {
                Answer::Granted { .. } => return held,
                Answer::Unknown(_) => {
                    self.turn();
                    self.pause(RETRY_MS).await;
                }
                _ => self.pause(50..=500).await,
            }
        }
        None
    }

    /// Some go away before they are answered, and come back.
    async fn wait_in_line(
        &mut self,
        through: usize,
        name: usize,
        ttl_ms: u64,
    ) -> (Answer, Option<Held>) {
        let wait_ms = self.dice.random_range(WAIT_MS);
        let goes_after = self.dice.random_range(10..=wait_ms);
        let goes_after = self.one_in(4).then_some(Duration::from_millis(goes_after));
        self.client.court().count(|counts| counts.waits += 1);
        let patience = Duration::from_millis(wait_ms) + ANSWER_TIMEOUT;
        let asking = self
            .client
            .acquire_in_line(through, name, ttl_ms, wait_ms, patience);
        if let Some(answered) = cut_off(goes_after, asking).await {
            return answered;
        }
        let court = self.client.court();
        court.count(|counts| counts.waits_cancelled += 1);
        (Answer::Unknown("its client went away".to_owned()), None)
    }

    async fn hold(&mut self, mut held: Held) {
        let renewals = self.dice.random_range(0..=6);
        self.client.court().write(held.no);
        for _ in 0..renewals {
            if self.stage() != Stage::Free {
                break;
            }
            if self.one_in(30) {
                self.oversleep(&held).await;
                return self.release(held).await;
            }
            if self.one_in(10) {
                self.cheat(&held).await;
            }
            if !self.renew_in_time(&mut held).await {
                return;
            }
        }
        while self.stage() == Stage::Hold {
            self.client.court().must_be_promised(held.no);
            if !self.renew_in_time(&mut held).await {
                return;
            }
        }
        if self.is_free() && self.one_in(12) {
            self.client.court().given_up(self.client.who(), held.no);
            self.client.become_another();
            return;
        }
        self.release(held).await;
    }

    /// Waits until it is time, renews and writes. Whether the hold goes on.
    async fn renew_in_time(&mut self, held: &mut Held) -> bool {
        let after = if self.one_in(5) {
            self.dice.random_range(1..=100)
        } else {
            held.renew_after_ms
        };
        let waiting = tokio::time::sleep(Duration::from_millis(after));
        let stage = self.stage();
        tokio::select! {
            () = waiting => {}
            _ = self.stage.wait_for(|now| *now != stage) => {}
        }
        let patience = Duration::from_millis(held.ttl_ms + GRACE_MS);
        let asking = self.renew(held);
        match tokio::time::timeout(patience, asking).await {
            Ok(goes_on) => goes_on,
            Err(_) => {
                self.client.court().given_up(self.client.who(), held.no);
                self.client.become_another();
                false
            }
        }
    }

    /// Renews until the answer is definite.
    async fn renew(&mut self, held: &mut Held) -> bool {
        loop {
            let (through, also) = self.through();
            let cut_after = self.cut_after(CUT_MS_MAX);
            let asking = self.client.renew(through, also, held);
            match cut_off(cut_after, asking).await {
                Some(Answer::Renewed(_)) => {
                    self.client.court().write(held.no);
                    return true;
                }
                Some(Answer::Ended(_)) => return false,
                _ => {
                    self.turn();
                    self.pause(RETRY_MS).await;
                }
            }
        }
    }

    /// It sleeps past the end of its hold, wakes and writes.
    async fn oversleep(&mut self, held: &Held) {
        self.client.court().count(|counts| counts.overslept += 1);
        let asleep = held.ttl_ms + self.dice.random_range(100..=3_000);
        tokio::time::sleep(Duration::from_millis(asleep)).await;
        self.client.court().write(held.no);
    }

    async fn cheat(&mut self, held: &Held) {
        let how = Hostility::ALL[self.dice.random_range(0..Hostility::ALL.len())];
        let (through, _) = self.through();
        self.client.ask_wrongly(through, held, how).await;
    }

    async fn release(&mut self, held: Held) {
        for _ in 0..RELEASES_MAX {
            let (through, also) = self.through();
            let cut_after = self.cut_after(CUT_MS_MAX);
            let asking = self.client.release(through, also, &held);
            match cut_off(cut_after, asking).await {
                Some(Answer::Released | Answer::Mismatch) => {
                    self.renew_what_is_released(held).await;
                    return;
                }
                _ => {
                    self.turn();
                    self.pause(RETRY_MS).await;
                }
            }
        }
        // An unanswered release could still arrive, and would free the next hold of this client.
        self.client.become_another();
    }

    /// Sometimes; the judge knows what the answer must not be.
    async fn renew_what_is_released(&mut self, mut held: Held) {
        if self.is_free() && self.one_in(6) {
            let (through, _) = self.through();
            self.client.renew(through, None, &mut held).await;
        }
    }
}

/// The answer, unless the client disconnects before.
async fn cut_off<T>(after: Option<Duration>, asking: impl Future<Output = T>) -> Option<T> {
    match after {
        Some(after) => tokio::time::timeout(after, asking).await.ok(),
        None => Some(asking.await),
    }
}
