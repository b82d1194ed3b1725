//! Reads query strings. Pure.

use super::failure::Failure;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The fields of a query string, as HTML forms write them: a space is `+` or `%20`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> Query<'a> {
    /// Reads `query`, which may have these fields, each at most once.
    ///
    /// # Errors
    /// When it has another, one twice, or what is no UTF-8 or not encoded as it must be. A field
    /// that is misspelt would otherwise mean nothing, silently.
    pub(super) fn read(query: &'a str, fields: &[&'static str]) -> Result<Self, Failure> {
        let mut read: Vec<(&'static str, Cow<'a, str>)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = fields.iter().find(|field| **field == name).ok_or_else(|| {
                let fields = fields.join("`, `");
                Failure::invalid(format!("the query: allowed are the fields `{fields}`"))
            })?;
            if read.iter().any(|(known, _)| known == name) {
                return Err(Failure::invalid(format!("{name}: is in the query twice")));
            }
            let value = decode(value).ok_or_else(|| {
                Failure::invalid(format!(
                    "{name}: must be UTF-8, percent-encoded (with curl: `-G --data-urlencode`)"
                ))
            })?;
            read.push((name, value));
        }
        Ok(Self(read))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| &**value)
    }
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    let broken = (0..bytes.len())
        .any(|at| bytes[at] == b'%' && !(is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2))));
    if broken {
        return None;
    }
    if !text.contains('+') {
        return percent_decode_str(text).decode_utf8().ok();
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(Cow::Owned(decoded.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Vec<(&'static str, String)>, String> {
        let read = Query::read(query, &["name", "limit"]);
        let owned = |(name, value): (&'static str, Cow<'_, str>)| (name, value.into_owned());
        read.map(|query| query.0.into_iter().map(owned).collect())
            .map_err(|failure| failure.detail.into_owned())
    }

    #[test]
    fn values_are_decoded_as_forms_are() {
        for (query, expected) in [
            ("name=a", "a"),
            ("name=a+b%20c%2Bd", "a b c+d"),
            ("name=%C3%BCn%C3%AF%2F", "ünï/"),
            ("name=a=b", "a=b"),
            ("name=", ""),
            ("name", ""),
            ("&name=a&", "a"),
        ] {
            assert_eq!(
                read(query).unwrap(),
                [("name", expected.to_owned())],
                "{query}"
            );
        }
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read("limit=1&name=a").unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_meant_so_is_refused() {
        for (query, expected) in [
            ("Name=a", "allowed are the fields `name`, `limit`"),
            ("na%6De=a", "allowed are the fields"),
            ("name=a&name=b", "name: is in the query twice"),
            ("name=%", "name: must be UTF-8"),
            ("name=%2", "name: must be UTF-8"),
            ("name=%zz", "name: must be UTF-8"),
            ("name=%FF", "name: must be UTF-8"),
        ] {
            let detail = read(query).unwrap_err();
            assert!(detail.contains(expected), "{query}: {detail}");
        }
    }
}
