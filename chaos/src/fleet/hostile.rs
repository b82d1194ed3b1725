//! Requests that no well-behaved client sends, each of which must be refused and change nothing.

use super::client::{Client, Held};
use super::reply::Answer;
use holdfast_judge::Rule;

/// A way to ask wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hostility {
    WrongToken,
    ForgedId,
    TruncatedId,
}

impl Hostility {
    pub(super) const ALL: [Self; 3] = [Self::WrongToken, Self::ForgedId, Self::TruncatedId];
}

impl Client {
    /// Asks wrongly about a hold.
    pub(super) async fn ask_wrongly(&mut self, through: usize, held: &Held, how: Hostility) {
        let (lock_id, token) = match how {
            Hostility::WrongToken => (held.lock_id.clone(), held.token + 1),
            Hostility::ForgedId => (forged(&held.lock_id), held.token),
            Hostility::TruncatedId => (
                held.lock_id[..held.lock_id.len() / 2].to_owned(),
                held.token,
            ),
        };
        let answer = self.renew_unreported(through, &lock_id, token).await;
        match answer {
            Answer::Renewed(_) if how == Hostility::WrongToken => {
                self.court().wrong_token_renewed(held.no);
            }
            Answer::Ended(_) | Answer::Unknown(_) | Answer::Rejected(400, _) => {
                self.court().count(|counts| counts.hostile += 1);
            }
            other => {
                let text = format!("a renewal with {how:?} is answered {other:?}");
                self.court().find(Rule::OneAnswer, Some(held.name), text);
            }
        }
    }
}

/// The id with one of its random bits changed: those begin after the prefix, the version, the
/// group and the slot, in the middle of the text.
fn forged(lock_id: &str) -> String {
    let at = lock_id.len() / 2;
    let mut bytes = lock_id.as_bytes().to_vec();
    bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
    String::from_utf8_lossy(&bytes).into_owned()
}
