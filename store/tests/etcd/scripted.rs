//! A gRPC server that says what it is told to, for what etcd does too rarely.

use bytes::Bytes;
use etcd_client::proto::{PbLeaseKeepAliveResponse, PbResponseHeader};
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message;
use std::net::Ipv4Addr;
use tokio::net::{TcpListener, TcpStream};

/// What the server does, in order, with every request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Answers a keepalive.
    Answer { lease: i64, ttl_s: i64 },
    /// Ends with this gRPC code and message; 0 is success.
    End(u16, &'static str),
    /// Closes the connection.
    Cut,
    /// Says nothing more.
    Silence,
}

/// Serves until the runtime ends; gives the URL.
pub(crate) async fn serve(script: &'static [Step]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(connection(tcp, script));
        }
    });
    format!("http://127.0.0.1:{port}")
}

async fn connection(tcp: TcpStream, script: &'static [Step]) {
    let mut connection = h2::server::handshake(tcp).await.unwrap();
    let (cut, mut is_cut) = tokio::sync::mpsc::channel(1);
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    tokio::spawn(play(request, respond, script, cut.clone()));
                }
                Some(Err(_)) | None => return,
            },
            _ = is_cut.recv() => return,
        }
    }
}

async fn play(
    mut request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    script: &'static [Step],
    cut: tokio::sync::mpsc::Sender<()>,
) {
    while request.body_mut().data().await.is_some() {}
    let ok = Response::builder().header("content-type", "application/grpc");
    let mut stream = respond.send_response(ok.body(()).unwrap(), false).unwrap();
    for step in script {
        match *step {
            Step::Answer { lease, ttl_s } => answer(&mut stream, lease, ttl_s),
            Step::End(code, message) => {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from(code));
                trailers.insert("grpc-message", HeaderValue::from_static(message));
                stream.send_trailers(trailers).unwrap();
                return;
            }
            Step::Cut => {
                // What was said so far leaves first.
                tokio::task::yield_now().await;
                cut.send(()).await.unwrap();
            }
            Step::Silence => std::future::pending().await,
        }
    }
}

fn answer(stream: &mut SendStream<Bytes>, lease: i64, ttl_s: i64) {
    let header = PbResponseHeader {
        cluster_id: 1,
        member_id: 2,
        revision: 3,
        raft_term: 4,
    };
    let message = PbLeaseKeepAliveResponse {
        header: Some(header),
        id: lease,
        ttl: ttl_s,
    };
    let message = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    stream.send_data(frame.into(), false).unwrap();
}
