//! The bare server: hyper with its defaults, one thread, a constant for every path.

use super::BareArgs;
use super::wire;
use anyhow::Context as _;
use bytes::Bytes;
use holdfast_api::paths;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use tokio::net::TcpListener;

/// Serves on a free port of the loopback interface, whose address it prints on standard output,
/// until standard input ends.
///
/// # Errors
/// When it cannot listen.
pub(crate) fn serve(args: &BareArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let single = Bytes::from_static(wire::RENEWED.as_bytes());
    let batch = Bytes::from(wire::renewed_batch(args.batch));
    let (ending, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Whatever ends the input, the one who wanted this server is gone.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ending.send(());
    });
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .context("cannot listen")?;
        let mut out = std::io::stdout();
        writeln!(out, "http://{}", listener.local_addr()?)?;
        out.flush()?;
        tokio::select! {
            _ = ended => Ok(()),
            broken = accept(listener, single, batch) => broken.context("cannot accept"),
        }
    })
}

async fn accept(listener: TcpListener, single: Bytes, batch: Bytes) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (single, batch) = (single.clone(), batch.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, &single, &batch));
            // A connection that breaks is the client's business.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Reads the body, as everybody must who wants to know what is asked, and keeps none of it.
async fn answer(
    request: Request<Incoming>,
    single: &Bytes,
    batch: &Bytes,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let constant = match request.uri().path() {
        paths::RENEW_BATCH => batch,
        _ => single,
    };
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
    let mut reply = Response::new(Full::new(constant.clone()));
    reply
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(reply)
}
