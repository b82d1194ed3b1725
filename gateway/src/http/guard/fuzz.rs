//! What must hold of the reader of heads ([`crate::fuzz`]).

use super::framer::{Framer, Waiting};

/// The first byte says in how large pieces the rest arrives. However it is cut, the same comes
/// through to the HTTP library, and what comes through is what was sent, up to a refusal.
pub fn heads(bytes: &[u8]) {
    let Some((size, sent)) = bytes.split_first() else {
        return;
    };
    let whole = feed(sent, sent.len().max(1));
    let cut = feed(sent, usize::from(*size) + 1);
    assert_eq!(whole, cut);
    let (waiting, through, refused) = whole;
    assert_eq!(waiting == Waiting::Refused, refused.is_some());
    // Empty lines before a request are the only thing that is left out.
    let mut left = sent.iter();
    for byte in &through {
        let skipped = left
            .by_ref()
            .find(|sent| *sent == byte || !matches!(sent, b'\r' | b'\n'));
        assert_eq!(skipped, Some(byte));
    }
}

/// What the client is waited for, what came through, and what the refusal is, if there is one.
fn feed(sent: &[u8], size: usize) -> (Waiting, Vec<u8>, Option<Vec<u8>>) {
    let mut framer = Framer::new();
    let (mut through, mut refused) = (Vec::new(), None);
    for piece in sent.chunks(size) {
        let passed = framer.push(piece);
        through.extend_from_slice(&piece[..passed]);
        loop {
            let mut out = Vec::new();
            if framer.release(usize::MAX, |bytes| out.extend_from_slice(bytes)) == 0 {
                break;
            }
            match framer.waiting() {
                Waiting::Refused => refused = Some(out),
                _ => through.append(&mut out),
            }
        }
    }
    (framer.waiting(), through, refused)
}
