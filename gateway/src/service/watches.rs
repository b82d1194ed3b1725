//! Keys that are watched until they are deleted, one for a name.

use crate::names::LockName;
use holdfast_store::{Key, Revision, Store};
use std::collections::HashMap;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What was watched is gone, or is not watched any more.
pub(super) struct Freed {
    pub(super) name: LockName,
    pub(super) key: Key,
    watch: u64,
}

/// See the module. What is watched when this is dropped is watched no more.
pub(super) struct Watches {
    running: HashMap<LockName, Running>,
    /// How many have begun.
    begun: u64,
    freed: mpsc::UnboundedSender<Freed>,
}

struct Running {
    watch: u64,
    task: AbortHandle,
}

impl Watches {
    /// Says in `freed` what is deleted.
    pub(super) fn new(freed: mpsc::UnboundedSender<Freed>) -> Self {
        Self {
            running: HashMap::new(),
            begun: 0,
            freed,
        }
    }

    /// Watches this key from after that revision on, instead of what was watched for the name.
    pub(super) fn begin(&mut self, store: &dyn Store, name: LockName, key: Key, from: Revision) {
        let gone = store.gone(key.clone(), from);
        self.begun += 1;
        let (freed, watch) = (self.freed.clone(), self.begun);
        let told = Freed {
            name: name.clone(),
            key,
            watch,
        };
        let watching = tokio::spawn(async move {
            gone.await;
            // The engine may have ended.
            let _ = freed.send(told);
        });
        let running = Running {
            watch,
            task: watching.abort_handle(),
        };
        if let Some(before) = self.running.insert(name, running) {
            before.task.abort();
        }
    }

    pub(super) fn end(&mut self, name: &LockName) {
        if let Some(running) = self.running.remove(name) {
            running.task.abort();
        }
    }

    /// Forgets a watch that has ended, if another has not taken its place.
    pub(super) fn ended(&mut self, freed: &Freed) {
        let running = self.running.get(&freed.name);
        if running.is_some_and(|running| running.watch == freed.watch) {
            self.running.remove(&freed.name);
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.running
            .values()
            .for_each(|running| running.task.abort());
    }
}
