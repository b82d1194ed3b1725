//! What `gateway dev` says once it is ready.

use std::net::SocketAddr;

/// Where it is, and lines to copy that take, renew and release a lock.
pub(crate) fn text(public: SocketAddr, admin: SocketAddr, clusters: u8) -> String {
    format!(
        r#"Holdfast is ready: one gateway over {clusters} embedded clusters. The locks end with this process.

  lock API   http://{public}   (GET /openapi.json describes it)
  admin      http://{admin}   (/readyz /metrics /debug/shards)

Try it in another terminal:

  # take a lock for 30 seconds, and keep its lockId and fencingToken
  hold=$(curl -sS --json '{{"name":"process_order:42","ttlMs":30000,"clientId":"me"}}' http://{public}/api/v1/locks/acquire | sed -E 's/.*("lockId":"[^"]*","fencingToken":[0-9]+).*/{{\1}}/'); echo "$hold"

  # someone else is refused
  curl -sS --json '{{"name":"process_order:42","ttlMs":30000,"clientId":"someone-else"}}' http://{public}/api/v1/locks/acquire; echo

  # renew the lock; do this before its ttlMs is over
  curl -sS --json "$hold" http://{public}/api/v1/locks/renew; echo

  # give it back
  curl -sS --json "$hold" -w '%{{http_code}}\n' http://{public}/api/v1/locks/release

Ctrl-C stops it.
"#
    )
}
