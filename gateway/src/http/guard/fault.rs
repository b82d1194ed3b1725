//! What can be wrong with a request before anybody reads its body.

use crate::limits;
use holdfast_api::ErrorCode;

/// Why a request is refused by its head alone. The connection ends with the refusal, because
/// where the next request would begin is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The headers did not arrive in time.
    Slow,
    /// The header section is too large, or has too many headers.
    Large,
    /// Not HTTP/1.1 or 1.0.
    Version,
    /// Not HTTP.
    Malformed,
    /// The request target is not one.
    Target,
    /// No `Host`, or more than one.
    Host,
    /// Two lengths, or one that is not a number.
    Length,
    /// A transfer encoding other than `chunked`, or one in HTTP/1.0.
    Encoding,
    /// A length and an encoding: each names another end of the body.
    Both,
}

impl Fault {
    /// Every fault there is.
    pub(super) const ALL: &'static [Self] = &[
        Self::Slow,
        Self::Large,
        Self::Version,
        Self::Malformed,
        Self::Target,
        Self::Host,
        Self::Length,
        Self::Encoding,
        Self::Both,
    ];

    /// The error code that the client gets.
    pub(crate) fn code(self) -> ErrorCode {
        match self {
            Self::Slow => ErrorCode::RequestTimeout,
            Self::Large => ErrorCode::HeadersTooLarge,
            _ => ErrorCode::InvalidRequest,
        }
    }

    /// What the client is told.
    pub(crate) fn detail(self) -> String {
        let text = match self {
            Self::Slow => "the header section did not arrive in time",
            Self::Large => {
                return format!(
                    "the header section is larger than {} bytes, or has more than {} headers",
                    limits::HEADER_BYTES_MAX,
                    limits::HEADERS_MAX
                );
            }
            Self::Version => "this listener speaks HTTP/1.1 and HTTP/1.0 only",
            Self::Malformed => "this is not an HTTP/1.1 request (the listener speaks no TLS)",
            Self::Target => "the request target is not a path or a URI",
            Self::Host => "an HTTP/1.1 request has exactly one `host` header",
            Self::Length => "`content-length` is one whole number, given once",
            Self::Encoding => "the only transfer encoding is `chunked`, given once, in HTTP/1.1",
            Self::Both => "`content-length` and `transfer-encoding` exclude each other",
        };
        text.to_owned()
    }
}
