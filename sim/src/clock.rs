//! What a gateway's clock shows, as the engine takes it.

use holdfast_gateway::time::Instant;
pub(crate) use holdfast_judge::{PartyClock, Real};

/// See the module.
pub(crate) trait Shows {
    /// What it shows at `real`.
    fn instant(&self, real: Real) -> Instant;
}

impl Shows for PartyClock {
    fn instant(&self, real: Real) -> Instant {
        Instant::from_ms(self.read(real))
    }
}
