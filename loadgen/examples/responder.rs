//! Says yes to everything, as fast as it can: what the generator reaches against it is the
//! generator's own ceiling.
//!
//! ```text
//! cargo run --release -p loadgen --example responder 127.0.0.1:8080
//! ```

use bytes::Bytes;
use holdfast_api::paths;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::TcpListener;

static TOKENS: AtomicU64 = AtomicU64::new(1);

const RENEWED: &str =
    r#"{"renewed":true,"expiresAt":"2026-01-01T00:00:00.000Z","ttlMs":29700,"renewAfterMs":9700}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:8080")).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let http = hyper::server::conn::http1::Builder::new();
            // A connection that breaks is the generator's business.
            let _ = http
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let text = match path.as_str() {
        paths::RENEW => Bytes::from_static(RENEWED.as_bytes()),
        paths::RENEW_BATCH => repeated(&body, || RENEWED.to_owned()),
        paths::ACQUIRE => granted().into(),
        paths::ACQUIRE_BATCH => repeated(&body, granted),
        paths::RELEASE_BATCH => repeated(&body, || r#"{"released":true}"#.to_owned()),
        _ => Bytes::new(),
    };
    let mut response = Response::new(Full::new(text));
    if path == paths::RELEASE {
        *response.status_mut() = hyper::StatusCode::NO_CONTENT;
    }
    Ok(response)
}

fn granted() -> String {
    let token = TOKENS.fetch_add(1, Ordering::Relaxed);
    format!(
        r#"{{"acquired":true,"lockId":"lock-{token:074}","fencingToken":{token},"expiresAt":"2026-01-01T00:00:00.000Z","ttlMs":29700,"renewAfterMs":9700}}"#
    )
}

/// One result per item of the batch.
fn repeated(body: &[u8], result: impl Fn() -> String) -> Bytes {
    #[derive(Deserialize)]
    struct Batch {
        #[serde(alias = "renewals", alias = "acquisitions", alias = "releases")]
        items: Vec<IgnoredAny>,
    }
    let count = serde_json::from_slice(body).map_or(0, |batch: Batch| batch.items.len());
    let results: Vec<_> = (0..count).map(|_| result()).collect();
    format!(r#"{{"results":[{}]}}"#, results.join(",")).into()
}
