//! Two gateways show each other that they know the deployment's secret. It never travels: each
//! signs what both have drawn at random.

use crate::peer::connection::Bytestream;
use crate::peer::wire::VERSION;
use anyhow::Context;
use bytes::{Bytes, BytesMut};
use futures::{SinkExt as _, StreamExt as _};
use hmac::{Hmac, KeyInit, Mac};
use rand::TryRng;
use rand::rngs::SysRng;
use sha2::Sha256;
use std::fmt;
use tokio::io::{AsyncRead, AsyncWrite};

const NONCE_BYTES: usize = 16;
/// A shorter secret could be guessed from a handshake that somebody has seen.
const SECRET_BYTES_MIN: usize = 16;

/// What the gateways of a deployment know and nobody else does. Never printed.
#[derive(Clone)]
pub struct PeerSecret(Bytes);

impl fmt::Debug for PeerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerSecret(..)")
    }
}

/// Which side speaks, so that neither can be answered with its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Dialer,
    Listener,
}

impl PeerSecret {
    /// For gateways that listen on loopback only: whoever is on the machine is believed.
    pub fn none() -> Self {
        Self(Bytes::new())
    }

    /// From a file's content, without white space around it.
    ///
    /// # Errors
    /// When it is shorter than 16 bytes.
    pub fn from_file(content: &[u8]) -> anyhow::Result<Self> {
        let secret = content.trim_ascii();
        anyhow::ensure!(
            secret.len() >= SECRET_BYTES_MIN,
            "has {} bytes; the secret needs at least {SECRET_BYTES_MIN} (for example \
             `openssl rand -hex 32`)",
            secret.len()
        );
        Ok(Self(Bytes::copy_from_slice(secret)))
    }

    fn mac(&self, side: Side, dialer: &[u8], listener: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(match side {
            Side::Dialer => b"holdfast-peer dialer",
            Side::Listener => b"holdfast-peer listener",
        });
        mac.update(dialer);
        mac.update(listener);
        Some(mac)
    }
}

/// Shakes hands as `own` side.
///
/// # Errors
/// When the other side speaks another version or does not know the secret, or the connection ends.
pub(super) async fn shake<T: AsyncRead + AsyncWrite + Unpin>(
    frames: &mut Bytestream<T>,
    own: Side,
    secret: &PeerSecret,
) -> anyhow::Result<()> {
    let mut nonce = [0; NONCE_BYTES];
    SysRng
        .try_fill_bytes(&mut nonce)
        .context("the system gives no random numbers")?;
    let mut hello = BytesMut::from(&VERSION.to_be_bytes()[..]);
    hello.extend_from_slice(&nonce);
    frames.send(hello.freeze()).await?;
    let theirs = next(frames).await?;
    let (version, theirs) = theirs
        .split_at_checked(size_of_val(&VERSION))
        .context("no greeting")?;
    anyhow::ensure!(
        version == VERSION.to_be_bytes(),
        "the other gateway speaks another version of the peer protocol"
    );
    anyhow::ensure!(theirs.len() == NONCE_BYTES, "no greeting");
    let (other, dialer, listener) = match own {
        Side::Dialer => (Side::Listener, &nonce[..], theirs),
        Side::Listener => (Side::Dialer, theirs, &nonce[..]),
    };
    let proof = secret.mac(own, dialer, listener).context("no secret")?;
    frames
        .send(Bytes::copy_from_slice(&proof.finalize().into_bytes()))
        .await?;
    let shown = next(frames).await?;
    let expected = secret.mac(other, dialer, listener).context("no secret")?;
    expected
        .verify_slice(&shown)
        .ok()
        .context("the other gateway does not know this deployment's peer secret")
}

async fn next<T: AsyncRead + AsyncWrite + Unpin>(
    frames: &mut Bytestream<T>,
) -> anyhow::Result<BytesMut> {
    Ok(frames.next().await.context("the connection ended")??)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::connection::framed;

    async fn meet(dialer: &PeerSecret, listener: &PeerSecret) -> (bool, bool) {
        let (a, b) = tokio::io::duplex(1024);
        let (mut a, mut b) = (framed(a), framed(b));
        let dialing = async {
            let shaken = shake(&mut a, Side::Dialer, dialer).await.is_ok();
            drop(a);
            shaken
        };
        let listening = async {
            let shaken = shake(&mut b, Side::Listener, listener).await.is_ok();
            drop(b);
            shaken
        };
        tokio::join!(dialing, listening)
    }

    #[tokio::test]
    async fn gateways_that_know_the_same_secret_meet() {
        let secret = PeerSecret::from_file(b"0123456789abcdef\n").unwrap();
        assert_eq!(meet(&secret, &secret).await, (true, true));
        assert_eq!(
            meet(&PeerSecret::none(), &PeerSecret::none()).await,
            (true, true)
        );
    }

    #[tokio::test]
    async fn a_gateway_with_another_secret_is_refused_by_both_sides() {
        let one = PeerSecret::from_file(b"0123456789abcdef").unwrap();
        let other = PeerSecret::from_file(b"fedcba9876543210").unwrap();
        assert_eq!(meet(&one, &other).await, (false, false));
        assert_eq!(meet(&PeerSecret::none(), &other).await, (false, false));
    }

    #[tokio::test]
    async fn words_that_are_sent_back_are_no_proof() {
        let secret = PeerSecret::from_file(b"0123456789abcdef").unwrap();
        let (a, b) = tokio::io::duplex(1024);
        let (mut a, mut b) = (framed(a), framed(b));
        let mirror = async move {
            while let Some(Ok(frame)) = b.next().await {
                if b.send(frame.freeze()).await.is_err() {
                    break;
                }
            }
        };
        let shaking = async move { shake(&mut a, Side::Dialer, &secret).await };
        let (shaken, ()) = tokio::join!(shaking, mirror);
        assert!(shaken.is_err());
    }

    #[test]
    fn a_short_secret_is_refused_and_none_is_printed() {
        assert!(PeerSecret::from_file(b"  short \n").is_err());
        let secret = PeerSecret::from_file(b"0123456789abcdef").unwrap();
        assert!(!format!("{secret:?}").contains("0123"));
    }
}
