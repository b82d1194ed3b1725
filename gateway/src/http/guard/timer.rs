//! A timer that costs nothing until it is armed.

use crate::time::Millis;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::Sleep;

pub(super) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    armed: bool,
}

impl Timer {
    pub(super) fn new() -> Self {
        Self {
            sleep: None,
            armed: false,
        }
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    pub(super) fn arm(&mut self, time: Millis) {
        let sleep = tokio::time::sleep(time.to_std());
        match &mut self.sleep {
            Some(old) => old.set(sleep),
            None => self.sleep = Some(Box::pin(sleep)),
        }
        self.armed = true;
    }

    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Ready when the time is over; never while it is not armed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) if self.armed => sleep.as_mut().poll(cx),
            _ => Poll::Pending,
        }
    }
}
