//! The command line, checked, and each worker's share of the run.

use crate::cli::RunArgs;
use crate::limits;
use holdfast_client::Target;
use std::time::Duration;

/// A run that makes sense.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) targets: Vec<Target>,
    /// The first target is every connection's own.
    pub(crate) prefer_first: bool,
    pub(crate) locks: u32,
    pub(crate) ttl: Duration,
    pub(crate) renew_every: Duration,
    pub(crate) duration: Duration,
    pub(crate) rate: Option<f64>,
    pub(crate) batch: usize,
    pub(crate) acquire_batch: usize,
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) name_prefix: String,
    pub(crate) seed: u32,
    pub(crate) timeout: Duration,
    pub(crate) keep: bool,
    pub(crate) contenders: usize,
    pub(crate) pollers: usize,
    pub(crate) churn: f64,
    pub(crate) stop_renewing: f64,
}

/// What one worker does of it.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    /// Which worker, from 0.
    pub(crate) worker: usize,
    /// The index in the run of the worker's first lock.
    pub(crate) first_lock: u32,
    /// How many locks it has.
    pub(crate) locks: u32,
    /// How many connections; at least one.
    pub(crate) connections: usize,
    /// The index in the run of its first connection.
    pub(crate) first_connection: usize,
    /// First acquires per second.
    pub(crate) rate: Option<f64>,
    /// Contenders for names that are held.
    pub(crate) contenders: usize,
    /// Tries of contenders that may be under way at one time, whatever they are for.
    pub(crate) pollers: usize,
    /// Churn per second; `None`: none.
    pub(crate) churn: Option<f64>,
}

impl Plan {
    /// Checks the arguments; `seed` is taken where none is given.
    ///
    /// # Errors
    /// With a text that names the argument.
    pub(crate) fn new(args: &RunArgs, seed: u32) -> Result<Self, String> {
        let ttl: Duration = args.ttl.into();
        let renew_every: Duration = args.renew_every.into();
        let one_of = |name: &str, value: usize, max: usize| {
            if (1..=max).contains(&value) {
                Ok(value)
            } else {
                Err(format!("--{name} {value}: wanted is 1 to {max}"))
            }
        };
        let not_negative = |name: &str, value: f64| {
            if value.is_finite() && value >= 0.0 {
                Ok(value)
            } else {
                Err(format!("--{name} {value}: wanted is a number from 0 up"))
            }
        };
        if !(1..=limits::LOCKS_MAX).contains(&args.locks) {
            return Err(format!("--locks: wanted is 1 to {}", limits::LOCKS_MAX));
        }
        if renew_every.is_zero() || renew_every >= ttl {
            return Err("--renew-every: must be above 0 and below --ttl".to_owned());
        }
        if args.name_prefix.is_empty() || args.name_prefix.len() > limits::PREFIX_BYTES_MAX {
            let max = limits::PREFIX_BYTES_MAX;
            return Err(format!("--name-prefix: wanted are 1 to {max} bytes"));
        }
        if args
            .rate
            .is_some_and(|rate| !rate.is_finite() || rate <= 0.0)
        {
            return Err("--rate: wanted is a number above 0".to_owned());
        }
        if not_negative("stop-renewing", args.stop_renewing)? > 1.0 {
            return Err("--stop-renewing: wanted is a part from 0 to 1".to_owned());
        }
        let connections = one_of("connections", args.connections, limits::CONNECTIONS_MAX)?;
        let threads = one_of("threads", args.threads, connections)?;
        if u32::try_from(threads).is_ok_and(|threads| threads > args.locks) {
            return Err("--threads: there must be a lock for each".to_owned());
        }
        Ok(Self {
            targets: args.target.clone(),
            prefer_first: args.prefer_first,
            locks: args.locks,
            ttl,
            renew_every,
            duration: args.duration.into(),
            rate: args.rate,
            batch: one_of("batch", args.batch, limits::BATCH_ITEMS_MAX)?,
            acquire_batch: one_of("acquire-batch", args.acquire_batch, limits::BATCH_ITEMS_MAX)?,
            connections,
            threads,
            name_prefix: args.name_prefix.clone(),
            seed: args.seed.unwrap_or(seed),
            timeout: args
                .timeout
                .map_or_else(|| default_timeout(ttl, renew_every), Into::into),
            keep: args.keep,
            contenders: args.contend,
            pollers: match args.contend {
                0 if args.stop_renewing > 0.0 => limits::POLLERS.max(threads),
                asked => asked,
            },
            churn: not_negative("churn", args.churn)?,
            stop_renewing: args.stop_renewing,
        })
    }

    /// One share per thread; together they are the whole.
    pub(crate) fn shares(&self) -> Vec<Share> {
        let of = |whole: usize, worker: usize| {
            whole * (worker + 1) / self.threads - whole * worker / self.threads
        };
        let before = |whole: usize, worker: usize| whole * worker / self.threads;
        let locks = usize::try_from(self.locks).unwrap_or(usize::MAX);
        let to_u32 = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let part = 1.0 / self.threads as f64;
        let shares = (0..self.threads).map(|worker| Share {
            worker,
            first_lock: to_u32(before(locks, worker)),
            locks: to_u32(of(locks, worker)),
            connections: of(self.connections, worker),
            first_connection: before(self.connections, worker),
            rate: self.rate.map(|rate| rate * part),
            contenders: of(self.contenders, worker),
            pollers: of(self.pollers, worker),
            churn: (self.churn > 0.0).then_some(self.churn * part),
        });
        shares.collect()
    }

    /// The name of a lock, by its index in the run.
    pub(crate) fn lock_name(&self, index: u32) -> String {
        format!("{}-{:08x}-{index:07}", self.name_prefix, self.seed)
    }

    /// Whether the lock's holder is one of those that stop.
    pub(crate) fn stops(&self, index: u32) -> bool {
        let mix =
            (u64::from(self.seed) << 32 | u64::from(index)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = u32::try_from((mix ^ (mix >> 29)) >> 32).unwrap_or(0);
        f64::from(bits) / f64::from(u32::MAX) < self.stop_renewing
    }

    /// The client id of a lock's holder.
    pub(crate) fn holder(&self, index: u32) -> String {
        let worker = index / limits::LOCKS_PER_CLIENT;
        format!("{}-{:08x}-w{worker}", self.name_prefix, self.seed)
    }

    /// The client id of those who contend for a lock: one per lock, so that a repeated try is a
    /// re-entry and not a rival.
    pub(crate) fn contender(&self, index: u32) -> String {
        format!("{}-{:08x}-c{index}", self.name_prefix, self.seed)
    }
}

/// A renewal that was sent in time and hangs leaves time for two more.
fn default_timeout(ttl: Duration, renew_every: Duration) -> Duration {
    ((ttl - renew_every) / 3).clamp(limits::TIMEOUT_MIN, limits::TIMEOUT_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    /// Arguments, with a target that nobody connects to.
    pub(crate) fn args(args: &str) -> RunArgs {
        let base = "loadgen run --target http://127.0.0.1:1 --seed 7";
        let all = base.split(' ').chain(args.split_whitespace());
        let Command::Run(args) = Cli::try_parse_from(all).unwrap().command else {
            unreachable!("the command is `run`");
        };
        *args
    }

    /// A plan from such arguments.
    pub(crate) fn plan(text: &str) -> Result<Plan, String> {
        Plan::new(&args(text), 0)
    }

    #[test]
    fn the_defaults_are_those_of_the_manual() {
        let plan = plan("--locks 10").unwrap();
        assert_eq!(plan.ttl, Duration::from_secs(30));
        assert_eq!(plan.renew_every, Duration::from_secs(10));
        assert_eq!(plan.duration, Duration::from_secs(60));
        assert_eq!(plan.timeout, Duration::from_secs(5));
        assert_eq!((plan.batch, plan.threads, plan.contenders), (1, 1, 0));
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused_by_name() {
        for (args, named) in [
            ("--locks 0", "--locks"),
            ("--locks 1 --renew-every 30s", "--renew-every"),
            ("--locks 1 --renew-every 0s", "--renew-every"),
            ("--locks 1 --batch 10001", "--batch"),
            ("--locks 1 --acquire-batch 0", "--acquire-batch"),
            ("--locks 1 --rate 0", "--rate"),
            ("--locks 1 --rate NaN", "--rate"),
            ("--locks 1 --stop-renewing 1.5", "--stop-renewing"),
            ("--locks 1 --churn inf", "--churn"),
            ("--locks 9 --threads 9 --connections 8", "--threads"),
            ("--locks 1 --threads 2", "--threads"),
        ] {
            let refused = plan(args).unwrap_err();
            assert!(refused.starts_with(named), "{args}: {refused}");
        }
    }

    #[test]
    fn shares_are_the_whole_and_do_not_overlap() {
        let plan =
            plan("--locks 10 --threads 3 --connections 8 --contend 4 --rate 90 --churn 3").unwrap();
        let shares = plan.shares();
        let mut next_lock = 0;
        let mut next_connection = 0;
        for share in &shares {
            assert_eq!(share.first_lock, next_lock);
            assert_eq!(share.first_connection, next_connection);
            assert!(share.connections >= 1 && share.locks >= 3);
            next_lock += share.locks;
            next_connection += share.connections;
            assert!((share.rate.unwrap() - 30.0).abs() < 1e-9);
            assert!((share.churn.unwrap() - 1.0).abs() < 1e-9);
        }
        assert_eq!((next_lock, next_connection), (10, 8));
        assert_eq!(
            shares.iter().map(|share| share.contenders).sum::<usize>(),
            4
        );
    }

    #[test]
    fn stopped_holders_need_contenders() {
        let plan = plan("--locks 1 --stop-renewing 0.5").unwrap();
        assert_eq!((plan.contenders, plan.pollers), (0, limits::POLLERS));
    }

    #[test]
    fn holders_and_contenders_have_different_client_ids() {
        let plan = plan("--locks 200").unwrap();
        assert_eq!(plan.lock_name(5), "loadgen-00000007-0000005");
        assert_eq!(plan.holder(99), plan.holder(0));
        assert_ne!(plan.holder(100), plan.holder(0));
        assert_ne!(plan.contender(0), plan.holder(0));
    }
}
