//! The thread of the admin listener.

use super::pages::Admin;
use crate::http::{Timeouts, serve_connection};
use crate::lifecycle::Phase;
use crate::limits;
use crate::service::Locks;
use crate::tls::ServerTls;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

/// Answers on `listener`, on a thread of its own, until the lifecycle is in [`Phase::Done`].
///
/// # Errors
/// When the thread or its runtime cannot be started.
pub fn start<L: Locks>(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    admin: Admin<L>,
) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let listener = {
        let _context = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || runtime.block_on(serve(listener, tls, Arc::new(admin))))
}

async fn serve<L: Locks>(
    listener: tokio::net::TcpListener,
    tls: Option<Arc<ServerTls>>,
    admin: Arc<Admin<L>>,
) {
    let places = Arc::new(Semaphore::new(limits::ADMIN_CONNECTIONS_MAX));
    let lifecycle = admin.lifecycle.clone();
    let mut done = std::pin::pin!(lifecycle.reached(Phase::Done));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut done => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(limits::ACCEPT_RETRY.to_std()).await;
            continue;
        };
        // Past the limit a connection is only closed: those who ask here ask again.
        if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
            let (admin, tls) = (Arc::clone(&admin), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => serve_one(stream, &admin).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve_one(stream, &admin).await;
                        }
                    }
                }
                drop(place);
            });
        }
    }
}

async fn serve_one<L: Locks, S: AsyncRead + AsyncWrite + Unpin>(stream: S, admin: &Admin<L>) {
    let (timeouts, last) = (Timeouts::default(), Phase::Done);
    serve_connection(
        stream,
        timeouts,
        &admin.lifecycle,
        last,
        &(),
        async |request| admin.answer(&request),
    )
    .await;
}
