//! Which process is at the other end of a connection.
//!
//! Loopback connections all come from the same address. The kernel's tables in /proc say which
//! socket a port belongs to, and which process has the socket; that works for one's own processes
//! without any privilege.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

/// The processes that may call, by name. A clone is the same list.
#[derive(Debug, Clone, Default)]
pub struct Callers(Arc<Mutex<BTreeMap<String, u32>>>);

impl Callers {
    /// The process of this name is now this one, or there is none.
    pub fn set(&self, name: &str, pid: Option<u32>) {
        let mut pids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match pid {
            Some(pid) => pids.insert(name.to_owned(), pid),
            None => pids.remove(name),
        };
    }

    /// Who has the other end of the connection from `peer` to `local`, if it is one of these.
    pub(crate) fn of_connection(&self, peer: SocketAddr, local: SocketAddr) -> Option<String> {
        let tables = fs::read_to_string("/proc/net/tcp").ok()?;
        let socket = format!("socket:[{}]", inode(&tables, peer, local)?);
        let pids = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let has = |pid: u32| has_open(pid, &socket);
        pids.into_iter()
            .find(|(_, pid)| has(*pid))
            .map(|(name, _)| name)
    }
}

/// The socket whose own address is `own` and whose other end is `other`, in the text of
/// /proc/net/tcp.
fn inode<'a>(table: &'a str, own: SocketAddr, other: SocketAddr) -> Option<&'a str> {
    let (own, other) = (as_in_proc(own)?, as_in_proc(other)?);
    let row = |line: &'a str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == own && fields.next()? == other;
        is_it.then(|| fields.nth(6)).flatten()
    };
    table.lines().find_map(row)
}

/// `0100007F:1F90`: the address as the machine's integer, in hexadecimal.
fn as_in_proc(address: SocketAddr) -> Option<String> {
    let IpAddr::V4(ip) = address.ip() else {
        return None;
    };
    let ip = u32::from_ne_bytes(ip.octets());
    Some(format!("{ip:08X}:{:04X}", address.port()))
}

fn has_open(pid: u32, socket: &str) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    descriptors.flatten().any(|descriptor| {
        fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == socket)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_found_by_both_ends_of_its_connection() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 222 1 0 20 4 30 10 -1
   2: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 333 1 0 20 4 30 10 -1";
        let (client, server) = ("127.0.0.1:50000", "127.0.0.1:8080");
        let found = inode(table, client.parse().unwrap(), server.parse().unwrap());
        assert_eq!(found, Some("333"));
        assert_eq!(
            inode(
                table,
                client.parse().unwrap(),
                "127.0.0.1:1".parse().unwrap()
            ),
            None
        );
    }
}
