//! A batch while it is being filled, with etcd's limits in view.

use crate::engine::acquire::Grant;
use crate::engine::bundle::{Bundle, Common};
use crate::engine::writes::WriteOp;
use crate::limits;
use holdfast_store::Key;
use std::collections::HashMap;

/// What a part of a batch may fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    ops: usize,
    bundles: usize,
}

impl Share {
    /// So many quarters of the whole.
    pub(crate) const fn quarters(quarters: usize) -> Self {
        Self {
            ops: limits::BATCH_OPS_MAX * quarters / 4,
            bundles: limits::BATCH_BUNDLES_MAX * quarters / 4,
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    bundles: Vec<Bundle>,
    /// By what is in common: the bundle that was begun last.
    begun: HashMap<Common, usize>,
    /// The keys that are written, and where.
    keys: HashMap<Key, (usize, usize)>,
    bytes: usize,
}

impl Filling {
    /// Whether one more write, of whatever kind, stays within this share.
    pub(crate) fn has_room(&self, share: Share) -> bool {
        self.keys.len() < share.ops && self.bundles.len() < share.bundles
    }

    /// Whether a write to this key, with so many bytes, may be in this batch. No key is written
    /// twice.
    pub(crate) fn admits(&self, key: &Key, bytes: usize) -> bool {
        let fits = self.keys.is_empty() || self.bytes + bytes <= limits::BATCH_BYTES_MAX;
        fits && !self.keys.contains_key(key)
    }

    pub(crate) fn push(&mut self, key: Key, op: WriteOp) {
        let common = Common::of(&op);
        self.bytes += match &op {
            WriteOp::Grant(grant) => grant.job.bytes(),
            WriteOp::Copy(put) => put.bytes(),
            _ => 0,
        };
        let begun = match common {
            Common::Nothing => None,
            _ => self.begun.get(&common).copied(),
        };
        let has_room = |at: &usize| {
            let bundle = self.bundles.get(*at);
            bundle.is_some_and(|bundle| bundle.ops.len() < limits::BUNDLE_OPS_MAX)
        };
        let at = begun.filter(has_room).unwrap_or(self.bundles.len());
        if at == self.bundles.len() {
            self.begun.insert(common, at);
            self.bundles.push(Bundle {
                common,
                ops: Vec::new(),
            });
        }
        if let Some(bundle) = self.bundles.get_mut(at) {
            self.keys.insert(key, (at, bundle.ops.len()));
            bundle.ops.push(op);
        }
    }

    /// The grant of this key, if there is one.
    pub(crate) fn grant_of(&mut self, key: &Key) -> Option<&mut Grant> {
        let (bundle, at) = self.keys.get(key)?;
        match self.bundles.get_mut(*bundle)?.ops.get_mut(*at)? {
            WriteOp::Grant(grant) => Some(grant),
            _ => None,
        }
    }

    pub(crate) fn into_bundles(self) -> Vec<Bundle> {
        self.bundles
    }
}
