//! Asking gateways, with patience.

use crate::args::{ConnectionArgs, WantedArgs};
use crate::complain;
use crate::failure::Failure;
use crate::limits::WAIT_PER_REQUEST;
use holdfast_api::RefusalReason;
use holdfast_client::{
    Acquire, BootClock, Client, ClientConfig, Clock as _, Error, Granted, Refused, TransportConfig,
};
use rand::TryRng as _;
use rand::rngs::SysRng;
use std::cell::Cell;
use std::time::Duration;

/// A client, and how long it asks.
pub(crate) struct Asking {
    pub(crate) client: Client,
    patience: Duration,
}

impl Asking {
    /// Connects to nothing yet. Without a client id it makes one up.
    ///
    /// # Errors
    /// When token or certificates cannot be used.
    pub(crate) fn new(args: &ConnectionArgs, client_id: Option<&str>) -> Result<Self, Failure> {
        let mut transport = TransportConfig::new(args.target.clone());
        transport.access = args.access().load(&args.target)?;
        let client_id = client_id.map_or_else(own_id, ToOwned::to_owned);
        Ok(Self {
            client: Client::new(ClientConfig::new(client_id, transport)),
            patience: *args.patience,
        })
    }

    /// Makes a call, and repeats it while nothing is known, after it has said so.
    ///
    /// # Errors
    /// The call's last error.
    pub(crate) async fn ask<T, F>(&self, mut call: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let patience = humantime::format_duration(self.patience);
        let told = Cell::new(false);
        let told = &told;
        let calling = self.client.retrying(self.patience, || {
            let (asked, patience) = (call(), &patience);
            async move {
                let outcome = asked.await;
                if let Err(error) = &outcome
                    && error.may_retry()
                    && !told.replace(true)
                {
                    complain(format_args!("{error}; asking again for up to {patience}"));
                }
                outcome
            }
        });
        calling.await
    }

    /// Takes a lock, queueing for as long as was asked for.
    ///
    /// # Errors
    /// [`Error::Refused`] when someone else has it all the while.
    pub(crate) async fn acquire(&self, wanted: &Acquire) -> Result<Granted, Error> {
        let clock = BootClock;
        let end = clock.now() + wanted.wait;
        loop {
            let wait = end.since(clock.now()).min(WAIT_PER_REQUEST);
            let request_id = wanted.request_id.clone();
            let one = Acquire {
                wait,
                request_id: Some(request_id.unwrap_or_else(|| random_hex(16))),
                ..wanted.clone()
            };
            match self.ask(|| self.client.acquire(&one)).await {
                Err(Error::Refused(Refused::Taken(RefusalReason::Timeout)))
                    if clock.now() < end => {}
                outcome => return outcome,
            }
        }
    }
}

impl WantedArgs {
    pub(crate) fn acquire(&self) -> Acquire {
        let metadata = self.metadata.iter().cloned();
        Acquire {
            wait: *self.wait,
            metadata: metadata.map(|pair| (pair.key, pair.value)).collect(),
            ..Acquire::new(&self.name, *self.ttl)
        }
    }
}

/// Tells those who inspect a lock where to look, and is nobody else's.
fn own_id() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (host, process) = (host.trim(), std::process::id());
    format!("lockctl-{host}-{process}-{}", random_hex(8))
}

fn random_hex(digits: usize) -> String {
    // Without randomness the process id, which stands beside it or beside a client id, has to do.
    let number = SysRng.try_next_u64().unwrap_or_default();
    let mut text = format!("{number:016x}");
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_the_process_and_no_two_are_alike() {
        let (one, other) = (own_id(), own_id());
        assert!(one.contains(&format!("-{}-", std::process::id())), "{one}");
        assert_ne!(one, other);
        assert!(one.len() <= 256);
    }
}
