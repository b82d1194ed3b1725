//! Something that many wait for and one task makes: a connection, a token.

use parking_lot::Mutex;
use std::future::Future;
use tokio::sync::watch;

/// Which of the values made so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Generation(u64);

/// A value that is made when it is first wanted, shared by all who want it, and made anew once it
/// is discarded. A failure is told to those who waited for it, and then forgotten.
///
/// A task of its own makes it, so that those who give up waiting do not stop it for the others.
#[derive(Debug)]
pub(super) struct Flight<T, E> {
    state: Mutex<State<T, E>>,
}

type Outcome<T, E> = watch::Receiver<Option<Result<T, E>>>;

#[derive(Debug)]
struct State<T, E> {
    generation: Generation,
    outcome: Option<Outcome<T, E>>,
}

/// The maker ended without a value: it panicked, or the runtime is shutting down.
#[derive(Debug)]
pub(super) struct Abandoned;

impl<T, E> Flight<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + From<Abandoned> + Send + Sync + 'static,
{
    /// Nothing is made yet.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                generation: Generation::default(),
                outcome: None,
            }),
        }
    }

    /// The present value, or the one that is being made, or else the one that `make` makes, which
    /// must end by itself within bounded time.
    pub(super) async fn get<F>(&self, make: impl FnOnce() -> F) -> Result<(T, Generation), E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (generation, mut outcome) = self.join_or_start(make);
        let made = match outcome.wait_for(Option::is_some).await {
            Ok(made) => made.clone(),
            Err(_) => None,
        };
        match made {
            Some(made) => made.map(|value| (value, generation)),
            None => Err(Abandoned.into()),
        }
    }

    /// The value of this generation is of no use any more.
    pub(super) fn discard(&self, generation: Generation) {
        let mut state = self.state.lock();
        if state.generation == generation {
            state.outcome = None;
        }
    }

    fn join_or_start<F>(&self, make: impl FnOnce() -> F) -> (Generation, Outcome<T, E>)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            let is_good = match &*outcome.borrow() {
                Some(made) => made.is_ok(),
                None => outcome.has_changed().is_ok(),
            };
            if is_good {
                return (state.generation, outcome.clone());
            }
        }
        let (tell, outcome) = watch::channel(None);
        let making = make();
        tokio::spawn(async move {
            let made = making.await;
            tell.send_replace(Some(made));
        });
        state.generation.0 += 1;
        state.outcome = Some(outcome.clone());
        (state.generation, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::Notify;

    #[derive(Debug, Clone, PartialEq)]
    struct Broken(&'static str);

    impl From<Abandoned> for Broken {
        fn from(_: Abandoned) -> Self {
            Self("abandoned")
        }
    }

    type Number = Flight<u32, Broken>;

    async fn get(flight: &Number, value: Result<u32, Broken>) -> Result<u32, Broken> {
        let made = flight.get(|| async move { value }).await;
        made.map(|(value, _)| value)
    }

    #[tokio::test]
    async fn a_value_is_made_once_and_shared_until_it_is_discarded() {
        let flight = Number::new();
        let (value, generation) = flight.get(|| async { Ok(1) }).await.unwrap();
        assert_eq!(value, 1);
        assert_eq!(get(&flight, Ok(2)).await, Ok(1));
        flight.discard(generation);
        assert_eq!(get(&flight, Ok(3)).await, Ok(3));
        flight.discard(generation);
        assert_eq!(get(&flight, Ok(4)).await, Ok(3), "an older discard is late");
    }

    #[tokio::test]
    async fn those_who_wait_together_get_one_failure_and_the_next_tries_anew() {
        let flight = Number::new();
        let attempts = Arc::new(AtomicU32::new(0));
        let fail = || {
            let attempts = Arc::clone(&attempts);
            async move {
                attempts.fetch_add(1, Ordering::Relaxed);
                Err(Broken("refused"))
            }
        };
        let (first, second) = tokio::join!(flight.get(fail), flight.get(fail));
        assert_eq!(first, Err(Broken("refused")));
        assert_eq!(second, Err(Broken("refused")));
        assert_eq!(attempts.load(Ordering::Relaxed), 1);
        assert_eq!(get(&flight, Ok(5)).await, Ok(5));
    }

    #[tokio::test]
    async fn giving_up_does_not_stop_the_making_for_others() {
        let flight = Number::new();
        let go = Arc::new(Notify::new());
        let wait = {
            let go = Arc::clone(&go);
            async move {
                go.notified().await;
                Ok(6)
            }
        };
        let mut impatient = Box::pin(flight.get(|| wait));
        assert!(futures::poll!(&mut impatient).is_pending());
        drop(impatient);
        let (patient, ()) = tokio::join!(get(&flight, Ok(7)), async { go.notify_one() });
        assert_eq!(patient, Ok(6));
    }

    #[tokio::test]
    async fn a_maker_that_panics_is_an_error_and_the_next_tries_anew() {
        let flight = Number::new();
        let made = flight.get(|| async { panic!("on purpose") }).await;
        assert_eq!(made, Err(Broken("abandoned")));
        assert_eq!(get(&flight, Ok(8)).await, Ok(8));
    }
}
