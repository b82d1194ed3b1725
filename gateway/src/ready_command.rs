//! `gateway ready`: asks a running gateway whether it is ready, for health checks in containers that
//! have no other program.

use crate::cli::ReadyArgs;
use anyhow::{Context as _, ensure};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// How long connecting, and each read, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The reply is a line; whatever answers with more is no gateway.
const REPLY_BYTES_MAX: u64 = 8 * 1024;

/// Returns what `/readyz` says.
///
/// # Errors
/// When nothing answers there, or not over HTTP, or it is not ready.
pub(crate) fn run(args: &ReadyArgs) -> anyhow::Result<String> {
    let address = args.admin_listen;
    let reply = ask(args).with_context(|| format!("no answer from {address}"))?;
    judge(&String::from_utf8_lossy(&reply)).with_context(|| address.to_string())
}

fn judge(reply: &str) -> anyhow::Result<String> {
    ensure!(
        reply.starts_with("HTTP/1."),
        "does not speak plain HTTP, which is all that this command speaks; a listener with \
         `[admin_tls]` is asked over https (for example `curl --cacert FILE https://HOST:PORT/readyz`)"
    );
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((reply, ""));
    let status = head.lines().next().unwrap_or_default();
    let said = match body.trim_end() {
        "" => status,
        said => said,
    };
    ensure!(status.starts_with("HTTP/1.1 200 "), "{said}");
    Ok(body.to_owned())
}

fn ask(args: &ReadyArgs) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&args.admin_listen, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")?;
    let mut reply = Vec::new();
    match stream.take(REPLY_BYTES_MAX).read_to_end(&mut reply) {
        // So ends whoever takes the question for garbage, a listener with TLS for example.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(reply),
        read => read.map(|_| reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_is_not_ready_and_whatever_is_none_are_told_with_a_reason() {
        let ready = judge("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nready\n");
        assert_eq!(ready.unwrap(), "ready\n");
        for (reply, reason) in [
            (
                "HTTP/1.1 503 S\r\n\r\nno shard map is loaded\n",
                "no shard map is loaded",
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 404 Not Found"),
            ("\u{15}\u{3}\u{3}\0\u{2}\u{2}F", "[admin_tls]"),
            ("", "[admin_tls]"),
        ] {
            let told = judge(reply).unwrap_err().to_string();
            assert!(told.contains(reason), "{reply:?}: {told}");
        }
    }
}
