//! What must hold of the readers of records ([`crate::fuzz`]).

use super::records::{self, GroupRecord, LockRecord, SessionRecord};
use crate::lock_id::LockId;
use holdfast_store::{Key, KeyValue, Revision};

/// The bytes are a key, and the value of each kind of record. What is read is the same after it was
/// written again.
pub fn records(bytes: &[u8]) {
    let key = Key::from(bytes.to_vec());
    if let Some(session) = records::session_of_key(&key) {
        assert_eq!(
            records::session_of_key(&records::session_key(session)),
            Some(session)
        );
    }
    if let Some((session, group)) = records::group_of_key(&key) {
        let again = records::group_key(session, group);
        assert_eq!(records::group_of_key(&again), Some((session, group)));
    }
    if let Some(name) = records::name_of(&key) {
        assert_eq!(records::lock_key(name.as_str()), key);
        assert!(records::waiters_of(name.as_str()).contains(&waiter_of(name.as_str())));
    }
    lock(bytes);
    same_again::<SessionRecord>(bytes);
    same_again::<GroupRecord>(bytes);
}

fn waiter_of(name: &str) -> Key {
    Key::from(format!("/holdfast/waiters/{name}\0w"))
}

fn lock(value: &[u8]) {
    let Ok(record) = serde_json::from_slice::<LockRecord>(value) else {
        return;
    };
    let Some(id) = LockId::parse(&record.lock_id) else {
        return;
    };
    for name in [id.name(), "another"] {
        let kv = KeyValue {
            key: records::lock_key(name),
            value: value.to_vec(),
            create_revision: Revision(1),
            mod_revision: Revision(i64::MAX),
            version: 1,
            lease: None,
        };
        // A record under another name is none.
        let read = LockRecord::read(&kv);
        assert_eq!(read.is_some(), name == id.name());
        let Some((record, _)) = read else { continue };
        let (token, owner) = (record.fencing_token(&kv), record.owner());
        let value = record.to_bytes();
        let (again, id_again) = LockRecord::read(&KeyValue {
            value,
            ..kv.clone()
        })
        .expect("a record");
        assert_eq!((again.fencing_token(&kv), again.owner()), (token, owner));
        assert_eq!(id_again.to_text(), id.to_text());
    }
}

fn same_again<R>(value: &[u8])
where
    R: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    if let Ok(read) = serde_json::from_slice::<R>(value) {
        let again = serde_json::to_vec(&read).expect("a record is written");
        assert_eq!(serde_json::from_slice::<R>(&again).ok(), Some(read));
    }
}
