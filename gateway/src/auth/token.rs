//! Bearer tokens and their hashes. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Secret scanners find a leaked token by what it begins with.
const PREFIX: &str = "hft_";

/// A new token: 256 random bits. Shows itself only where it is asked to.
pub struct BearerToken(String);

/// The SHA-256 of a token. A token is too random to be guessed from it, so it needs no salt and no
/// slow function: those are for passwords, which people choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl BearerToken {
    /// The token made of these random bits.
    pub fn from_random(bits: [u8; 32]) -> Self {
        Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bits)))
    }

    /// What the client sends after `Bearer `.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// What the roll keeps of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

impl TokenHash {
    /// The hash of what a client sent.
    pub fn of(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// From 64 hexadecimal digits.
    pub fn parse(hex: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = hex.as_bytes().as_chunks::<2>();
        let (pairs, []) = digits else { return None };
        if pairs.len() != bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(pairs) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            let value = digit(pair[0])? * 16 + digit(pair[1])?;
            *byte = u8::try_from(value).ok()?;
        }
        Some(Self(bytes))
    }

    /// As 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Where a table keeps it. Nobody can choose what this is for a token.
    pub(super) fn place(self) -> u64 {
        u64::from_be_bytes(self.0.first_chunk().copied().unwrap_or_default())
    }

    /// Whether they are the same, in a time that does not depend on where they differ.
    pub(super) fn is(self, other: Self) -> bool {
        let differing = self
            .0
            .iter()
            .zip(other.0)
            .fold(0, |seen, (a, b)| seen | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_back_as_it_was_written_and_is_what_sha256sum_prints() {
        let hash = TokenHash::of(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash.to_hex(), hex);
        assert!(TokenHash::parse(hex).unwrap().is(hash));
        assert!(TokenHash::parse(&hex.to_uppercase()).unwrap().is(hash));
        let short = hex.get(1..).unwrap();
        let long = format!("{hex}00");
        for bad in ["", "xy", short, &long, &hex.replace('b', "g"), "hft_token"] {
            assert!(TokenHash::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn hashes_that_differ_in_one_bit_differ() {
        let hash = TokenHash::of(b"abc");
        for bit in 0..256 {
            let mut other = hash;
            other.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!hash.is(other));
        }
    }

    #[test]
    fn tokens_are_long_random_and_not_printed() {
        let (one, other) = (
            BearerToken::from_random([1; 32]),
            BearerToken::from_random([2; 32]),
        );
        assert_eq!(one.reveal().len(), PREFIX.len() + 43);
        assert_ne!(one.reveal(), other.reveal());
        assert!(one.hash().is(TokenHash::of(one.reveal().as_bytes())));
        assert!(!format!("{one:?} {:?}", one.hash()).contains("hft_"));
    }
}
