//! What needs no etcd: the command line itself.

use crate::command::shard_map;
use anyhow::Result;

#[tokio::test]
async fn a_command_that_is_not_there_yet_exits_2_and_is_marked_so_in_the_help() -> Result<()> {
    let help = shard_map(&["--help"]).await?;
    help.exits(0).prints("Not available yet: rebase");
    let ran = shard_map(&["rebase", "--home", "http://127.0.0.1:1", "--help", "x"]).await?;
    ran.exits(2).says("shard-map rebase is not available yet");
    Ok(())
}

#[tokio::test]
async fn a_wrong_command_line_exits_2_and_says_what_is_allowed() -> Result<()> {
    let home = "--home=http://127.0.0.1:1";
    for (args, expected) in [
        (&["show"][..], "--home"),
        (
            &["show", "--home", "127.0.0.1:2379"],
            "expected is http://HOST:PORT",
        ),
        (&["show", home, "--cert", "c.pem"], "--key"),
        (&["show", home, "--cacert", "missing.pem"], "missing.pem"),
        (
            &["show", home, "--user", "root"],
            "expected is NAME:PASSWORD or @FILE",
        ),
        (&["lookup", home, ""], "the name is empty"),
        (&["init", home], "--cluster"),
        (&["init", home, "--cluster", "http://127.0.0.1:2"], "NAME="),
        (
            &["init", home, "--cluster", "A=http://127.0.0.1:2"],
            "allowed are 1 to 63 of a-z",
        ),
        (
            &["init", home, "--cluster", "a=http://127.0.0.1"],
            "names no port",
        ),
        (
            &[
                "init",
                home,
                "--cluster",
                "a=http://127.0.0.1:2",
                "--shards",
                "0",
            ],
            "allowed are 1 to 65536",
        ),
        (
            &[
                "init",
                home,
                "--cluster",
                "a=http://127.0.0.1:2",
                "--weight",
                "b=2",
            ],
            "--weight b",
        ),
        (
            &[
                "init",
                home,
                "--cluster",
                "a=http://127.0.0.1:2",
                "--weight",
                "a=0",
            ],
            "weight 0; allowed are 1 to",
        ),
        (
            &[
                "init",
                home,
                "--cluster",
                "a=http://x:2",
                "--cluster",
                "b=http://x:2",
            ],
            "is listed twice: in cluster a and in cluster b",
        ),
        (
            &[
                "init",
                home,
                "--cluster",
                "a=http://x:2",
                "--cluster",
                "a=http://y:2",
            ],
            "each once",
        ),
    ] {
        shard_map(args).await?.exits(2).says(expected);
    }
    Ok(())
}

#[tokio::test]
async fn a_home_that_does_not_answer_exits_3_and_is_named() -> Result<()> {
    for command in [
        &["show"][..],
        &["lookup", "a"],
        &["init", "--cluster", "a=http://127.0.0.1:1"],
    ] {
        let home = ["--home", "http://127.0.0.1:1"];
        let ran = shard_map(&[command, &home].concat()).await?;
        ran.exits(3)
            .says("home (http://127.0.0.1:1) cannot be used");
    }
    Ok(())
}
