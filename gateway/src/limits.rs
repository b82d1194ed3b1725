//! Every limit, with its unit in its name and the relations between them checked.

use crate::time::Millis;

/// Longest lock name.
pub const NAME_BYTES_MAX: usize = 512;
/// Longest client id.
pub const CLIENT_ID_BYTES_MAX: usize = 256;
/// Longest request id.
pub const REQUEST_ID_BYTES_MAX: usize = 128;
/// Longest name of a principal.
pub const PRINCIPAL_BYTES_MAX: usize = 256;
/// Acquires per second of one principal at default settings: a tenth of what one etcd cluster
/// takes on small machines, so that no tenant fills it alone.
pub const PRINCIPAL_ACQUIRES_PER_S: u32 = 5_000;
/// Renewals and releases per second of one principal at default settings: a million locks every ten
/// seconds. A fleet must never lose locks to this, only a client that renews in a loop.
pub const PRINCIPAL_RENEWALS_PER_S: u32 = 100_000;
/// Locks of one principal at one gateway at default settings: as many as its budget keeps alive if each
/// is renewed every ten seconds.
pub const PRINCIPAL_LOCKS_MAX: u32 = 1_000_000;
/// Requests of one principal that wait in line at one gateway at once, at default settings: a quarter of
/// what a gateway takes for one cluster ([`WAITS_MAX`]).
pub const PRINCIPAL_WAITS_MAX: u32 = 4_096;
/// Most of these that may be configured, which is as good as none.
pub const ALLOWANCE_CONFIGURED_MAX: u32 = 100_000_000;
/// Buckets for addresses, some hundred bytes each.
pub const ADDRESS_BUCKETS: usize = 16_384;
/// Who asks too often is never told to come back sooner.
pub const RATE_RETRY_AFTER_MIN: Millis = Millis::from_ms(50);
/// Principals of a roll.
pub const PRINCIPALS_MAX: usize = 100_000;
/// Prefixes of one right of a principal: each request may compare its name with all of them.
pub const PREFIXES_MAX: usize = 64;
/// Files that are read anew when they change are looked at so often.
pub const RELOAD_INTERVAL: Millis = Millis::from_secs(1);
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

/// The service and the edge answer a request without a wait within this.
pub const ANSWER_MAX: Millis = Millis::from_secs(5);
/// Acquires or releases of one batch request that are under way at once.
pub const BATCH_CONCURRENCY_MAX: usize = 1_024;
/// Renewals of one batch that are answered in one go before other requests get their turn.
pub const BATCH_STRIDE_ITEMS: usize = 256;
/// Bodies that are still arriving, all together.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Headers of a request. The HTTP library parses so many without a heap allocation.
pub const HEADERS_MAX: usize = 100;
/// What one connection may buffer before its request is looked at.
pub const CONNECTION_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Open client connections at default settings: more file descriptors are rarely there
/// without asking the operating system for more.
pub const CONNECTIONS_MAX: u32 = 20_000;
/// Open files that are no client's connection: listeners, etcd, peers, logs, the runtime.
pub const FILES_BESIDE_CONNECTIONS: u64 = 1_024;
/// Connections past the limit that are told so, at once; those beyond are only closed.
pub const REFUSALS_MAX: usize = 64;
/// Connections of the admin listener.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Connections that wait to be accepted.
pub const ACCEPT_BACKLOG: u32 = 4_096;
/// From the first byte of a request to the end of its headers.
pub const HEADER_TIMEOUT: Millis = Millis::from_secs(10);
/// From the end of the headers to the end of the body.
pub const BODY_TIMEOUT: Millis = Millis::from_secs(10);
/// From a connection to the end of its TLS handshake: two round trips and some arithmetic.
pub const TLS_HANDSHAKE_TIMEOUT: Millis = Millis::from_secs(10);
/// Requests of one HTTP/2 connection that are under way at once: a client with more opens another.
pub const HTTP2_STREAMS_MAX: u32 = 128;
/// Requests of one HTTP/2 connection that were taken back and are still remembered; past it the
/// connection is ended.
pub const HTTP2_RESETS_PENDING_MAX: usize = 32;
/// Headers of an HTTP/2 request, each counted with 32 bytes more.
pub const HTTP2_HEADER_BYTES_MAX: u32 = 16 * 1024;
/// What is kept for one HTTP/2 request whose client does not read: replies to large batches wait
/// for it in pieces.
pub const HTTP2_SEND_BYTES_MAX: usize = 64 * 1024;
/// A reply up to this is not counted: with as many requests as a connection may have under way, 2 MiB.
pub const HTTP2_REPLY_BYTES_FREE: usize = 16 * 1024;
/// All larger replies to HTTP/2 requests that their clients have not taken yet.
pub const HTTP2_REPLIES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// An HTTP/2 connection is asked so often whether it is there.
pub const HTTP2_PING_INTERVAL: Millis = Millis::from_secs(30);
/// And is cut off when it does not answer in this time.
pub const HTTP2_PING_TIMEOUT: Millis = Millis::from_secs(10);
/// A connection on which nothing happens is kept for at least this and at most twice this. Longer
/// than a load balancer keeps its side (usually 60 s), or it would send into a closing one.
pub const IDLE_TIMEOUT: Millis = Millis::from_secs(90);
/// A client that takes no byte of its reply for this long is cut off.
pub const WRITE_TIMEOUT: Millis = Millis::from_secs(10);
/// How long a refused client may go on sending, so that it gets to read the refusal.
pub const LINGER_TIMEOUT: Millis = Millis::from_secs(2);
/// How much a refused client may go on sending.
pub const LINGER_BYTES_MAX: usize = 2 * BATCH_BODY_BYTES_MAX;
/// How often it is looked how hard it is to keep up.
pub const PRESSURE_INTERVAL: Millis = Millis::from_ms(100);
/// A look that comes so much later than planned means nothing: a busy machine that keeps up.
pub const PRESSURE_LATE_USUAL: Millis = Millis::from_ms(20);
/// One that comes so much later means that clients are to renew as late as they may.
pub const PRESSURE_LATE_FULL: Millis = Millis::from_ms(200);
/// And one that comes so much later that acquires are refused, if the one before did too.
pub const PRESSURE_LATE_REFUSED: Millis = Millis::from_ms(500);
/// Pressure falls by one part in so many at each look: to a third of it in three seconds.
pub const PRESSURE_FALL_LOOKS: u32 = 32;
/// When a refused client should come back.
pub const OVERLOADED_RETRY_AFTER: Millis = Millis::from_secs(1);
/// Pause after the operating system refused to hand over a connection.
pub const ACCEPT_RETRY: Millis = Millis::from_ms(100);
/// Between two log lines of one repeating kind.
pub const LOG_EVERY: Millis = Millis::from_secs(10);
/// A piece of client input that an error text repeats.
pub const ECHO_BYTES_MAX: usize = 64;

const _: () = {
    assert!(TTL_MIN.as_ms() < TTL_MAX.as_ms());
    assert!(PRINCIPAL_LOCKS_MAX <= 10 * PRINCIPAL_RENEWALS_PER_S);
    assert!(PRINCIPAL_LOCKS_MAX <= ALLOWANCE_CONFIGURED_MAX);
    // Every character of the longest fields may be escaped as six.
    let longest_fields = NAME_BYTES_MAX + CLIENT_ID_BYTES_MAX + REQUEST_ID_BYTES_MAX;
    assert!(BODY_BYTES_MAX > 6 * (longest_fields + METADATA_BYTES_MAX) + 1024);
    assert!(BODY_BYTES_MAX < BATCH_BODY_BYTES_MAX);
    assert!(BATCH_BODY_BYTES_MAX <= BODIES_BYTES_MAX);
    assert!(BATCH_STRIDE_ITEMS < BATCH_ITEMS_MAX && BATCH_CONCURRENCY_MAX < BATCH_ITEMS_MAX);
    // The HTTP library must be able to hold any header section that is let through to it.
    assert!(HEADER_BYTES_MAX < CONNECTION_BUFFER_BYTES_MAX);
    assert!(BATCH_BODY_BYTES_MAX < LINGER_BYTES_MAX);
    assert!(HEADER_TIMEOUT.as_ms() < IDLE_TIMEOUT.as_ms());
    assert!(PRESSURE_LATE_USUAL.as_ms() < PRESSURE_LATE_FULL.as_ms());
    assert!(PRESSURE_LATE_FULL.as_ms() < PRESSURE_LATE_REFUSED.as_ms());
    // A connection is not idle while its request is being answered.
    assert!(WAIT_MAX.as_ms() + ANSWER_MAX.as_ms() + BODY_TIMEOUT.as_ms() < IDLE_TIMEOUT.as_ms());
};

// The lease engine.

/// Subtracted from every proof beside 1 % of the TTL: scheduling and network of a keepalive.
pub const PROOF_MARGIN: Millis = Millis::from_ms(250);
/// Locks of one lease group. Puts on one etcd lease get slow beyond about this.
pub const GROUP_LOCKS_MAX: usize = 1000;
/// Lease groups of one gateway in one cluster.
pub const GROUPS_MAX: usize = 16_384;
/// Writes of one batch.
pub const BATCH_OPS_MAX: usize = 480;
/// Bundles of one batch: nested transactions, each with the writes into one group.
pub const BATCH_BUNDLES_MAX: usize = 92;
/// Writes of one bundle.
pub const BUNDLE_OPS_MAX: usize = 16;
/// Compares of a write in a bundle: a grant's, of lock and waiters.
pub const COMPARES_PER_WRITE: usize = 2;
/// The longest list in a write's own nested transaction inside a bundle: a waiter's compares of lock, own
/// key, and those before it; and what it does, put the lock, delete its key, and read who is next.
pub const NESTED_OPS_MAX: usize = 3;
/// After a name was asked for that was not free, the grants of its shard stand alone for so long.
pub const CONTENDED_TIME: Millis = Millis::from_ms(1_000);
/// Keys of one read, after a claim.
pub const READ_KEYS_MAX: usize = 120;
/// Keys of one nested read, when the writes of a batch with an unknown outcome are looked up.
pub const RESOLVED_AT_ONCE_MAX: usize = 96;
/// etcd's default `--max-txn-ops`.
pub const ETCD_TXN_OPS_MAX: usize = 128;
/// Values of one batch; etcd's default request limit is 1.5 MiB.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Batches on their way to one cluster.
pub const BATCHES_IN_FLIGHT_MAX: usize = 8;
/// Batches on their way to one cluster, as long as not enough waits to fill one more.
pub const SMALL_BATCHES_IN_FLIGHT_MAX: usize = 2;
/// Requests that wait for one cluster.
pub const OPEN_REQUESTS_MAX: usize = 65_536;
/// An open request is answered after this, with what is known: the API promises 5 s.
pub const REQUEST_TIMEOUT: Millis = Millis::from_ms(4_500);
/// A request that was forwarded to a gateway which does not own its lock is tried a second time if
/// no more time than this has passed: the second try may take as long as any request.
pub const SECOND_TRY_WITHIN: Millis = Millis::from_ms(400);
/// A call to etcd is given up after this.
pub const CALL_TIMEOUT: Millis = Millis::from_ms(4_000);
/// Between two tries of a step that failed.
pub const RETRY_BACKOFF: Millis = Millis::from_ms(200);
/// A request goes on from one cluster's engine to another's at most so often.
pub const ONWARD_HOPS_MAX: u8 = 200;
/// While a shard's guard in the cluster that it goes to is awaited, it is read this often.
pub const GUARD_WAIT: Millis = Millis::from_ms(50);
/// Before a request looks again at something that is about to change.
pub const LOOK_AGAIN: Millis = Millis::from_ms(20);
/// Tries of one acquire before it is answered with a 503.
pub const ACQUIRE_ATTEMPTS_MAX: u8 = 8;
/// Leases in one burst of keepalives.
pub const KEEPALIVE_BURST_MAX: usize = 2048;
/// While there are acquires, the space alarm is looked at this often.
pub const ALARM_INTERVAL: Millis = Millis::from_secs(2);
/// How often empty groups are looked for.
pub const TIDY_INTERVAL: Millis = Millis::from_secs(5);
/// An empty group is retired after this.
pub const GROUP_IDLE: Millis = Millis::from_secs(30);
/// The last open group of a shard is retired after this.
pub const LAST_GROUP_IDLE: Millis = Millis::from_secs(600);
/// How often the keys on a group's lease are compared with its table.
pub const SURVEY_INTERVAL: Millis = Millis::from_secs(900);
/// How often the guards of the shards that have groups are read: a move begins so late at most.
pub const GUARDS_INTERVAL: Millis = Millis::from_secs(2);
/// The guards of all other shards are read once in so many of these looks: what operators are shown is
/// true after about a minute.
pub const GUARDS_SWEEP_LOOKS: usize = 30;
/// After a group of one gateway has gone from one cluster to another, the next one waits so many times
/// as long as it took: moves take an eighth of the time.
pub const MOVE_REST_TIMES: u64 = 7;
/// The shortest such rest,
pub const MOVE_REST_MIN: Millis = Millis::from_ms(50);
/// and the longest: a rollout over slow clusters has an end too.
pub const MOVE_REST_MAX: Millis = Millis::from_secs(2);
/// Records of groups that arrive, in one batch: etcd carries out nothing else while it puts them.
pub const COPIES_PER_BATCH_MAX: usize = 96;
/// A group that is to arrive where its shard's guard does not admit it yet waits so long for that.
pub const PLACE_WAIT: Millis = Millis::from_ms(300);
/// A move that takes longer is undone, and tried again.
pub const MOVE_TIME_MAX: Millis = Millis::from_secs(10);
/// A group that arrives is looked for in the cluster that it comes from when it has not arrived
/// after this: whoever had the say over its move has given it up, or could not say that it is done.
pub const ARRIVAL_TIME_MAX: Millis = Millis::from_secs(30);
/// What another engine was asked in a move is asked again after this.
pub const MOVE_RETRY: Millis = Millis::from_ms(500);
/// Groups whose records are read at the same time after claims.
pub const LOADS_AT_ONCE_MAX: usize = 8;
/// Look-ups by name in one read; each reads the record and the shard's guard.
pub const COLD_BATCH_MAX: usize = 60;
/// Reads of look-ups on their way to one cluster.
pub const COLD_READS_IN_FLIGHT_MAX: usize = 2;
/// So many waiting look-ups mean that a whole fleet is asking.
pub const COLD_BUSY: usize = 4 * COLD_BATCH_MAX;
/// Groups of other gateways that are remembered in one cluster.
pub const FOREIGN_GROUPS_MAX: usize = 262_144;
/// A group whose session is gone is left to the gateway that it falls to for so long, before the
/// others try too.
pub const FIRST_CLAIM_TIME: Millis = Millis::from_ms(1_000);
/// A gateway that has stopped looks so often who has taken over.
pub const HEIRS_INTERVAL: Millis = Millis::from_ms(100);
/// It waits so long for every group to have an heir, after its session is given up.
pub const HEIRS_WAIT: Millis = Millis::from_secs(2);
/// While groups have no owner, it is looked so often who has claimed them,
pub const UNCLAIMED_INTERVAL: Millis = Millis::from_ms(200);
/// for so long after their session was seen to be gone.
pub const UNCLAIMED_TIME: Millis = Millis::from_secs(5);
/// What a gateway that stops has told is of use for so long.
pub const HERITAGE_TIME: Millis = Millis::from_secs(60);
/// Between two rounds that somebody asked for.
pub const WANTED_ROUND_INTERVAL: Millis = Millis::from_ms(100);
/// Requests about the locks of one cluster that one other gateway owes answers to.
pub const FORWARDS_PER_CLUSTER_MAX: usize = 16_384;
/// Between two frames with calls to another gateway: what a gateway pays is per frame.
pub const PEER_FRAME_INTERVAL: Millis = Millis::from_ms(2);
/// Frames that wait for a connection to another gateway, beside requests: a group each.
pub const UNTOLD_MAX: usize = GROUPS_MAX;
/// Requests in one frame to another gateway.
pub const CALLS_PER_FRAME_MAX: usize = 1_024;
/// One frame between gateways: the longest calls, and some.
pub const PEER_FRAME_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Requests of another gateway that are under way here at once, on one connection.
pub const PEER_CALLS_MAX: usize = 65_536;
/// Connections whose handshake is under way.
pub const PEER_HANDSHAKES_MAX: usize = 64;
/// One message of a handshake.
pub const PEER_GREETING_BYTES_MAX: usize = 64;
/// Connections of other gateways.
pub const PEER_CONNECTIONS_MAX: usize = 1_024;
/// Another gateway that owes answers is asked whether it is there when nothing was heard for so
/// long,
pub const PEER_PING_INTERVAL: Millis = Millis::from_ms(300);
/// and is given up when nothing was heard for so long.
pub const PEER_SILENCE_MAX: Millis = Millis::from_ms(1_000);
/// Another gateway that was given up is asked again after this.
pub const PEER_RETRY: Millis = Millis::from_ms(500);
/// For so long after that, requests do not wait for it to be reached again.
pub const PEER_FAILURE_COUNTS: Millis = Millis::from_secs(3);
/// The handshake of two gateways takes at most this.
pub const PEER_HANDSHAKE_TIMEOUT: Millis = Millis::from_ms(900);
/// A connection to another gateway on which nothing was asked for so long is closed.
pub const PEER_IDLE: Millis = Millis::from_secs(120);
/// Requests to inspect locks that are under way at once.
pub const INSPECTIONS_MAX: usize = 64;
/// Locks on one page, and when none is asked for.
pub const PAGE_LOCKS_MAX: usize = 500;
/// See [`PAGE_LOCKS_MAX`].
pub const PAGE_LOCKS_USUAL: usize = 100;
/// Longest reason for a force-release.
pub const REASON_BYTES_MAX: usize = 256;
/// Requests that wait in the line of one name, at one gateway.
pub const WAITS_PER_NAME_MAX: usize = 12_288;
/// Requests that wait in one cluster, at one gateway.
pub const WAITS_MAX: usize = 16_384;
/// Requests of one client id of one principal that wait in one cluster, at one gateway.
pub const WAITS_PER_CLIENT_MAX: usize = 256;
/// Waiters' keys on one lease. As for locks, more make puts slow.
pub const LEASE_WAITERS_MAX: usize = 1_000;
/// Waiters that join or leave a line in one write.
pub const JOINS_AT_ONCE_MAX: usize = 14;
/// Lines that are looked at in one read: three keys each.
pub const LINES_PER_READ_MAX: usize = 40;
/// A line is looked at so long after the last time, if nothing is heard of it. What is not heard must
/// be found within a second.
pub const LINE_LOOK_INTERVAL: Millis = Millis::from_ms(700);
/// The same while the shard comes from another cluster, where nothing is watched.
pub const SOURCE_LOOK_INTERVAL: Millis = Millis::from_ms(250);
/// Keys that are watched for lines at once; lines beyond are looked at only.
pub const WATCHES_MAX: usize = 512;
/// How often it is seen to that nobody waits for clients that have gone.
pub const GONE_LOOK_INTERVAL: Millis = Millis::from_ms(100);
/// Holds that are force-released and not yet closed in their records.
pub const CLOSINGS_MAX: usize = 1_024;
/// Look-ups that wait.
pub const COLD_QUEUE_MAX: usize = 8_192;

const _: () = {
    // etcd adds up the longest lists on the way to the deepest. A batch has its lane's transaction
    // too, a bundle two compares in common, and a read that resolves two keys.
    let bundle_compares = 2 + COMPARES_PER_WRITE * BUNDLE_OPS_MAX;
    assert!(1 + BATCH_BUNDLES_MAX + bundle_compares <= ETCD_TXN_OPS_MAX);
    assert!(1 + BATCH_BUNDLES_MAX + BUNDLE_OPS_MAX + NESTED_OPS_MAX <= ETCD_TXN_OPS_MAX);
    // Who joins a line reads who holds the name and who is first.
    assert!(1 + BATCH_BUNDLES_MAX + JOINS_AT_ONCE_MAX + 2 <= ETCD_TXN_OPS_MAX);
    assert!(3 * LINES_PER_READ_MAX <= ETCD_TXN_OPS_MAX);
    assert!(WAITS_PER_NAME_MAX <= WAITS_MAX && WAITS_MAX <= OPEN_REQUESTS_MAX / 2);
    assert!(PRINCIPAL_WAITS_MAX as usize * 4 <= WAITS_MAX);
    assert!(LINE_LOOK_INTERVAL.as_ms() + GONE_LOOK_INTERVAL.as_ms() < 1_000);
    let parts = BATCH_OPS_MAX.div_ceil(RESOLVED_AT_ONCE_MAX);
    assert!(2 + parts + RESOLVED_AT_ONCE_MAX <= ETCD_TXN_OPS_MAX);
    assert!(READ_KEYS_MAX < ETCD_TXN_OPS_MAX);
    assert!(SMALL_BATCHES_IN_FLIGHT_MAX <= BATCHES_IN_FLIGHT_MAX);
    assert!(2 * COLD_BATCH_MAX <= ETCD_TXN_OPS_MAX);
    assert!(GROUP_LOCKS_MAX <= u16::MAX as usize);
    assert!(SECOND_TRY_WITHIN.as_ms() + REQUEST_TIMEOUT.as_ms() < ANSWER_MAX.as_ms());
    assert!(CALL_TIMEOUT.as_ms() < REQUEST_TIMEOUT.as_ms());
    assert!(TTL_MIN.as_ms() > 2 * PROOF_MARGIN.as_ms());
    // Whoever has the say over a move gives it up first.
    assert!(MOVE_TIME_MAX.as_ms() + CALL_TIMEOUT.as_ms() < ARRIVAL_TIME_MAX.as_ms());
    assert!(MOVE_REST_MIN.as_ms() < MOVE_REST_MAX.as_ms());
    // What nobody waits for shares the last quarter of a batch.
    assert!(COPIES_PER_BATCH_MAX < BATCH_OPS_MAX / 4);
    // A request that goes to and fro between two guards waits in between.
    assert!(ONWARD_HOPS_MAX as u64 / 2 * GUARD_WAIT.as_ms() > REQUEST_TIMEOUT.as_ms());
    let longest_call = NAME_BYTES_MAX + PRINCIPAL_BYTES_MAX + 256;
    assert!(CALLS_PER_FRAME_MAX * longest_call <= PEER_FRAME_BYTES_MAX);
    assert!(2 * PEER_PING_INTERVAL.as_ms() < PEER_SILENCE_MAX.as_ms());
    assert!(PEER_HANDSHAKE_TIMEOUT.as_ms() < PEER_SILENCE_MAX.as_ms());
    // While there are requests, each failure is followed by another try within this.
    assert!(PEER_SILENCE_MAX.as_ms() + PEER_RETRY.as_ms() < PEER_FAILURE_COUNTS.as_ms());
};
/// Shards of `gateway dev`.
pub const DEV_SHARDS: u32 = 256;
/// Requests on their way from the edges to one cluster's engine.
pub const COMMANDS_QUEUED_MAX: usize = 65_536;
/// Words about moves that wait for a cluster's task. Those beyond are lost: then a move is undone that
/// gets no answer in time, and the cluster that a group goes to asks the other whether it has gone.
/// A task that reads has a few for each group that moves.
pub const WORDS_QUEUED_MAX: usize = 16_384;

/// A session's TTL at default settings: a crashed gateway's locks are taken over this much later,
/// and a stall of two thirds of it (a pause, an election in etcd) is survived.
pub const SESSION_TTL: Millis = Millis::from_secs(9);
/// Shortest session TTL: etcd itself goes no lower than about two seconds, and a proof must
/// outlast the three rounds that are made in that time.
pub const SESSION_TTL_MIN: Millis = Millis::from_secs(3);
/// Longest session TTL.
pub const SESSION_TTL_MAX: Millis = Millis::from_secs(60);
/// A group lease's TTL at default settings: how long a stopped etcd leader may stay stopped.
pub const GROUP_TTL: Millis = Millis::from_secs(30 * 60);
/// Longest TTL that a lock, a group or a phase may be given.
pub const CONFIGURED_MAX: Millis = Millis::from_secs(24 * 60 * 60);
/// Most connections that may be configured.
pub const CONNECTIONS_CONFIGURED_MAX: u32 = 1_000_000;
/// Most worker threads that may be configured.
pub const WORKER_THREADS_MAX: usize = 1_024;
/// How long a load balancer may take to notice that readiness fails: a check every three seconds,
/// three failures, and some.
pub const DRAIN_TIME: Millis = Millis::from_secs(10);
/// How long giving the locks to other gateways may take.
pub const HAND_OVER_TIME: Millis = Millis::from_secs(5);
/// How long requests that are under way may take to finish: as long as any answer.
pub const FINISH_TIME: Millis = Millis::from_secs(5);

const _: () = {
    assert!(SESSION_TTL_MIN.as_ms() <= SESSION_TTL.as_ms());
    assert!(SESSION_TTL.as_ms() <= SESSION_TTL_MAX.as_ms());
    assert!(2 * GROUP_TTL.as_ms() >= 3 * TTL_MAX.as_ms());
    assert!(SESSION_TTL_MAX.as_ms() < GROUP_TTL.as_ms());
    assert!(ANSWER_MAX.as_ms() <= FINISH_TIME.as_ms());
    // Orchestrators kill what has not stopped after thirty seconds.
    assert!(DRAIN_TIME.as_ms() + HAND_OVER_TIME.as_ms() + FINISH_TIME.as_ms() < 30_000);
};

/// The TTL of a gateway's report in home: how long after its death it counts as live, and how long
/// a rollout stands still when its driver dies.
pub const REPORT_TTL: Millis = Millis::from_secs(15);
/// How often that lease is kept alive.
pub const REPORT_KEEPALIVE: Millis = Millis::from_secs(4);
/// How often a gateway looks at home for a rollout, or for a driver that is gone.
pub const ROLLOUT_LOOK: Millis = Millis::from_secs(1);
/// The driver's pause after it has written guards: gateways have to read them.
pub const ROLLOUT_AGAIN: Millis = Millis::from_ms(50);
/// A driver whom a cluster of the rollout has not answered for this long lets another gateway try,
pub const DRIVER_BLIND: Millis = Millis::from_secs(20);
/// and does not stand again before this. A gateway that comes to nothing either waits as long.
pub const DRIVER_REST: Millis = Millis::from_secs(60);
/// The driver's pause while groups move.
pub const ROLLOUT_WAIT: Millis = Millis::from_ms(300);
