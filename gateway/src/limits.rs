//! Every limit, with its unit in its name and the relations between them checked.

use crate::time::Millis;

/// Longest lock name.
pub const NAME_BYTES_MAX: usize = 512;
/// Longest client id.
pub const CLIENT_ID_BYTES_MAX: usize = 256;
/// Longest request id.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Metadata of a lock: keys and values together.
pub const METADATA_BYTES_MAX: usize = 1024;
/// Shortest TTL that may be configured or asked for.
pub const TTL_MIN: Millis = Millis::from_ms(1_000);
/// Longest TTL at default settings.
pub const TTL_MAX: Millis = Millis::from_secs(600);
/// Items of one batch request.
pub const BATCH_ITEMS_MAX: usize = 10_000;
/// Body of one batch request.
pub const BATCH_BODY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Body of any other request: the longest fields, escaped, with room to spare.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Header section of a request.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;
/// Longest wait that a client may ask for at default settings.
pub const WAIT_MAX: Millis = Millis::from_secs(30);
