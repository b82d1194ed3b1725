//! What a service manager or a container's health check sees of the process.

use anyhow::{Context as _, Result, ensure};
use holdfast_rig::{Process, ProcessSpec, free_port, wait_until};
use rustix::process::Signal;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Stands where systemd would, and hears what it is told.
struct Manager {
    _folder: tempfile::TempDir,
    socket: UnixDatagram,
}

impl Manager {
    fn new() -> Result<(Self, std::path::PathBuf)> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let manager = Self {
            _folder: folder,
            socket,
        };
        Ok((manager, path))
    }

    /// Reads until `line` is told; everything that was told up to then.
    fn hear(&self, line: &str) -> Result<Vec<String>> {
        let mut heard: Vec<String> = Vec::new();
        while !heard.iter().any(|known| known == line) {
            let mut buffer = [0; 4096];
            let bytes = self.socket.recv(&mut buffer);
            let bytes = bytes.with_context(|| format!("waiting for {line}; heard {heard:?}"))?;
            let told = std::str::from_utf8(&buffer[..bytes])?;
            heard.extend(told.lines().map(str::to_owned));
        }
        Ok(heard)
    }
}

fn dev(admin_port: u16) -> Result<ProcessSpec> {
    let port = free_port()?;
    Ok(ProcessSpec::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["dev", "--clusters", "1"])
        .args([format!("--listen=127.0.0.1:{port}")])
        .args([format!("--admin-listen=127.0.0.1:{admin_port}")]))
}

#[tokio::test]
async fn systemd_hears_of_readiness_of_life_and_of_the_stop() -> Result<()> {
    let (manager, socket) = Manager::new()?;
    let spec = dev(free_port()?)?
        .env("NOTIFY_SOCKET", socket)
        .env("WATCHDOG_USEC", "300000");
    let mut gateway = Process::new(spec)?;
    gateway.launch()?;
    manager.hear("READY=1")?;
    manager.hear("WATCHDOG=1")?;
    manager.hear("WATCHDOG=1")?;
    let status = gateway.terminate().await?;
    let last = manager.hear("STOPPING=1")?;
    assert!(!last.contains(&"READY=1".to_owned()), "{last:?}");
    assert_eq!(status.code(), Some(0));
    Ok(())
}

fn ask(admin_port: u16) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    let address = format!("127.0.0.1:{admin_port}");
    Ok(command
        .args(["ready", "--admin-listen", &address])
        .output()?)
}

#[tokio::test]
async fn ready_says_whether_a_gateway_is_ready() -> Result<()> {
    let admin_port = free_port()?;
    let nobody = ask(admin_port)?;
    assert_eq!(nobody.status.code(), Some(1));
    let spec = dev(admin_port)?.ready_when_get_answers_200(admin_port, "/readyz");
    let _gateway = Process::start(spec).await?;
    let ready = ask(admin_port)?;
    assert_eq!(ready.status.code(), Some(0));
    assert_eq!(String::from_utf8(ready.stdout)?, "ready\n");
    Ok(())
}

#[tokio::test]
async fn ready_says_why_a_gateway_is_not() -> Result<()> {
    let (admin_port, folder) = (free_port()?, tempfile::tempdir()?);
    let config = config_without_etcd(folder.path(), admin_port)?;
    let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["serve", "--config", &config])
        .ready_when_get_answers_200(admin_port, "/livez");
    let _gateway = Process::start(spec).await?;
    let not_ready = ask(admin_port)?;
    let said = String::from_utf8(not_ready.stderr)?;
    assert_eq!(not_ready.status.code(), Some(1), "{said}");
    ensure!(said.contains("no shard map is loaded"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_second_ctrl_c_ends_a_gateway_that_drains() -> Result<()> {
    let (admin_port, folder) = (free_port()?, tempfile::tempdir()?);
    let config = config_without_etcd(folder.path(), admin_port)?;
    let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["serve", "--config", &config])
        // Longer than this test waits for the end.
        .env("HOLDFAST_SHUTDOWN_DRAIN_MS", "600000")
        .ready_when_get_answers_200(admin_port, "/livez");
    let mut gateway = Process::start(spec).await?;
    gateway.signal(Signal::INT)?;
    wait_until("it to drain", PATIENCE, || async {
        ensure!(gateway.log().contains("draining"), "{}", gateway.log());
        Ok(())
    })
    .await?;
    gateway.signal(Signal::INT)?;
    let status = gateway.wait_end().await?;
    assert_eq!(status.code(), Some(0));
    ensure!(
        gateway.log().contains("interrupted while it stops"),
        "{}",
        gateway.log()
    );
    Ok(())
}

#[tokio::test]
async fn ready_says_that_a_listener_with_tls_is_not_for_it() -> Result<()> {
    let (admin_port, folder) = (free_port()?, tempfile::tempdir()?);
    let config = config_without_etcd(folder.path(), admin_port)?;
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (cert, key) = (folder.path().join("cert"), folder.path().join("key"));
    std::fs::write(&cert, own.cert.pem())?;
    std::fs::write(&key, own.signing_key.serialize_pem())?;
    let spec = ProcessSpec::new(env!("CARGO_BIN_EXE_gateway"))
        .args(["serve", "--config", &config])
        .env("HOLDFAST_ADMIN_TLS_CERT", &cert)
        .env("HOLDFAST_ADMIN_TLS_KEY", &key);
    let mut gateway = Process::new(spec)?;
    gateway.launch()?;
    wait_until("ready to say why it learns nothing", PATIENCE, || async {
        let said = String::from_utf8(ask(admin_port)?.stderr)?;
        ensure!(said.contains("[admin_tls]"), "{said}");
        Ok(())
    })
    .await
}

fn config_without_etcd(folder: &Path, admin_port: u16) -> Result<String> {
    let nowhere = free_port()?;
    let path = folder.join("gateway.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nadmin_listen = \"127.0.0.1:{admin_port}\"\n\
         peer_listen = \"127.0.0.1:0\"\nstate_dir = \"{}/state\"\n\
         [home]\nendpoints = [\"http://127.0.0.1:{nowhere}\"]\n[auth]\nmode = \"none\"\n",
        folder.display()
    );
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() -> Result<()> {
    let out = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    let status = command
        .arg("manual")
        .arg("--out")
        .arg(out.path())
        .status()?;
    assert!(status.success());
    for page in ["gateway", "gateway-serve", "gateway-check", "gateway-token"] {
        let text = std::fs::read_to_string(out.path().join(format!("man1/{page}.1")))?;
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(out.path().join("completions/gateway.bash").is_file());
    Ok(())
}
