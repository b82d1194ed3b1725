//! One call on its way.

use super::Inside;
use super::messages::{self, Frames, frame};
use super::rules::{Call, Trick};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, Response};

/// An answer to a call that is no stream.
struct Answer {
    head: Response<()>,
    data: Vec<Bytes>,
    trailers: Option<HeaderMap>,
}

/// Carries one call. What breaks on the way breaks for the caller too.
pub(super) async fn carry(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    sender: SendRequest<Bytes>,
    inside: Inside,
) {
    let call = Call::of(request.uri().path());
    let carried = if call.is_stream() {
        stream(call, request, &mut respond, sender, &inside).await
    } else {
        unary(call, request, &mut respond, sender, &inside).await
    };
    if carried.is_err() {
        respond.send_reset(Reason::INTERNAL_ERROR);
    }
}

async fn unary(
    call: Call,
    request: Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
    sender: SendRequest<Bytes>,
    inside: &Inside,
) -> Result<(), h2::Error> {
    let (head, mut body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let mut frames = Frames::default();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        frames.add(&data);
    }
    let message = frames.next().unwrap_or_default();
    let trick = inside.rules().pick(call, &message);
    if trick == Some(Trick::RefuseForSpace) {
        return refuse_for_space(respond);
    }
    inside.kept().keep(call, &head, &message);
    if let Some(Trick::ApplyLate(by)) = trick {
        tokio::time::sleep(by).await;
    }
    let answer = ask(sender, head, &message).await?;
    match trick {
        Some(Trick::LoseAnswer) => {
            std::future::poll_fn(|context| respond.poll_reset(context)).await?;
            Ok(())
        }
        Some(Trick::BreakAnswer) => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            Ok(())
        }
        Some(Trick::ApplyAndRefuseForSpace) => refuse_for_space(respond),
        _ => tell(respond, answer),
    }
}

async fn ask(
    sender: SendRequest<Bytes>,
    head: Request<()>,
    message: &Bytes,
) -> Result<Answer, h2::Error> {
    let (response, mut body) = sender.ready().await?.send_request(head, false)?;
    body.send_data(frame(message), true)?;
    let (head, mut body) = response.await?.into_parts();
    let mut data = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        data.push(part);
    }
    Ok(Answer {
        head: Response::from_parts(head, ()),
        data,
        trailers: body.trailers().await?,
    })
}

fn tell(respond: &mut SendResponse<Bytes>, answer: Answer) -> Result<(), h2::Error> {
    let is_all = answer.data.is_empty() && answer.trailers.is_none();
    let mut stream = respond.send_response(answer.head, is_all)?;
    for data in answer.data {
        stream.send_data(data, false)?;
    }
    match answer.trailers {
        Some(trailers) => stream.send_trailers(trailers),
        None => Ok(()),
    }
}

fn refuse_for_space(respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let (code, text) = messages::NO_SPACE;
    let mut head = Response::new(());
    let headers = head.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(code));
    headers.insert("grpc-message", HeaderValue::from_static(text));
    respond.send_response(head, true).map(drop)
}

async fn stream(
    call: Call,
    request: Request<RecvStream>,
    respond: &mut SendResponse<Bytes>,
    sender: SendRequest<Bytes>,
    inside: &Inside,
) -> Result<(), h2::Error> {
    let (head, requests) = request.into_parts();
    let head = Request::from_parts(head, ());
    let (response, to_member) = sender.ready().await?.send_request(head, false)?;
    let trick = inside.rules().pick(call, b"");
    let answers = async {
        let (head, from_member) = response.await?.into_parts();
        let to_caller = respond.send_response(Response::from_parts(head, ()), false)?;
        match trick {
            Some(Trick::CloseStream) => Ok(()),
            _ => answers(from_member, to_caller, trick).await,
        }
    };
    // The end of the answers is the end of the call; that of the requests is not.
    let requests = async {
        forward(requests, to_member).await?;
        std::future::pending().await
    };
    tokio::select! {
        ended = answers => ended,
        ended = requests => ended,
    }
}

async fn forward(mut from: RecvStream, mut to: SendStream<Bytes>) -> Result<(), h2::Error> {
    while let Some(data) = from.data().await {
        let data = data?;
        from.flow_control().release_capacity(data.len())?;
        to.send_data(data, false)?;
    }
    to.send_data(Bytes::new(), true)
}

async fn answers(
    mut from: RecvStream,
    mut to: SendStream<Bytes>,
    trick: Option<Trick>,
) -> Result<(), h2::Error> {
    let mut frames = Frames::default();
    while let Some(data) = from.data().await {
        let data = data?;
        from.flow_control().release_capacity(data.len())?;
        frames.add(&data);
        while let Some(message) = frames.next() {
            if let Some(message) = changed(message, trick) {
                to.send_data(frame(&message), false)?;
            }
        }
    }
    match from.trailers().await? {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    }
}

/// What the caller is told instead, if anything.
fn changed(message: Bytes, trick: Option<Trick>) -> Option<Bytes> {
    match trick {
        Some(Trick::TtlZero) => Some(messages::with_ttl_zero(&message)),
        Some(Trick::Silence) => None,
        Some(Trick::SwallowEvents) if messages::has_events(&message) => None,
        _ => Some(message),
    }
}
