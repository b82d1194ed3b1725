//! Man pages and shell completions, made from a command line's own definition, so that they
//! cannot say anything else than `--help`.
//!
//! Each command has a hidden subcommand `manual` that calls [`write()`]; `make manual` runs them all.

use clap::{Args, Command};
use clap_complete::Shell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// What the hidden subcommand is told.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// The folder that man1/ and completions/ are written into
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

/// Writes the pages of `command` into `man1/` and its completions into `completions/` of the
/// folder that was asked for, over those that are there.
///
/// # Errors
/// When the folder cannot be written to.
pub fn write(command: &Command, args: &ManualArgs) -> io::Result<()> {
    let pages = folder(&args.out, "man1")?;
    let completions = folder(&args.out, "completions")?;
    clap_mangen::generate_to(command.clone(), pages)?;
    for shell in SHELLS {
        let name = command.get_name().to_owned();
        clap_complete::generate_to(shell, &mut command.clone(), name, &completions)?;
    }
    Ok(())
}

fn folder(out: &Path, name: &str) -> io::Result<PathBuf> {
    let folder = out.join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn written() -> (tempfile::TempDir, impl Fn(&str) -> String) {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().to_owned();
        let command = Command::new("anchor")
            .subcommand(Command::new("drop").arg(Arg::new("depth").long("depth")))
            .subcommand(Command::new("manual").hide(true));
        write(&command, &ManualArgs { out: path.clone() }).unwrap();
        (out, move |name| {
            fs::read_to_string(path.join(name)).unwrap_or_default()
        })
    }

    #[test]
    fn every_shown_subcommand_has_a_page_and_no_hidden_one() {
        let (_out, read) = written();
        assert!(read("man1/anchor.1").contains("anchor\\-drop(1)"));
        assert!(read("man1/anchor-drop.1").contains("\\-\\-depth"));
        assert_eq!(read("man1/anchor-manual.1"), "");
    }

    #[test]
    fn each_shell_completes_the_flags() {
        let (_out, read) = written();
        for file in ["anchor.bash", "_anchor", "anchor.fish"] {
            assert!(
                read(&format!("completions/{file}")).contains("depth"),
                "{file}"
            );
        }
    }
}
