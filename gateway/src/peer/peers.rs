//! The other gateways that this one asks.

use crate::engine::{Heritage, Owner};
use crate::limits;
use crate::peer::dial::{Asked, LinkTask};
use crate::peer::handshake::PeerSecret;
use crate::peer::wire::{Frame, Left};
use crate::service::{Forward, ForwardOutcome, Forwarding};
use crate::time::Clock;
use crate::tls::ClientTls;
use dashmap::DashMap;
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

/// Links to other gateways by their URL; one is made when it is first needed and forgotten when it
/// was not needed for long.
pub struct Peers<C> {
    secret: PeerSecret,
    tls: Option<Arc<ClientTls>>,
    clock: Arc<C>,
    links: Arc<Links>,
}

pub(super) type Links = DashMap<Arc<str>, mpsc::Sender<Asked>>;

impl<C: Clock> Peers<C> {
    /// None is asked so far. With `tls`, only gateways are that speak it.
    pub fn new(secret: PeerSecret, tls: Option<Arc<ClientTls>>, clock: Arc<C>) -> Self {
        Self {
            secret,
            tls,
            clock,
            links: Arc::default(),
        }
    }

    fn link(&self, url: &Arc<str>) -> mpsc::Sender<Asked> {
        if let Some(link) = self.links.get(url) {
            return link.clone();
        }
        let entry = self.links.entry(Arc::clone(url)).or_insert_with(|| {
            let (asks, asked) = mpsc::channel(limits::FORWARDS_PER_CLUSTER_MAX);
            let task = LinkTask::new(
                Arc::clone(url),
                self.secret.clone(),
                self.tls.clone(),
                Arc::clone(&self.clock),
                Arc::downgrade(&self.links),
            );
            tokio::spawn(task.run(asked));
            asks
        });
        entry.clone()
    }
}

impl<C: Clock> Peers<C> {
    fn ask(&self, owner: &Owner, mut asked: Asked) {
        // A link that was just forgotten is made again.
        for _ in 0..2 {
            match self.link(&owner.peer_url).try_send(asked) {
                Ok(()) | Err(TrySendError::Full(_)) => break,
                Err(TrySendError::Closed(back)) => asked = back,
            }
        }
    }
}

impl<C: Clock> Forwarding for Peers<C> {
    fn forward(
        &self,
        owner: &Owner,
        cluster: &Arc<str>,
        forward: Forward,
    ) -> oneshot::Receiver<ForwardOutcome> {
        let (asker, answer) = oneshot::channel();
        // What could not be asked has no answer, which is what a dropped asker says.
        self.ask(
            owner,
            Asked::Forward(Arc::clone(cluster), Box::new(forward), asker),
        );
        answer
    }

    fn bequeath(&self, owner: &Owner, cluster: &Arc<str>, heritage: Heritage) {
        let left = Frame::Left(Left::new(cluster, &heritage));
        self.ask(owner, Asked::Tell(left));
    }
}
