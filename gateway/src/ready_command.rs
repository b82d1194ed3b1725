//! `gateway ready`: asks a running gateway whether it is ready, for health checks in containers that
//! have no other program.

use crate::cli::ReadyArgs;
use anyhow::{Context as _, ensure};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// How long connecting, and each read, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The reply is a line; whatever answers with more is no gateway.
const REPLY_BYTES_MAX: u64 = 8 * 1024;

/// Returns what `/readyz` says.
///
/// # Errors
/// When nothing answers there, or it is not ready.
pub(crate) fn run(args: &ReadyArgs) -> anyhow::Result<String> {
    let address = args.admin_listen;
    let reply = ask(args).with_context(|| format!("no answer from {address}"))?;
    let (head, body) = reply.split_once("\r\n\r\n").unwrap_or((&reply, ""));
    ensure!(head.starts_with("HTTP/1.1 200 "), "{}", body.trim_end());
    Ok(body.to_owned())
}

fn ask(args: &ReadyArgs) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&args.admin_listen, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")?;
    let mut reply = String::new();
    stream.take(REPLY_BYTES_MAX).read_to_string(&mut reply)?;
    Ok(reply)
}
