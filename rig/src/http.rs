//! The smallest HTTP client that can ask a process for its health.
//!
//! Written by hand because a readiness check must not depend on the code under test, and a
//! complete client would be the rig's largest dependency.

use anyhow::{Context, Result};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest a request may take, connecting included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpReply {
    /// The status code.
    pub status: u16,
    /// The body, with invalid UTF-8 replaced.
    pub body: String,
}

/// Sends `GET path` as HTTP/1.0 to `127.0.0.1:port` and reads the answer to its end.
///
/// # Errors
/// When there is no connection, no HTTP answer, or none within two seconds.
pub async fn http_get(port: u16, path: &str) -> Result<HttpReply> {
    tokio::time::timeout(REQUEST_TIMEOUT, get(port, path))
        .await
        .with_context(|| format!("GET {path} on port {port} took more than {REQUEST_TIMEOUT:?}"))?
        .with_context(|| format!("GET {path} on port {port}"))
}

async fn get(port: u16, path: &str) -> Result<HttpReply> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    parse(&String::from_utf8_lossy(&answer))
}

fn parse(answer: &str) -> Result<HttpReply> {
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer without a body")?;
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .with_context(|| format!("not a status line: {head:?}"))?;
    Ok(HttpReply {
        status,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_and_the_body_of_an_answer_are_read() {
        let reply = parse("HTTP/1.1 503 Service Unavailable\r\nA: b\r\n\r\nno leader").unwrap();
        assert_eq!(
            reply,
            HttpReply {
                status: 503,
                body: "no leader".to_owned()
            }
        );
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        assert!(parse("SSH-2.0-x\r\n\r\n").is_err());
        assert!(parse("HTTP/1.1 200 OK\r\n").is_err());
    }
}
