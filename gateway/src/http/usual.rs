//! Reads renewals in the form that nearly every client sends. Pure.
//!
//! Nine in ten of all requests are renewals, and the general reader's work on one (recognising
//! names in any order, strings with escapes, numbers of any kind) is a tenth of what the whole
//! request costs, and a fifth of what one in a batch costs. What is not exactly in the usual form
//! is none of this module's business: the general reader reads it, or says what is wrong with it.
//! Where this one reads something, the general one reads the same.

use crate::limits;
use holdfast_api::{RenewBatch, RenewRequest};
use std::borrow::Cow;

/// So many digits always fit a `u64`.
const DIGITS_MAX: usize = 19;
/// A renewal of a name of one byte is longer. For the size of a buffer only.
const RENEWAL_BYTES_MIN: usize = 64;

/// The renewal, if `body` is `{"lockId":"...","fencingToken":...}`, perhaps with `"ttlMs":...` at
/// the end, in this order, with spaces between the parts or without.
pub fn renewal(body: &[u8]) -> Option<RenewRequest<'_>> {
    let mut left = Left(body);
    let renewal = left.renewal()?;
    left.ended().then_some(renewal)
}

/// The batch, if `body` is `{"renewals":[...]}` with at least one renewal in such a form, and no
/// more than are allowed.
pub fn renewals(body: &[u8]) -> Option<RenewBatch<'_>> {
    let mut left = Left(body);
    left.byte(b'{')?;
    left.name(br#""renewals""#)?;
    left.byte(b'[')?;
    let room = (body.len() / RENEWAL_BYTES_MIN).min(limits::BATCH_ITEMS_MAX);
    let mut renewals = Vec::with_capacity(room);
    loop {
        renewals.push(left.renewal()?);
        if left.byte(b',').is_none() {
            break;
        }
        if renewals.len() == limits::BATCH_ITEMS_MAX {
            return None;
        }
    }
    left.byte(b']')?;
    left.byte(b'}')?;
    left.ended().then_some(RenewBatch { renewals })
}

/// What is left to read.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn renewal(&mut self) -> Option<RenewRequest<'a>> {
        self.byte(b'{')?;
        self.name(br#""lockId""#)?;
        let lock_id = self.plain_text()?;
        self.byte(b',')?;
        self.name(br#""fencingToken""#)?;
        let fencing_token = self.whole()?;
        let ttl_ms = match self.byte(b',') {
            Some(()) => {
                self.name(br#""ttlMs""#)?;
                Some(self.whole()?)
            }
            None => None,
        };
        self.byte(b'}')?;
        Some(RenewRequest {
            lock_id: Cow::Borrowed(lock_id),
            fencing_token,
            ttl_ms,
        })
    }

    /// Whether nothing but spaces is left.
    fn ended(&mut self) -> bool {
        self.spaces();
        self.0.is_empty()
    }

    fn spaces(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.0 {
            self.0 = rest;
        }
    }

    fn byte(&mut self, wanted: u8) -> Option<()> {
        self.spaces();
        let (first, rest) = self.0.split_first()?;
        (*first == wanted).then(|| self.0 = rest)
    }

    /// A field's name, with the colon after it.
    fn name(&mut self, quoted: &[u8]) -> Option<()> {
        self.spaces();
        self.0 = self.0.strip_prefix(quoted)?;
        self.byte(b':')
    }

    /// A string of the characters that lock ids consist of.
    fn plain_text(&mut self) -> Option<&'a str> {
        self.byte(b'"')?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let length = self.0.iter().position(|byte| !plain(byte))?;
        let (text, rest) = self.0.split_at(length);
        self.0 = rest.strip_prefix(b"\"")?;
        str::from_utf8(text).ok()
    }

    /// A whole number. What may follow it in another kind of number is refused by what is looked
    /// for next.
    fn whole(&mut self) -> Option<u64> {
        self.spaces();
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit());
        let length = digits.clone().count();
        let leading_zero = length > 1 && self.0[0] == b'0';
        if length == 0 || length > DIGITS_MAX || leading_zero {
            return None;
        }
        let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
        self.0 = &self.0[length..];
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_usual_forms_are_read() {
        for (body, ttl_ms) in [
            (r#"{"lockId":"lock-A_9","fencingToken":4711}"#, None),
            (
                r#"{"lockId":"lock-A_9","fencingToken":4711,"ttlMs":30000}"#,
                Some(30_000),
            ),
            (
                r#"{"lockId": "lock-A_9", "fencingToken": 4711, "ttlMs": 30000}"#,
                Some(30_000),
            ),
            (
                " {\n\t\"lockId\" : \"lock-A_9\" , \"fencingToken\" : 4711 }\r\n",
                None,
            ),
        ] {
            let expected = RenewRequest {
                lock_id: Cow::Borrowed("lock-A_9"),
                fencing_token: 4711,
                ttl_ms,
            };
            assert_eq!(renewal(body.as_bytes()), Some(expected), "{body}");
        }
    }

    #[test]
    fn everything_else_is_left_to_the_general_reader() {
        for body in [
            "",
            "{}",
            r#"{"fencingToken":1,"lockId":"a"}"#,
            r#"{"lockId":"a","fencingToken":"1"}"#,
            r#"{"lockId":"a","fencingToken":1.0}"#,
            r#"{"lockId":"a","fencingToken":1e3}"#,
            r#"{"lockId":"a","fencingToken":-1}"#,
            r#"{"lockId":"a","fencingToken":01}"#,
            r#"{"lockId":"a","fencingToken":99999999999999999999}"#,
            r#"{"lockId":"\u0061","fencingToken":1}"#,
            r#"{"lockId":"a","fencingToken":1,"ttlMs":null}"#,
            r#"{"lockId":"a","fencingToken":1,"other":1}"#,
            r#"{"lockId":"a","fencingToken":1}x"#,
            r#"{"lockId":"a","fencingToken":1"#,
            r#"{"lockId":"a"#,
        ] {
            assert_eq!(renewal(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn a_batch_in_the_usual_form_is_read() {
        let one = r#"{"lockId":"lock-A_9","fencingToken":4711}"#;
        let two = r#"{ "lockId": "b", "fencingToken": 1, "ttlMs": 5 }"#;
        for (body, count) in [
            (format!(r#"{{"renewals":[{one}]}}"#), 1),
            (
                format!(" {{ \"renewals\" : [ {two} ,\n{one}, {two} ] }} "),
                3,
            ),
        ] {
            let read = renewals(body.as_bytes()).unwrap();
            assert_eq!(read.renewals.len(), count);
            assert_eq!(read, serde_json::from_str(&body).unwrap(), "{body}");
        }
    }

    #[test]
    fn every_other_batch_is_left_to_the_general_reader() {
        let one = r#"{"lockId":"a","fencingToken":1}"#;
        let many = vec![one; limits::BATCH_ITEMS_MAX + 1].join(",");
        for body in [
            r#"{"renewals":[]}"#.to_owned(),
            format!(r#"{{"renewals":[{one},]}}"#),
            format!(r#"{{"renewals":[{one} {one}]}}"#),
            format!(r#"{{"renewals":[{one}],"other":1}}"#),
            format!(r#"{{"renewals":[{one}],"renewals":[{one}]}}"#),
            format!(r#"{{"renewals":[{one}]}}x"#),
            format!(r#"{{"renewals":[{one}]"#),
            format!(r#"[[{one}]]"#),
            r#"{"renewals":[["a",1]]}"#.to_owned(),
            format!(r#"{{"renewals":[{many}]}}"#),
        ] {
            assert_eq!(renewals(body.as_bytes()), None, "{body:.80}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_here_is_read_the_same_by_the_general_reader(
            body in "[ \t\n]?\\{ ?\"lockId\" ?: ?\"[a-zA-Z_\\\\-]{0,9}\"? ?, ?\"fencingToken\" ?: ?[-+0-9.e\"]{0,22} ?(, ?\"ttlMs\" ?: ?[0-9.e]{0,22})? ?\\}[ x]?"
        ) {
            if let Some(read) = renewal(body.as_bytes()) {
                let general: RenewRequest<'_> = serde_json::from_str(&body).unwrap();
                prop_assert_eq!(read, general);
            }
        }
    }
}
