//! The calls of those who look after locks: who holds what, and how to end it.

use crate::client::Client;
use crate::error::Error;
use crate::wire;
use holdfast_api::{ForceReleaseReply, ForceReleaseRequest, LockInfo, LockPage, paths};
use http::Uri;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

impl Client {
    /// Who holds a name, if anybody does.
    ///
    /// # Errors
    /// [`Error::Rejected`] also without the right to inspect it.
    pub async fn inspect(&self, name: &str) -> Result<LockInfo, Error> {
        let reply = self.get(query(&[("name", name)])).await?;
        wire::inspect(&reply.raw)
    }

    /// A page of at most `limit` locks (1 to 500) that are held and whose names begin with `prefix`,
    /// in the order of their names' bytes. The first page has no cursor, the next one has
    /// [`LockPage::next_cursor`]; without one it was the last.
    ///
    /// # Errors
    /// As [`Client::inspect`]; [`Error::Unknown`] also when one of the clusters cannot be read.
    pub async fn list(
        &self,
        prefix: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<LockPage, Error> {
        let limit = limit.to_string();
        let mut fields = vec![("prefix", prefix), ("limit", &limit)];
        fields.extend(cursor.map(|cursor| ("cursor", cursor)));
        let reply = self.get(query(&fields)).await?;
        wire::list(&reply.raw)
    }

    /// Ends somebody's hold; `reason` goes into the audit log. The name is free when the last
    /// promise to the holder has ended, or at once with `immediate`, where only the fencing token
    /// keeps the old holder out.
    ///
    /// # Errors
    /// [`Error::Rejected`] also without the right to end it.
    pub async fn force_release(
        &self,
        name: &str,
        reason: &str,
        immediate: bool,
    ) -> Result<ForceReleaseReply, Error> {
        let body = wire::encode(&ForceReleaseRequest {
            name: name.into(),
            reason: reason.into(),
            immediate: immediate.then_some(true),
        });
        let timeout = self.request_timeout();
        let reply = self.post(paths::FORCE_RELEASE, body, timeout).await?;
        wire::force_release(&reply.raw)
    }
}

fn query(fields: &[(&str, &str)]) -> Uri {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}={}", utf8_percent_encode(value, NON_ALPHANUMERIC)))
        .collect();
    let text = format!("{}?{}", paths::LOCKS, fields.join("&"));
    // Letters, digits and percent signs only, so this cannot fail.
    text.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_carries_any_text() {
        for (value, expected) in [
            ("a/b", "/api/v1/locks?name=a%2Fb"),
            ("a b&c=ü\n#", "/api/v1/locks?name=a%20b%26c%3D%C3%BC%0A%23"),
            ("", "/api/v1/locks?name="),
        ] {
            assert_eq!(query(&[("name", value)]), *expected, "{value}");
        }
        let long = "x".repeat(512);
        assert_eq!(
            query(&[("name", &long), ("limit", "5")])
                .query()
                .unwrap()
                .len(),
            525
        );
    }
}
