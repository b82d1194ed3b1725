//! `gateway check`, and how the command refuses.

use anyhow::Result;
use std::process::{Command, Output};

fn gateway(args: &[&str], env: &[(&str, &str)]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    // Nothing of the tests' own environment is meant for it.
    command.env_clear().envs(env.iter().copied()).args(args);
    Ok(command.output()?)
}

const ENV: [(&str, &str); 2] = [
    ("HOLDFAST_AUTH_MODE", "none"),
    ("HOLDFAST_HOME_ENDPOINTS", "http://127.0.0.1:2379"),
];

#[test]
fn check_prints_the_effective_configuration_which_is_one_itself() -> Result<()> {
    let first = gateway(&["check"], &ENV)?;
    assert_eq!(first.status.code(), Some(0));
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("gateway.toml");
    std::fs::write(&file, &first.stdout)?;
    let path = file.to_str().unwrap();
    let again = gateway(&["check", "--config", path], &[])?;
    assert_eq!(
        String::from_utf8(first.stdout)?,
        String::from_utf8(again.stdout)?
    );
    Ok(())
}

#[test]
fn check_prints_every_problem_and_exits_1() -> Result<()> {
    let refused = gateway(
        &["check"],
        &[("HOLDFAST_LISTN", "x"), ("HOLDFAST_LISTEN", "y")],
    )?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty());
    let text = String::from_utf8(refused.stderr)?;
    for place in ["HOLDFAST_LISTN", "listen: ", "home.endpoints", "auth.mode"] {
        assert!(text.contains(place), "{place} in {text}");
    }
    Ok(())
}

#[test]
fn serve_refuses_what_check_refuses() -> Result<()> {
    let refused = gateway(&["serve", "--config", "/nowhere/gateway.toml"], &[])?;
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr)?.contains("/nowhere/gateway.toml"));
    Ok(())
}

#[test]
fn a_file_that_is_missing_is_told_by_its_whole_path() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path().canonicalize()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_gateway"));
    let refused = command
        .env_clear()
        .envs(ENV)
        .env("HOLDFAST_AUTH_MODE", "tokens")
        .env("HOLDFAST_AUTH_PRINCIPALS_FILE", "./principals.toml")
        .current_dir(&folder)
        .arg("check")
        .output()?;
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8(refused.stderr)?;
    let tried = folder.join("principals.toml").display().to_string();
    assert!(told.contains(&tried), "{tried} in {told}");
    Ok(())
}

#[test]
fn dev_is_reached_by_others_only_when_told_so() -> Result<()> {
    let refused = gateway(
        &["dev", "--listen=0.0.0.0:0", "--admin-listen=127.0.0.1:0"],
        &[],
    )?;
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8(refused.stderr)?;
    assert!(told.contains("add --insecure"), "{told}");
    Ok(())
}

#[test]
fn wrong_usage_exits_2_and_help_names_the_exit_codes() -> Result<()> {
    for args in [&["dev", "--listen", "nowhere"][..], &["fly"], &[]] {
        assert_eq!(gateway(args, &[])?.status.code(), Some(2), "{args:?}");
    }
    let help = gateway(&["--help"], &[])?;
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout)?.contains("Exit codes:"));
    Ok(())
}
