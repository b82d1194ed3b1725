//! Whoever connects to the peer listener and is no gateway of the deployment.

use crate::fixture::{SECRET, World};
use holdfast_gateway::service::RenewOutcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn say(address: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut said = Vec::new();
    // However it ends, it must end.
    let _ = stream.read_to_end(&mut said).await;
    said
}

#[tokio::test]
async fn strangers_get_nothing_and_disturb_nobody() {
    let mut world = World::new().await;
    let (owner, other) = (world.gateway(SECRET).await, world.gateway(SECRET).await);
    let hold = owner.hold("n").await;
    let other_route = say(owner.address, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(other_route.starts_with(b"HTTP/1.1 404"));
    let no_upgrade = say(owner.address, b"GET /peer HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(no_upgrade.starts_with(b"HTTP/1.1 404"));
    say(
        owner.address,
        b"\x00\x01\x02 no HTTP at all \xff\xff\r\n\r\n",
    )
    .await;
    let upgrade = b"GET /peer HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\n\
                    upgrade: holdfast-peer\r\n\r\n";
    for after in [
        &b""[..],
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02\x00\x63",
        b"\x00\x00\x00\x12\x00\x010123456789abcdef\x00\x00\x00\x20no proof, no proof, no proof, no!",
    ] {
        let mut bytes = upgrade.to_vec();
        bytes.extend_from_slice(after);
        let said = say(owner.address, &bytes).await;
        assert!(said.starts_with(b"HTTP/1.1 101"));
    }
    assert!(matches!(
        other.renew(&hold).await,
        Ok(RenewOutcome::Renewed(_))
    ));
}
