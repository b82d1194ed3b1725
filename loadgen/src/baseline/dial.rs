//! Connections to a server, through TLS or not.

use anyhow::Context as _;
use holdfast_client::{Target, Tls};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// A connection.
pub(super) type Stream = Either<TcpStream, TlsStream<TcpStream>>;

/// Connects; the caller limits how long that may take.
///
/// # Errors
/// When the target cannot be reached, or shows no certificate that is believed.
pub(super) async fn open(target: &Target, tls: Option<&Tls>) -> anyhow::Result<Stream> {
    let stream = TcpStream::connect(target.address()).await?;
    stream.set_nodelay(true)?;
    if !target.is_https() {
        return Ok(Either::Left(stream));
    }
    let tls = tls.context("TLS is not set up")?;
    Ok(Either::Right(tls.connect(target, stream).await?))
}
