//! Secrets that clients were given, and whether a text has one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::collections::HashSet;

/// What stands before the rest of a lock id.
const LOCK_ID_PREFIX: &str = "lock-";
/// Of what follows, so many characters are version, group and slot, which logs may have. Then come 128
/// random bits.
const LOCK_ID_BEFORE_BITS: usize = 15;
/// The same in bytes, when it is decoded.
const LOCK_ID_BYTES_BEFORE_BITS: usize = 11;
/// What stands before the rest of a token.
const TOKEN_PREFIX: &str = "hft_";
/// So many characters of each secret are looked for: nobody finds them by chance, and whoever has them
/// has too much. Of a lock id they are all random.
const LOOKED_FOR: usize = 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    parts: HashSet<Vec<u8>>,
}

impl Secrets {
    /// A lock id is a secret.
    pub(super) fn lock_id(&mut self, id: &str) {
        let rest = id.strip_prefix(LOCK_ID_PREFIX);
        self.add(rest.and_then(|rest| rest.get(LOCK_ID_BEFORE_BITS..)));
        // Its random bits as a number, as something that prints all fields would have them.
        let bits = rest.and_then(|rest| {
            let bytes = URL_SAFE_NO_PAD.decode(rest).ok()?;
            let bits = bytes.get(LOCK_ID_BYTES_BEFORE_BITS..)?.first_chunk()?;
            Some(u128::from_be_bytes(*bits))
        });
        self.add(bits.map(|bits| format!("{bits:032x}")).as_deref());
        self.add(bits.map(|bits| format!("{bits:032}")).as_deref());
    }

    /// A bearer token is one.
    pub(super) fn token(&mut self, token: &str) {
        self.add(token.strip_prefix(TOKEN_PREFIX));
    }

    /// What has another form than it used to have must not go unnoticed.
    #[expect(
        clippy::expect_used,
        reason = "a secret of another form is a fault here"
    )]
    fn add(&mut self, rest: Option<&str>) {
        let part = rest.and_then(|rest| rest.get(..LOOKED_FOR));
        let part = part.expect("a secret of the known form");
        self.parts.insert(part.as_bytes().to_vec());
    }

    /// How many texts are looked for: three of each lock id.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// The first line that has one.
    pub(super) fn found_in<'a>(&self, text: &'a str) -> Option<&'a str> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        text.lines().find(|line| {
            let words = line.as_bytes().split(|byte| !is_part(*byte));
            words
                .flat_map(|word| word.windows(LOOKED_FOR))
                .any(|part| self.parts.contains(part))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "lock-AQECAwQFBgcIAAkKCwwNDg8QERITFBUWFxgZbmFtZQ";
    const TOKEN: &str = "hft_abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG";

    fn secrets() -> Secrets {
        let mut secrets = Secrets::default();
        secrets.lock_id(ID);
        secrets.token(TOKEN);
        secrets
    }

    #[test]
    fn a_secret_is_found_in_any_place_of_a_line() {
        // They are the bytes from the twelfth on.
        let number = 0x0a0b_0c0d_0e0f_1011_1213_1415_1617_1819_u128;
        let hexadecimal = format!("{number:032x}");
        let decimal = number.to_string();
        for secret in [ID, TOKEN, &ID[20..], &TOKEN[4..26], &hexadecimal, &decimal] {
            let line = format!(r#"{{"message":"x","body":"y={secret}"}}"#);
            let text = format!("a line\n{line}\nanother");
            assert_eq!(secrets().found_in(&text), Some(line.as_str()));
        }
    }

    #[test]
    fn what_a_lock_id_shares_with_its_group_and_what_is_too_short_is_no_secret() {
        for text in [&ID[..30], &TOKEN[..20], "lock-", "", &TOKEN.to_uppercase()] {
            assert_eq!(secrets().found_in(text), None, "{text}");
        }
    }
}
