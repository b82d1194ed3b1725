//! Which handler a request is for. Pure.

use super::failure::Failure;
use crate::limits;
use holdfast_api::{ErrorCode, paths};
use http::Method;

/// What can be asked of the public listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Take a lock.
    Acquire,
    /// Renew a hold.
    Renew,
    /// Give a hold back.
    Release,
    /// Many acquires.
    AcquireBatch,
    /// Many renewals.
    RenewBatch,
    /// Many releases.
    ReleaseBatch,
    /// Inspect locks.
    Inspect,
    /// End someone's hold.
    ForceRelease,
    /// The OpenAPI document.
    OpenApi,
}

impl Route {
    /// Every route there is.
    pub const ALL: &'static [Self] = &[
        Self::Acquire,
        Self::Renew,
        Self::Release,
        Self::AcquireBatch,
        Self::RenewBatch,
        Self::ReleaseBatch,
        Self::Inspect,
        Self::ForceRelease,
        Self::OpenApi,
    ];

    /// The route at `path`, compared byte for byte.
    pub fn at(path: &str) -> Option<Self> {
        Some(match path {
            paths::RENEW => Self::Renew,
            paths::ACQUIRE => Self::Acquire,
            paths::RELEASE => Self::Release,
            paths::RENEW_BATCH => Self::RenewBatch,
            paths::ACQUIRE_BATCH => Self::AcquireBatch,
            paths::RELEASE_BATCH => Self::ReleaseBatch,
            paths::LOCKS => Self::Inspect,
            paths::FORCE_RELEASE => Self::ForceRelease,
            paths::OPENAPI => Self::OpenApi,
            _ => return None,
        })
    }

    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Acquire => paths::ACQUIRE,
            Self::Renew => paths::RENEW,
            Self::Release => paths::RELEASE,
            Self::AcquireBatch => paths::ACQUIRE_BATCH,
            Self::RenewBatch => paths::RENEW_BATCH,
            Self::ReleaseBatch => paths::RELEASE_BATCH,
            Self::Inspect => paths::LOCKS,
            Self::ForceRelease => paths::FORCE_RELEASE,
            Self::OpenApi => paths::OPENAPI,
        }
    }

    /// How large its body may be; `None` where there is none to read.
    pub(super) fn body_bytes_max(self) -> Option<usize> {
        match self {
            Self::Acquire | Self::Renew | Self::Release | Self::ForceRelease => {
                Some(limits::BODY_BYTES_MAX)
            }
            Self::AcquireBatch | Self::RenewBatch | Self::ReleaseBatch => {
                Some(limits::BATCH_BODY_BYTES_MAX)
            }
            Self::Inspect | Self::OpenApi => None,
        }
    }

    /// Its methods, as an `Allow` header lists them.
    pub fn allow(self) -> &'static str {
        match self {
            Self::Inspect | Self::OpenApi => "GET, HEAD",
            _ => "POST",
        }
    }

    /// Checks the method.
    ///
    /// # Errors
    /// When the route has other methods.
    pub(super) fn check(self, method: &Method) -> Result<(), Failure> {
        let good = match self {
            Self::Inspect | Self::OpenApi => method == Method::GET || method == Method::HEAD,
            _ => method == Method::POST,
        };
        if good {
            return Ok(());
        }
        let allow = self.allow();
        let detail = format!("{} takes {allow}", self.path());
        Err(Failure {
            allow: Some(allow),
            ..Failure::new(ErrorCode::MethodNotAllowed, detail)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_found_at_its_path_and_nowhere_near_it() {
        for route in Route::ALL {
            let path = route.path();
            assert_eq!(Route::at(path), Some(*route));
            for near in [
                format!("{path}/"),
                format!("/{path}"),
                path.to_uppercase(),
                path.replacen("/l", "%2Fl", 1).replacen("/o", "%2Fo", 1),
            ] {
                assert_eq!(Route::at(&near), None, "{near}");
            }
        }
    }
}
