//! Every limit of the map, with the relations between them checked.

/// Most shards that a map may have. Each costs a guard in etcd and a line in every gateway.
pub const SHARDS_MAX: u32 = 65_536;
/// Shards of a map when nobody says otherwise: enough to spread over some dozens of clusters
/// evenly, few enough to read.
pub const SHARDS_DEFAULT: u32 = 256;
/// Most clusters in a map.
pub const CLUSTERS_MAX: usize = 256;
/// Longest name of a cluster: a DNS label, so that it fits wherever labels do.
pub const CLUSTER_NAME_BYTES_MAX: usize = 63;
/// Most endpoints of one cluster.
pub const ENDPOINTS_MAX: usize = 32;
/// Longest endpoint.
pub const ENDPOINT_BYTES_MAX: usize = 512;
/// Longest path of a file that the map refers to.
pub const PATH_BYTES_MAX: usize = 1024;
/// Largest weight of a cluster.
pub const WEIGHT_MAX: u32 = 1_000_000;
/// Largest map document. etcd takes requests of 1.5 MiB at default settings, and the map's
/// transaction carries the document twice (as the present map and as history).
pub const MAP_BYTES_MAX: usize = 700 * 1024;
/// Longest lock name.
pub const NAME_BYTES_MAX: usize = 512;
/// Guards written by one transaction. etcd allows 128 operations, the nested compare and put of
/// each guard included.
pub const GUARDS_PER_TXN: usize = 100;
/// Shards that move at one time when nobody says otherwise: few enough that a gateway has only some
/// of its groups closed to grants, enough that the waits of one shard are used by others.
pub const MAX_MOVING_DEFAULT: u32 = 8;
/// Most shards that may move at one time.
pub const MAX_MOVING_MAX: u32 = 1_024;
/// How long a rollout waits for live gateways to come to a cluster where shards are to go, in
/// milliseconds: some connections and a session take less than a second.
pub const GATEWAY_WAIT_MS: u64 = 10_000;
/// How long a gateway that cannot come to a cluster may keep groups that have to go there, in
/// milliseconds. More than a session takes to be lost and to come back.
pub const GATEWAY_STRANDED_MS: u64 = 20_000;
/// What a forecast assumes a shard to take, whatever is in it: four writes of guards, each found by
/// the next look of the driver or of a gateway.
pub const SHARD_MOVE_SECONDS: u64 = 5;
/// What a forecast assumes to be copied per second by all gateways together.
pub const LOCKS_MOVED_PER_SECOND: u64 = 5_000;
/// Longest reason that an operator may give.
pub const REASON_BYTES_MAX: usize = 1_024;
/// The first number that is too large for a token base: JSON numbers are exact below it.
pub const TOKEN_END: u64 = 1 << 53;

const ETCD_REQUEST_BYTES: usize = 3 * 512 * 1024;
const ETCD_TXN_OPS: usize = 128;
const _: () = assert!(2 * MAP_BYTES_MAX + 64 * 1024 < ETCD_REQUEST_BYTES);
const _: () = assert!(GUARDS_PER_TXN + 2 <= ETCD_TXN_OPS);
// The table at its worst, every shard a range of its own: five digits and a comma each.
const _: () = assert!(SHARDS_MAX as usize * 6 < MAP_BYTES_MAX);
const _: () = assert!(MAX_MOVING_DEFAULT <= MAX_MOVING_MAX);
const _: () = assert!(GATEWAY_WAIT_MS < GATEWAY_STRANDED_MS);
const _: () = assert!(SHARDS_DEFAULT <= SHARDS_MAX);
