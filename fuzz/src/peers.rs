//! Frames of other gateways.

use holdfast_gateway::peer::{Frame, Left};
use std::sync::Arc;

/// A frame that is read is the same after it was written again, and means something or nothing.
pub(crate) fn frames(bytes: &[u8]) {
    let Some(frame) = Frame::decode(bytes) else {
        return;
    };
    assert_eq!(Frame::decode(&frame.encode()).as_ref(), Some(&frame));
    match frame {
        Frame::Calls(calls) => calls.iter().for_each(|call| drop(call.forward())),
        Frame::Answers(answers) => {
            let cluster = Arc::from("a");
            for (_, said) in answers {
                drop(said.outcome(&cluster));
            }
        }
        Frame::Left(left) => {
            let (cluster, heritage) = left.clone().heritage();
            assert_eq!(Left::new(&cluster, &heritage), left);
        }
        Frame::Ping | Frame::Pong => {}
    }
}
