//! A client that sends exactly the bytes it is given.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

/// Ends a test that waits for something that does not come. Longer than any timeout of a gateway
/// with default settings.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    reader: OwnedReadHalf,
    /// Gives the writer back when all that was sent before is on its way.
    sent: Option<JoinHandle<OwnedWriteHalf>>,
    buffer: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (reader, writer) = stream.into_split();
        Self {
            reader,
            sent: Some(tokio::spawn(async { writer })),
            buffer: Vec::new(),
        }
    }

    /// Sends in the background, so that a server that answers before it has read everything is
    /// heard; that it then stops reading is no error here.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let (sent, bytes) = (self.sent.take().unwrap(), bytes.to_vec());
        self.sent = Some(tokio::spawn(async move {
            let mut writer = sent.await.unwrap();
            let _ = writer.write_all(&bytes).await;
            writer
        }));
    }

    /// The next reply; `None` when the connection is closed instead.
    pub(crate) async fn try_reply(&mut self, to_head: bool) -> Option<Reply> {
        tokio::time::timeout(PATIENCE, self.read_reply(to_head))
            .await
            .expect("no reply and no end of the connection")
    }

    /// The next reply.
    pub(crate) async fn reply(&mut self) -> Reply {
        self.try_reply(false).await.expect("closed without a reply")
    }

    /// Whether the server has closed the connection and sent nothing more.
    pub(crate) async fn is_closed(&mut self) -> bool {
        assert!(self.buffer.is_empty(), "more than one reply");
        let mut byte = [0];
        let read = tokio::time::timeout(PATIENCE, self.reader.read(&mut byte)).await;
        !matches!(read.expect("not closed"), Ok(1))
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> Reply {
        self.send(&post(path, "", body.as_bytes()));
        self.reply().await
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        self.send(get(path).as_bytes());
        self.reply().await
    }

    async fn read_reply(&mut self, to_head: bool) -> Option<Reply> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; 32];
            let mut head = httparse::Response::new(&mut headers);
            let parsed = head.parse(&self.buffer).expect("a reply in HTTP");
            if let httparse::Status::Complete(head_bytes) = parsed {
                let mut reply = Reply {
                    status: head.code.unwrap(),
                    headers: head
                        .headers
                        .iter()
                        .map(|header| {
                            let value = String::from_utf8_lossy(header.value);
                            (header.name.to_lowercase(), value.into_owned())
                        })
                        .collect(),
                    body: Vec::new(),
                };
                let length = reply.header("content-length").map(str::parse);
                let length: usize = length.map_or(0, Result::unwrap);
                let body_bytes = if to_head { 0 } else { length };
                while self.buffer.len() < head_bytes + body_bytes {
                    assert!(self.read_more().await, "closed within a body");
                }
                reply.body = self.buffer[head_bytes..head_bytes + body_bytes].to_vec();
                self.buffer.drain(..head_bytes + body_bytes);
                return Some(reply);
            }
            if !self.read_more().await {
                assert!(self.buffer.is_empty(), "closed within a head");
                return None;
            }
        }
    }

    async fn read_more(&mut self) -> bool {
        let read = self.reader.read_buf(&mut self.buffer).await;
        matches!(read, Ok(bytes) if bytes > 0)
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {text:?}"))
    }

    /// The `code` of a problem; checks that the problem is complete.
    pub(crate) fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(problem["status"], self.status);
        for part in ["type", "title", "detail", "instance"] {
            let text = problem[part].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "no {part} in {problem}");
        }
        problem["code"].as_str().unwrap().to_owned()
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}

/// A request with a body of JSON and further header lines.
pub(crate) fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: test\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n")
}
