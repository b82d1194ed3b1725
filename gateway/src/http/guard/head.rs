//! Reads the head of a request, and finds where its body ends.
//!
//! Pure. It uses the parser that the HTTP library uses, with the same settings, so the two cannot
//! disagree about where a head ends.

use super::Fault;
use super::marker;
use crate::http::Route;
use crate::limits;
use std::mem::MaybeUninit;

/// What the first bytes of a request say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The head is not complete.
    Partial,
    /// The head is complete.
    Complete {
        /// Its length in bytes, with the empty line.
        bytes: usize,
        /// What follows it.
        body: Body,
    },
    /// It is refused.
    Bad(Fault),
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// After so many bytes.
    Sized(u64),
    /// Where its chunks say.
    Chunked,
}

/// Reads the head at the beginning of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Head {
    let mut headers = [const { MaybeUninit::uninit() }; limits::HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Partial) if bytes.len() > limits::HEADER_BYTES_MAX => {
            Head::Bad(Fault::Large)
        }
        Ok(httparse::Status::Partial) => Head::Partial,
        Ok(httparse::Status::Complete(len)) if len > limits::HEADER_BYTES_MAX => {
            Head::Bad(Fault::Large)
        }
        Ok(httparse::Status::Complete(len)) => match judge(&request) {
            Ok(body) => Head::Complete { bytes: len, body },
            Err(fault) => Head::Bad(fault),
        },
        Err(httparse::Error::TooManyHeaders) => Head::Bad(Fault::Large),
        Err(httparse::Error::Version) => Head::Bad(Fault::Version),
        Err(_) => Head::Bad(Fault::Malformed),
    }
}

fn judge(request: &httparse::Request<'_, '_>) -> Result<Body, Fault> {
    if request.method == Some(marker::METHOD) {
        return Err(Fault::Malformed);
    }
    check_target(request.path.unwrap_or_default())?;
    let http_11 = request.version == Some(1);
    let (mut hosts, mut length, mut chunked) = (0, None, false);
    for header in request.headers.iter() {
        match header.name.len() {
            4 if header.name.eq_ignore_ascii_case("host") => hosts += 1,
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let first = length.replace(read_length(header.value)?).is_none();
                first.then_some(()).ok_or(Fault::Length)?;
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                let known = header.value.eq_ignore_ascii_case(b"chunked");
                if !known || chunked || !http_11 {
                    return Err(Fault::Encoding);
                }
                chunked = true;
            }
            _ => {}
        }
    }
    match (length, chunked) {
        _ if hosts > 1 || (http_11 && hosts == 0) => Err(Fault::Host),
        (Some(_), true) => Err(Fault::Both),
        (None, true) => Ok(Body::Chunked),
        (length, false) => Ok(Body::Sized(length.unwrap_or(0))),
    }
}

/// The HTTP library refuses what is not a URI, but without saying so in words.
fn check_target(target: &str) -> Result<(), Fault> {
    if Route::at(target).is_some() {
        return Ok(());
    }
    let path = |uri: &http::Uri| target.starts_with(['/', '*']) || uri.scheme().is_some();
    match target.parse::<http::Uri>() {
        Ok(uri) if path(&uri) => Ok(()),
        _ => Err(Fault::Target),
    }
}

/// Digits only: other readers differ in what they make of a sign, a space or a list.
fn read_length(value: &[u8]) -> Result<u64, Fault> {
    let mut length = if value.is_empty() { None } else { Some(0_u64) };
    for byte in value {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
        length = length
            .and_then(|length| length.checked_mul(10))
            .and_then(|length| length.checked_add(digit?));
    }
    length.ok_or(Fault::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(request: &str, expected: Head) {
        let whole = read(request.as_bytes());
        assert_eq!(whole, expected, "{request:?}");
    }

    fn post(headers: &str) -> String {
        format!("POST /x HTTP/1.1\r\nhost: h\r\n{headers}\r\n")
    }

    #[test]
    fn the_end_of_head_and_body_is_found() {
        for (headers, body) in [
            ("", Body::Sized(0)),
            ("content-length: 7\r\n", Body::Sized(7)),
            ("Content-LENGTH:  7 \r\n", Body::Sized(7)),
            ("Transfer-Encoding: Chunked\r\n", Body::Chunked),
        ] {
            let head = post(headers);
            let bytes = head.len();
            check(&format!("{head}rest"), Head::Complete { bytes, body });
            check(&head[..bytes - 1], Head::Partial);
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for (headers, fault) in [
            (
                "content-length: 5\r\ntransfer-encoding: chunked\r\n",
                Fault::Both,
            ),
            (
                "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
                Fault::Both,
            ),
            ("content-length: 5\r\ncontent-length: 5\r\n", Fault::Length),
            ("content-length: 5, 5\r\n", Fault::Length),
            ("content-length: +5\r\n", Fault::Length),
            ("content-length: -1\r\n", Fault::Length),
            ("content-length: 0x5\r\n", Fault::Length),
            ("content-length: \r\n", Fault::Length),
            ("content-length: 99999999999999999999\r\n", Fault::Length),
            ("transfer-encoding: gzip, chunked\r\n", Fault::Encoding),
            ("transfer-encoding: identity\r\n", Fault::Encoding),
            (
                "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
                Fault::Encoding,
            ),
            ("host: other\r\n", Fault::Host),
            ("content-length : 5\r\n", Fault::Malformed),
            (" folded\r\n", Fault::Malformed),
            ("a: b\rc\r\n", Fault::Malformed),
            ("a: b\0c\r\n", Fault::Malformed),
        ] {
            check(&post(headers), Head::Bad(fault));
        }
    }

    #[test]
    fn what_is_not_a_request_of_http_1_is_refused() {
        for (request, fault) in [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Fault::Version),
            ("GET / HTTP/3.0\r\n\r\n", Fault::Version),
            ("GET / HTTP/1.1\r\n\r\n", Fault::Host),
            (
                "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
                Fault::Encoding,
            ),
            ("GET <> HTTP/1.1\r\nhost: h\r\n\r\n", Fault::Target),
            ("GET relative HTTP/1.1\r\nhost: h\r\n\r\n", Fault::Target),
            ("\u{16}\u{3}\u{1}", Fault::Malformed),
            ("GET  / HTTP/1.1\r\nhost: h\r\n\r\n", Fault::Malformed),
        ] {
            check(request, Head::Bad(fault));
        }
        let forged = format!("{} /0 HTTP/1.1\r\nhost: h\r\n\r\n", marker::METHOD);
        check(&forged, Head::Bad(Fault::Malformed));
    }

    #[test]
    fn a_head_is_bounded_in_bytes_and_in_headers() {
        let many = "a: b\r\n".repeat(limits::HEADERS_MAX + 1);
        check(&post(&many), Head::Bad(Fault::Large));
        let long = format!("a: {}\r\n", "b".repeat(limits::HEADER_BYTES_MAX));
        check(&post(&long), Head::Bad(Fault::Large));
        check(&post(&long)[..limits::HEADER_BYTES_MAX], Head::Partial);
        check(
            &post(&long)[..limits::HEADER_BYTES_MAX + 1],
            Head::Bad(Fault::Large),
        );
    }
}
