//! `gateway token`, and what `gateway check` makes of the file that it fills.

use anyhow::Result;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn gateway(folder: &Path, args: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    // Nothing of the tests' own environment is meant for it.
    command.env_clear().current_dir(folder).args(args);
    Ok(command.output()?)
}

const CONFIG: &str = r#"
listen = "0.0.0.0:8080"
peer_url = "http://gateway-1:7070"

[home]
endpoints = ["http://127.0.0.1:2379"]

[auth]
mode = "tokens"
principals_file = "principals.toml"

[peer]
secret_file = "peer.secret"
"#;

fn token(folder: &Path, principal: &str, file: &str) -> Result<Output> {
    let args = [
        "token",
        "--principal",
        principal,
        "--acquire",
        "a/",
        "--token-file",
        file,
    ];
    gateway(folder, &args)
}

#[test]
fn tokens_are_made_for_a_roll_that_check_accepts() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    fs::write(folder.join("gateway.toml"), CONFIG)?;
    fs::write(folder.join("peer.secret"), "0123456789abcdef")?;
    let one = token(folder, "billing", "one.token")?;
    let other = token(folder, "shipping \"and\" more", "other.token")?;
    let roll = [one.stdout, other.stdout].concat();
    let secret = fs::read_to_string(folder.join("one.token"))?;
    assert!(!String::from_utf8_lossy(&roll).contains(secret.trim()));
    let mode = fs::metadata(folder.join("one.token"))?.permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::write(folder.join("principals.toml"), &roll)?;
    let check = gateway(folder, &["check", "--config", "gateway.toml"])?;
    let told = String::from_utf8(check.stderr)?;
    assert_eq!(check.status.code(), Some(0), "{told}");
    let effective = String::from_utf8(check.stdout)?;
    assert!(effective.contains("principals_file = \"principals.toml\""));
    // The same principal twice.
    fs::write(
        folder.join("principals.toml"),
        [roll.clone(), roll].concat(),
    )?;
    let check = gateway(folder, &["check", "--config", "gateway.toml"])?;
    assert_eq!(check.status.code(), Some(1));
    let told = String::from_utf8(check.stderr)?;
    assert!(
        told.contains("auth.principals_file") && told.contains("number 3: name"),
        "{told}"
    );
    Ok(())
}

#[test]
fn a_token_that_is_not_put_into_a_file_is_shown_apart_from_the_entry() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let made = gateway(
        folder.path(),
        &["token", "--principal", "ops", "--admin", ""],
    )?;
    assert!(String::from_utf8(made.stderr)?.contains("hft_"));
    let entry = String::from_utf8(made.stdout)?;
    assert!(
        entry.starts_with("[[principal]]") && !entry.contains("hft_"),
        "{entry}"
    );
    Ok(())
}

#[test]
fn a_file_that_is_there_is_not_overwritten_and_a_bad_name_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("t"), "precious")?;
    assert_eq!(token(folder.path(), "p", "t")?.status.code(), Some(1));
    assert_eq!(fs::read(folder.path().join("t"))?, b"precious");
    assert_eq!(token(folder.path(), "", "new")?.status.code(), Some(1));
    assert!(!folder.path().join("new").exists());
    Ok(())
}
