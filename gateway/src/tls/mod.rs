//! TLS on the listeners and on the links between gateways, with certificates that are read anew
//! when their files change ([`crate::reload`]).
//!
//! A connection keeps the certificate with which it began; new ones get the present one.

mod files;
mod names;

pub use files::{ClientFiles, ServerFiles};
pub use names::names_of;

use crate::auth::Certificate;
use crate::limits;
use anyhow::Context as _;
use arc_swap::ArcSwap;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// What clients may be offered to speak inside TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inside {
    /// HTTP/2 and HTTP/1.1, as the client likes.
    Both,
    /// HTTP/1.1 only.
    Http1,
}

/// The TLS side of a listener.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerFiles,
    inside: Inside,
    present: ArcSwap<ServerConfig>,
}

/// The TLS side of those who dial.
#[derive(Debug)]
pub struct ClientTls {
    files: ClientFiles,
    present: ArcSwap<ClientConfig>,
}

impl ServerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read, is malformed, or the key is not the certificate's.
    pub fn load(files: ServerFiles, inside: Inside) -> anyhow::Result<Arc<Self>> {
        let present = ArcSwap::from_pointee(files.load(inside)?);
        Ok(Arc::new(Self {
            files,
            inside,
            present,
        }))
    }

    /// Reads the files again; what they say counts for connections that begin from now on.
    ///
    /// # Errors
    /// As [`ServerTls::load`]; then what was read before goes on.
    pub fn reload(&self) -> anyhow::Result<()> {
        self.present.store(Arc::new(self.files.load(self.inside)?));
        Ok(())
    }

    /// Shakes hands with a client, which must not take long.
    ///
    /// # Errors
    /// When it does, or the client does not speak TLS, or shows no certificate that is wanted.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        let acceptor = TlsAcceptor::from(self.present.load_full());
        let timeout = limits::TLS_HANDSHAKE_TIMEOUT.to_std();
        tokio::time::timeout(timeout, acceptor.accept(stream)).await?
    }
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one cannot be read or is malformed.
    pub fn load(files: ClientFiles) -> anyhow::Result<Arc<Self>> {
        let present = ArcSwap::from_pointee(files.load()?);
        Ok(Arc::new(Self { files, present }))
    }

    /// As [`ServerTls::reload`].
    ///
    /// # Errors
    /// As [`ServerTls::reload`].
    pub fn reload(&self) -> anyhow::Result<()> {
        self.present.store(Arc::new(self.files.load()?));
        Ok(())
    }

    /// Shakes hands with the server of this host name or address.
    ///
    /// # Errors
    /// When its certificate is not for `host`, or not of a trusted authority, or it speaks no TLS.
    pub async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> anyhow::Result<client::TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).context("no host name")?;
        let connector = TlsConnector::from(self.present.load_full());
        Ok(connector.connect(name, stream).await?)
    }
}

/// The names in the certificate that the client showed, if it showed one.
pub(crate) fn certificate(stream: &server::TlsStream<TcpStream>) -> Option<Certificate> {
    let shown = stream.get_ref().1.peer_certificates()?.first()?;
    Some(Certificate {
        names: names_of(shown),
    })
}

/// Whether the client chose HTTP/2.
pub(crate) fn is_http2(stream: &server::TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(files::HTTP_2)
}
