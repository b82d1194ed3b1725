//! What a renewal costs at the edge without sockets and without a table of locks: `make bench`
//! prints it.

#![allow(
    missing_docs,
    unreachable_pub,
    reason = "nothing here is for others, and criterion's macros make functions without documents"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use holdfast_api::{RenewBatch, RenewRequest, paths};
use holdfast_gateway::auth::{
    Auth, AuthMode, BearerToken, Budgets, Rates, Roll, RollEntry, RollFile,
};
use holdfast_gateway::http::{Client, Edge, EdgeSettings, Express as _, renewals_json, usual};
use holdfast_gateway::lifecycle::Lifecycle;
use holdfast_gateway::lock_id::{GroupId, LockId, Secret, SlotIndex};
use holdfast_gateway::metrics::Metrics;
use holdfast_gateway::names::LockName;
use holdfast_gateway::service::{
    Acquire, AcquireOutcome, CloseOutcome, ClusterHealth, EngineFigures, ForceRelease, LockPage,
    LockView, Locks, PageOf, Release, ReleaseOutcome, Renew, RenewOutcome, Renewed, ServiceError,
    ShardStatus,
};
use holdfast_gateway::time::{BootClock, Instant, Millis};
use std::hint::black_box;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::Arc;

/// As in the gateway.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: usize = 100;
const UNIX_MS: u64 = 1_796_000_000_500;
const TOLD: Renewed = Renewed {
    ttl: Millis::from_ms(29_700),
    renew_after: Millis::from_ms(9_800),
};

/// Renews whatever it is asked for.
struct Yes;

impl Locks for Yes {
    fn try_renew(&self, _: Instant, _: &Renew) -> Option<Result<Renewed, ServiceError>> {
        Some(Ok(TOLD))
    }

    async fn renew(&self, _: Renew) -> Result<RenewOutcome, ServiceError> {
        Ok(RenewOutcome::Renewed(TOLD))
    }

    async fn acquire(&self, _: Acquire) -> Result<AcquireOutcome, ServiceError> {
        std::future::pending().await
    }

    async fn release(&self, _: Release) -> Result<ReleaseOutcome, ServiceError> {
        Ok(ReleaseOutcome::Released)
    }

    async fn inspect(&self, _: LockName) -> Result<LockView, ServiceError> {
        std::future::pending().await
    }

    async fn list(&self, _: PageOf) -> Result<LockPage, ServiceError> {
        std::future::pending().await
    }

    async fn force_release(&self, _: ForceRelease) -> Result<CloseOutcome, ServiceError> {
        Ok(CloseOutcome::NotHeld)
    }

    fn clusters(&self) -> Vec<ClusterHealth> {
        Vec::new()
    }

    fn engines(&self) -> Vec<EngineFigures> {
        Vec::new()
    }

    fn shards(&self) -> Vec<ShardStatus> {
        Vec::new()
    }
}

/// The renewal of a lock whose name has 24 bytes.
fn renewal() -> String {
    let name = LockName::new("process_order:0000004711").expect("a valid name");
    let id = LockId::new(GroupId(u64::MAX / 3), SlotIndex(999), Secret(7), &name);
    let id = id.to_text();
    format!(r#"{{"lockId":"{id}","fencingToken":123456789}}"#)
}

fn parsing(c: &mut Criterion) {
    let one = renewal();
    let mut group = c.benchmark_group("request parsing");
    group.bench_function("a renewal, by hand", |b| {
        b.iter(|| usual::renewal(black_box(one.as_bytes())));
    });
    group.bench_function("a renewal, by serde", |b| {
        b.iter(|| serde_json::from_slice::<RenewRequest<'_>>(black_box(one.as_bytes())));
    });
    let batch = format!(
        r#"{{"renewals":[{}]}}"#,
        vec![one.as_str(); BATCH].join(",")
    );
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("a batch of 100, by hand", |b| {
        b.iter(|| usual::renewals(black_box(batch.as_bytes())));
    });
    group.bench_function("a batch of 100, by serde", |b| {
        b.iter(|| serde_json::from_slice::<RenewBatch<'_>>(black_box(batch.as_bytes())));
    });
    group.finish();
}

fn writing(c: &mut Criterion) {
    let mut group = c.benchmark_group("reply writing");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("a batch of 100", |b| {
        b.iter(|| {
            let results = (0..BATCH).map(|_| Ok(RenewOutcome::Renewed(TOLD)));
            renewals_json(results, black_box(UNIX_MS))
        });
    });
    group.finish();
}

fn whole(c: &mut Criterion) {
    let token = BearerToken::from_random([7; 32]);
    let entry = RollEntry {
        name: "billing".to_owned(),
        token_sha256: vec![token.hash().to_hex()],
        acquire: vec!["process_order:".to_owned()],
        ..RollEntry::default()
    };
    let file = RollFile {
        principal: vec![entry],
    };
    let roll = toml::to_string(&file).expect("a roll has a form in TOML");
    let roll = Roll::parse(&roll).expect("a good roll");
    let authorization = format!("authorization: Bearer {}\r\n", token.reveal());
    for (what, auth, header) in [
        ("", Auth::open(budgets()), ""),
        (
            ", with a token",
            Auth::new(AuthMode::Tokens, roll, budgets()),
            authorization.as_str(),
        ),
    ] {
        whole_of(c, what, auth, header);
    }
}

/// Never used up, but counted.
fn budgets() -> Budgets {
    let rates = Rates {
        acquires: NonZeroU32::new(u32::MAX),
        upkeep: NonZeroU32::new(u32::MAX),
        waits: None,
    };
    Budgets::new(rates, Rates::default())
}

fn whole_of(c: &mut Criterion, what: &str, auth: Arc<Auth>, header: &str) {
    let edge = Edge::new(
        Arc::new(Yes),
        BootClock,
        EdgeSettings::default(),
        Arc::new(Metrics::default()),
        Lifecycle::default(),
        auth,
    );
    let client = Client::new(&edge, Ipv4Addr::LOCALHOST.into(), None);
    let body = renewal();
    let request = format!(
        "POST {} HTTP/1.1\r\nhost: 127.0.0.1:8080\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{header}\r\n{body}",
        paths::RENEW,
        body.len()
    );
    let mut reply = Vec::with_capacity(512);
    c.bench_function(
        &format!("a renewal{what}, from the bytes of its request to those of its reply"),
        |b| {
            b.iter(|| {
                reply.clear();
                client.answer(black_box(request.as_bytes()), &mut reply)
            });
        },
    );
    assert!(reply.starts_with(b"HTTP/1.1 200 OK"), "it was not answered");
}

criterion_group!(benches, parsing, writing, whole);
criterion_main!(benches);
