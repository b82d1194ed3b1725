//! Signals that are passed on to the command.

use rustix::process::Signal;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A signal that this process got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caught(Signal);

const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TERM,
];

impl Caught {
    pub(super) fn signal(self) -> Signal {
        self.0
    }

    /// Whether terminals send it to all in their foreground.
    pub(super) fn comes_from_terminals(self) -> bool {
        matches!(self.0, Signal::HUP | Signal::INT | Signal::QUIT)
    }

    /// As shells have it when a signal ends a program.
    pub(super) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.0.as_raw()).unwrap_or(u8::MAX)
    }
}

/// Listens; none is missed from then on.
pub(super) struct Signals(Vec<(Caught, Stream)>);

impl Signals {
    /// Listens to all but those that whoever started this process has it ignore, as `nohup` does;
    /// the command ignores these too.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(super) fn listen() -> io::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let streams = PASSED_ON
            .into_iter()
            .filter(|signal| !is_ignored(&status, *signal))
            .map(|caught| {
                let stream = signal(SignalKind::from_raw(caught.as_raw()))?;
                Ok((Caught(caught), stream))
            });
        streams.collect::<io::Result<_>>().map(Self)
    }

    /// The next one; for ever none if all are ignored.
    pub(super) async fn next(&mut self) -> Caught {
        poll_fn(|context| {
            let mut streams = self.0.iter_mut();
            let ready = streams.find_map(|(caught, stream)| {
                stream.poll_recv(context).is_ready().then_some(*caught)
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Reads the mask of ignored signals out of `/proc/.../status`.
fn is_ignored(status: &str, signal: Signal) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_lets_ignore_is_not_listened_to() {
        let status = "Name:\tlockctl\nSigIgn:\t0000000000001001\nSigCgt:\t0000000100000000\n";
        assert!(is_ignored(status, Signal::HUP));
        assert!(!is_ignored(status, Signal::INT));
        assert!(!is_ignored("", Signal::HUP));
    }

    #[test]
    fn an_interrupt_before_the_command_has_the_shells_exit_code() {
        assert_eq!(Caught(Signal::INT).exit_code(), 130);
        assert_eq!(Caught(Signal::TERM).exit_code(), 143);
    }
}
