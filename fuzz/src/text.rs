//! Names and ids as clients send them, and the file with the principals.

use holdfast_gateway::auth::Roll;
use holdfast_gateway::limits;
use holdfast_gateway::lock_id::LockId;
use holdfast_gateway::names::{ClientId, LockName, Principal, RequestId};

/// A lock id that is read is the only text of what it says.
pub(crate) fn lock_ids(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let Some(id) = LockId::parse(text) else {
        return;
    };
    assert_eq!(id.to_text(), text);
    let name = LockName::new(id.name()).expect("a lock id names a lock");
    let again = LockId::new(id.group(), id.slot(), id.secret(), &name);
    assert_eq!(again.to_text(), text);
}

/// A name that is accepted is within its bounds, reads back from a lock id, and belongs to a shard.
pub(crate) fn names(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let name = LockName::new(text);
    // The operator's command and the gateway must agree.
    assert_eq!(name.is_ok(), shard_map::check_name(text).is_ok());
    check(name.is_ok(), text, limits::NAME_BYTES_MAX);
    check(
        ClientId::new(text).is_ok(),
        text,
        limits::CLIENT_ID_BYTES_MAX,
    );
    check(
        RequestId::new(text).is_ok(),
        text,
        limits::REQUEST_ID_BYTES_MAX,
    );
    check(
        Principal::checked(text).is_ok(),
        text,
        limits::PRINCIPAL_BYTES_MAX,
    );
}

fn check(accepted: bool, text: &str, bytes_max: usize) {
    let good = !text.is_empty() && text.len() <= bytes_max && !text.chars().any(char::is_control);
    assert_eq!(accepted, good);
}

/// Of a roll that is refused it is told why.
pub(crate) fn roll(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Err(problems) = Roll::parse(text) {
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
    }
}
