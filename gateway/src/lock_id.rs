//! The opaque, self-describing handle of a hold.
//!
//! `lock-` + base64url(version, group id, slot index, 128 random bits, name). The group id leads
//! to the owner, the slot index to the slot, the name to the record in etcd when that way is
//! cold. The random bits make it a bearer secret: it is shown to the client it was made for and
//! to nobody else, so neither type here prints it.

use crate::limits;
use crate::names::LockName;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use smallvec::SmallVec;
use std::fmt;

const PREFIX: &str = "lock-";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 1 + 8 + 2 + 16;
const BYTES_MAX: usize = HEADER_BYTES + limits::NAME_BYTES_MAX;
/// The decoder wants room for the padding that it does not find.
const DECODER_ROOM: usize = 3;
/// A lock id of a name of up to 34 bytes needs no more; that of a longer one lies on the heap. With room
/// for the longest name in every lock id, which is moved several times on its way, batches of renewals took 3 %
/// more time.
const INLINE_BYTES: usize = 64;
const TEXT_BYTES_MAX: usize = PREFIX.len() + (BYTES_MAX * 4).div_ceil(3);

/// The id of a lease group: random, and the same wherever the group lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The place of a lock in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIndex(pub u16);

/// 128 random bits that only the holder knows.
// Packed: aligned to sixteen bytes it would make every slot a word longer.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(8))]
pub struct Secret(pub u128);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// A lock id's parts.
#[derive(Clone, PartialEq, Eq)]
pub struct LockId(SmallVec<[u8; INLINE_BYTES]>);

impl LockId {
    /// Puts a lock id together.
    pub fn new(group: GroupId, slot: SlotIndex, secret: Secret, name: &LockName) -> Self {
        let name = name.as_str().as_bytes();
        let mut bytes = SmallVec::with_capacity(HEADER_BYTES + name.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&group.0.to_be_bytes());
        bytes.extend_from_slice(&slot.0.to_be_bytes());
        bytes.extend_from_slice(&secret.0.to_be_bytes());
        bytes.extend_from_slice(name);
        Self(bytes)
    }

    /// Reads a lock id from its text; `None` when it is not one that a gateway could have made.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let encoded = text.strip_prefix(PREFIX)?;
        let mut bytes = SmallVec::new();
        bytes.resize(encoded.len() * 3 / 4 + DECODER_ROOM, 0);
        let len = URL_SAFE_NO_PAD.decode_slice(encoded, &mut bytes).ok()?;
        bytes.truncate(len);
        Self::checked(bytes)
    }

    /// As it is written between gateways.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As [`LockId::parse`], from what [`LockId::as_bytes`] gave.
    pub(crate) fn from_bytes(from: &[u8]) -> Option<Self> {
        match from.len() <= BYTES_MAX {
            true => Self::checked(SmallVec::from_slice(from)),
            false => None,
        }
    }

    fn checked(bytes: SmallVec<[u8; INLINE_BYTES]>) -> Option<Self> {
        if !(HEADER_BYTES..=BYTES_MAX).contains(&bytes.len()) || bytes[0] != VERSION {
            return None;
        }
        LockName::check(std::str::from_utf8(&bytes[HEADER_BYTES..]).ok()?).ok()?;
        Some(Self(bytes))
    }

    /// The text that the client gets.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(PREFIX.len() + (self.0.len() * 4).div_ceil(3));
        text.push_str(PREFIX);
        URL_SAFE_NO_PAD.encode_string(&self.0, &mut text);
        text
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        GroupId(u64::from_be_bytes(self.part(1)))
    }

    /// The slot.
    pub fn slot(&self) -> SlotIndex {
        SlotIndex(u16::from_be_bytes(self.part(9)))
    }

    /// The random bits.
    pub fn secret(&self) -> Secret {
        Secret(u128::from_be_bytes(self.part(11)))
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        std::str::from_utf8(self.name_bytes()).unwrap_or_default()
    }

    /// The lock's name, as it is compared.
    pub(crate) fn name_bytes(&self) -> &[u8] {
        &self.0[HEADER_BYTES..]
    }

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut part = [0; N];
        part.copy_from_slice(&self.0[at..at + N]);
        part
    }
}

impl fmt::Debug for LockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockId({}/{}, ..)", self.group(), self.slot().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str) -> LockId {
        LockId::new(
            GroupId(0x0123_4567_89ab_cdef),
            SlotIndex(999),
            Secret(42),
            &LockName::new(name).unwrap(),
        )
    }

    #[test]
    fn a_lock_id_reads_back_as_it_was_made() {
        for name in [
            "a",
            "process_order:42",
            "ünï",
            &"n".repeat(limits::NAME_BYTES_MAX),
        ] {
            let id = sample(name);
            let read = LockId::parse(&id.to_text()).unwrap();
            assert!(read == id);
            assert_eq!(read.group(), GroupId(0x0123_4567_89ab_cdef));
            assert_eq!(read.slot(), SlotIndex(999));
            assert!(read.secret() == Secret(42));
            assert_eq!(read.name(), name);
        }
    }

    #[test]
    fn a_truncated_forged_or_foreign_lock_id_is_none() {
        let good = sample("a").to_text();
        let longest = sample(&"n".repeat(limits::NAME_BYTES_MAX)).to_text();
        for bad in [
            "",
            "lock-",
            "lock-AQ",
            "lock-====",
            "lock-ü",
            "4711",
            &good[..good.len() - 4],
            &good[1..],
            &format!("{longest}AAAA"),
            &format!("{good}="),
        ] {
            assert!(LockId::parse(bad).is_none(), "{bad:?}");
        }
        let other_version = format!("lock-Ag{}", &good[7..]);
        assert!(LockId::parse(&other_version).is_none());
    }

    #[test]
    fn a_lock_id_is_never_printed() {
        let id = sample("secret-name");
        let printed = format!("{id:?} {:?}", id.secret());
        assert!(!printed.contains("42") && !printed.contains("secret-name"));
    }
}
