//! What must hold of the reader of heads ([`crate::fuzz`]).

use super::framer::{Framer, Waiting};

/// The first byte says in how large pieces the rest arrives. However it is cut, the same comes
/// through to the HTTP library, and what comes through is what was sent, up to a refusal. A line's
/// end follows at last: what arrives in pieces is looked at where a line ends.
pub fn heads(bytes: &[u8]) {
    let Some((size, sent)) = bytes.split_first() else {
        return;
    };
    let sent = [sent, b"\n"].concat();
    let whole = feed(&sent, sent.len());
    let cut = feed(&sent, usize::from(*size) + 1);
    for (waiting, through, refused) in [&whole, &cut] {
        assert_eq!(*waiting == Waiting::Refused, refused.is_some());
        // Empty lines before a request are the only thing that is left out.
        let mut left = sent.iter();
        for byte in through {
            let skipped = left
                .by_ref()
                .find(|sent| *sent == byte || !is_of_line_end(sent));
            assert_eq!(skipped, Some(byte));
        }
    }
    let (one, other) = (without_line_ends(whole), without_line_ends(cut));
    assert_eq!(one, other);
}

fn is_of_line_end(byte: &u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

/// Empty lines that arrive with their request come through with it.
fn without_line_ends((waiting, mut through, refused): Fed) -> Fed {
    through.retain(|byte| !is_of_line_end(byte));
    (waiting, through, refused)
}

/// What the client is waited for, what came through, and what the refusal is, if there is one.
type Fed = (Waiting, Vec<u8>, Option<Vec<u8>>);

fn feed(sent: &[u8], size: usize) -> Fed {
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
