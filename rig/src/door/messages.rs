//! gRPC messages: their frames, and the little of etcd's that is looked at or changed.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

/// A flag and a length.
const HEAD_BYTES: usize = 5;

/// etcd's code and text when its space is used up.
pub(super) const NO_SPACE: (u16, &str) = (8, "etcdserver: mvcc: database space exceeded");

/// Of `LeaseKeepAliveResponse`.
#[derive(Clone, PartialEq, Message)]
struct KeepAliveResponse {
    #[prost(bytes = "bytes", tag = "1")]
    header: Bytes,
    #[prost(int64, tag = "2")]
    id: i64,
    #[prost(int64, tag = "3")]
    ttl: i64,
}

/// Of `WatchResponse`, whether it tells of changes.
#[derive(Clone, PartialEq, Message)]
struct WatchResponse {
    #[prost(bytes = "bytes", repeated, tag = "11")]
    events: Vec<Bytes>,
}

/// Cuts what arrives into messages.
#[derive(Debug, Default)]
pub(super) struct Frames(BytesMut);

impl Frames {
    pub(super) fn add(&mut self, data: &[u8]) {
        self.0.extend_from_slice(data);
    }

    /// The next complete message, without its head.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let head = self.0.get(..HEAD_BYTES)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if self.0.len() < HEAD_BYTES + length {
            return None;
        }
        self.0.advance(HEAD_BYTES);
        Some(self.0.split_to(length).freeze())
    }
}

/// A message with its head.
///
/// # Panics
/// When it is longer than 4 GiB.
#[expect(
    clippy::expect_used,
    reason = "no message of etcd is longer than 64 MiB"
)]
pub(super) fn frame(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("shorter than 4 GiB");
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(length);
    frame.put_slice(message);
    frame.freeze()
}

/// A keepalive's answer, with a TTL of 0 as etcd says it of a lease that is gone.
pub(super) fn with_ttl_zero(message: &Bytes) -> Bytes {
    match KeepAliveResponse::decode(message.clone()) {
        Ok(answer) => KeepAliveResponse { ttl: 0, ..answer }
            .encode_to_vec()
            .into(),
        Err(_) => message.clone(),
    }
}

/// Whether a watch's message tells of changes.
pub(super) fn has_events(message: &Bytes) -> bool {
    WatchResponse::decode(message.clone()).is_ok_and(|told| !told.events.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_wherever_the_network_cuts_them() {
        let bytes = [frame(b"one"), frame(b""), frame(b"three")].concat();
        for cut in 0..bytes.len() {
            let mut frames = Frames::default();
            let mut messages = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                frames.add(part);
                messages.extend(std::iter::from_fn(|| frames.next()));
            }
            assert_eq!(messages, [&b"one"[..], b"", b"three"]);
        }
    }

    #[test]
    fn an_answer_with_ttl_zero_is_otherwise_the_same() {
        let answer = KeepAliveResponse {
            header: Bytes::from_static(b"\x08\x01"),
            id: 7,
            ttl: 3,
        };
        let changed = with_ttl_zero(&answer.encode_to_vec().into());
        let expected = KeepAliveResponse { ttl: 0, ..answer };
        assert_eq!(KeepAliveResponse::decode(changed).unwrap(), expected);
    }

    #[test]
    fn a_message_without_changes_is_told_from_one_with_them() {
        let with = WatchResponse {
            events: vec![Bytes::from_static(b"e")],
        };
        assert!(has_events(&with.encode_to_vec().into()));
        let created = Bytes::from_static(b"\x18\x01");
        assert!(!has_events(&created));
    }
}
