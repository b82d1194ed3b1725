//! Errors, told apart by the one question that matters: may it have happened?

/// Why an operation has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It did not happen and never will.
    #[error(transparent)]
    Definite(#[from] DefiniteError),
    /// It may have happened, or may still happen later: a timeout, a broken connection, a
    /// leader lost in between. The text says what was seen.
    #[error("outcome unknown: {0}")]
    Ambiguous(String),
}

impl StoreError {
    /// Whether the operation may have taken effect, or may yet.
    pub fn is_ambiguous(&self) -> bool {
        matches!(self, Self::Ambiguous(_))
    }
}

/// Why an operation certainly did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefiniteError {
    /// Nothing was sent: no endpoint can be reached, or the one that was reached refused before
    /// doing anything (no leader, too many requests). Worth another try.
    #[error("not reached: {0}")]
    Unreachable(String),
    /// The lease of a put, a revoke or a grant's duplicate does not exist.
    #[error("lease not found")]
    LeaseNotFound,
    /// A lease with this id exists already.
    #[error("lease already exists")]
    LeaseExists,
    /// The transaction breaks one of etcd's limits (too many operations, a key twice, too large).
    #[error("etcd refused the request: {0}")]
    Invalid(String),
    /// The credentials are refused, or lack a permission.
    #[error("etcd refused the credentials: {0}")]
    Denied(String),
}
