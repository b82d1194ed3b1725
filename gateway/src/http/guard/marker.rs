//! How a refused head reaches the place where replies are written.
//!
//! The guard puts a request of its own in the place of the refused one. The HTTP library then
//! answers it in its turn, after the replies to the requests before it, and closes the
//! connection. A client cannot send such a request: the guard refuses its method.

use super::Fault;

/// The method of the guard's own requests.
pub(super) const METHOD: &str = "REFUSED";

/// The request that stands for a refused one.
pub(super) fn request(fault: Fault) -> String {
    let number = Fault::ALL.iter().position(|known| *known == fault);
    let number = number.unwrap_or_default();
    format!("{METHOD} /{number} HTTP/1.1\r\nhost: guard\r\nconnection: close\r\n\r\n")
}

/// The fault that a request stands for, if it is one of the guard's own.
pub(crate) fn fault<B>(request: &http::Request<B>) -> Option<Fault> {
    if request.method().as_str() != METHOD {
        return None;
    }
    let number: usize = request.uri().path().strip_prefix('/')?.parse().ok()?;
    Fault::ALL.get(number).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_comes_back_from_its_request() {
        for expected in Fault::ALL {
            let text = request(*expected);
            let target = text.split(' ').nth(1).unwrap();
            let sent = http::Request::builder().method(METHOD).uri(target).body(());
            assert_eq!(fault(&sent.unwrap()), Some(*expected));
        }
    }

    #[test]
    fn the_request_that_stands_for_a_refused_one_fits_any_buffer() {
        let longest = Fault::ALL.iter().map(|fault| request(*fault).len()).max();
        assert!(longest.unwrap() < 128);
    }
}
