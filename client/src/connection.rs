//! One kept HTTP/1.1 connection, one request at a time.

use crate::access::Access;
use crate::limits::REPLY_BYTES_MAX;
use crate::target::Target;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// An answer, of whatever status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawReply {
    /// The HTTP status.
    pub status: u16,
    /// The `Retry-After` header, where it is a number of seconds.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoReply {
    /// Nothing of the request left this machine.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The connection broke, or the answer was not HTTP; the request may have been carried out.
    #[error("{0}")]
    Broken(String),
}

/// One kept connection. Dropping it, also in the middle of a request, closes it.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    headers: HeaderMap,
    driver: JoinHandle<()>,
}

impl Connection {
    /// Connects without TLS; the caller limits how long that may take. `bearer` goes with every
    /// request.
    ///
    /// # Errors
    /// When the target cannot be reached, or is `https`.
    pub async fn open(target: &Target, bearer: Option<&HeaderValue>) -> Result<Self, NoReply> {
        let access = Access {
            authorization: bearer.cloned(),
            tls: None,
        };
        Self::open_with(target, &access).await
    }

    /// Connects, with TLS where the target is `https`; the caller limits how long that may take. The
    /// bearer token of `access` goes with every request.
    ///
    /// # Errors
    /// When the target cannot be reached, or is not whom `access` believes.
    pub async fn open_with(target: &Target, access: &Access) -> Result<Self, NoReply> {
        let not_sent =
            |error: &dyn std::error::Error| NoReply::NotSent(format!("{target}: {error}"));
        let stream = TcpStream::connect(target.address())
            .await
            .map_err(|error| not_sent(&error))?;
        stream.set_nodelay(true).map_err(|error| not_sent(&error))?;
        let bearer = access.authorization.as_ref();
        if !target.is_https() {
            return Self::over(stream, target, bearer).await;
        }
        let tls = access.tls.as_ref();
        let tls = tls.ok_or_else(|| {
            NoReply::NotSent(format!("{target}: this client is not set up for TLS"))
        })?;
        let stream = tls.connect(target, stream).await;
        let stream = stream.map_err(|error| match is_no_tls(&error) {
            true => NoReply::NotSent(format!("{target}: no TLS is spoken there; is it http?")),
            false => not_sent(&error),
        })?;
        Self::over(stream, target, bearer).await
    }

    /// Speaks over a stream that leads to the target. Where that is `https`, the stream has shaken
    /// hands.
    ///
    /// # Errors
    /// When HTTP cannot begin on it.
    pub async fn over<S>(
        stream: S,
        target: &Target,
        bearer: Option<&HeaderValue>,
    ) -> Result<Self, NoReply>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| NoReply::NotSent(format!("{target}: {error}")))?;
        // Its error is seen by the request that it hits.
        let driver = tokio::spawn(async move { drop(connection.await) });
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(HOST, target.authority());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(bearer) = bearer {
            headers.insert(AUTHORIZATION, bearer.clone());
        }
        Ok(Self {
            sender,
            headers,
            driver,
        })
    }

    /// Whether another request may be sent. `true` is no guarantee: the other side may be about
    /// to close.
    pub fn is_usable(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends one `POST` and reads the answer. Has no time limit of its own.
    ///
    /// # Errors
    /// When there is no answer; the connection is of no use then.
    pub async fn post(&mut self, path: &'static str, body: Bytes) -> Result<RawReply, NoReply> {
        self.send(Method::POST, Uri::from_static(path), body).await
    }

    /// Sends one request and reads the answer; `uri` is a path with its query. Otherwise as
    /// [`Connection::post`].
    ///
    /// # Errors
    /// As [`Connection::post`].
    pub async fn send(
        &mut self,
        method: Method,
        uri: Uri,
        body: Bytes,
    ) -> Result<RawReply, NoReply> {
        self.sender
            .ready()
            .await
            .map_err(|error| NoReply::NotSent(error.to_string()))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        match self.sender.try_send_request(request).await {
            Ok(response) => read(response).await,
            // The message comes back when none of it was written.
            Err(mut error) => Err(match error.take_message() {
                Some(_) => NoReply::NotSent(error.error().to_string()),
                None if error.error().is_parse() => NoReply::Broken(format!(
                    "{}; is the scheme of the target right?",
                    error.error()
                )),
                None => NoReply::Broken(error.error().to_string()),
            }),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The other side answers, but not in TLS.
fn is_no_tls(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(cause, Some(rustls::Error::InvalidMessage(_)))
}

async fn read(response: Response<Incoming>) -> Result<RawReply, NoReply> {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
    let body = Limited::new(response.into_body(), REPLY_BYTES_MAX)
        .collect()
        .await
        .map_err(|error| NoReply::Broken(error.to_string()))?
        .to_bytes();
    Ok(RawReply {
        status,
        retry_after,
        body,
    })
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    let secs = value.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(secs))
}
