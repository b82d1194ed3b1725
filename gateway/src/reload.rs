//! Files that are read anew when they change: the roll, certificates.
//!
//! They are looked at every second, which works whatever way they are replaced (written in place,
//! renamed into place, a link that is switched). A file counts once it has stayed the same from
//! one look to the next, so that half-written ones are left alone. One that is refused changes
//! nothing: what was read before goes on, and the log and the metrics say so.

use crate::limits;
use crate::metrics::{Metrics, Reloaded};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What tells one content of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Decides when files are to be read. Pure.
#[derive(Debug)]
struct Watch<S> {
    /// Of the files that were read last, whether they were good or not.
    read: S,
    seen: S,
}

impl<S: PartialEq + Clone> Watch<S> {
    fn new(read: S) -> Self {
        Self {
            seen: read.clone(),
            read,
        }
    }

    /// Whether the files, which now look so, are to be read.
    fn look(&mut self, now: S) -> bool {
        let settled = self.seen == now;
        self.seen = now;
        let due = settled && self.read != self.seen;
        if due {
            self.read = self.seen.clone();
        }
        due
    }
}

/// Files whose changes are followed. Made before they are first read, so that no change is missed.
#[derive(Debug)]
pub struct Follow {
    files: Vec<PathBuf>,
    watch: Watch<Vec<Option<Stamp>>>,
}

impl Follow {
    /// Takes note of how the files look now.
    pub fn new(files: Vec<PathBuf>) -> Self {
        let watch = Watch::new(stamps(&files));
        Self { files, watch }
    }

    /// Has `read` read the files whenever they have changed. Runs until it is dropped.
    pub async fn run(
        mut self,
        what: Reloaded,
        metrics: Arc<Metrics>,
        mut read: impl FnMut() -> anyhow::Result<()>,
    ) {
        let mut looks = tokio::time::interval(limits::RELOAD_INTERVAL.to_std());
        loop {
            looks.tick().await;
            if !self.watch.look(stamps(&self.files)) {
                continue;
            }
            let result = read();
            metrics.reloaded(what, result.is_ok());
            match result {
                Ok(()) => tracing::info!(what = what.as_str(), "read anew"),
                Err(error) => {
                    let error = format!("{error:#}");
                    let what = what.as_str();
                    tracing::error!(what, error, "refused; what was read before goes on");
                }
            }
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    files.iter().map(|file| stamp(file)).collect()
}

/// `None`: the file is not there.
fn stamp(file: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(file).ok()?;
    Some(Stamp {
        inode: about.ino(),
        bytes: about.len(),
        modified: (about.mtime(), about.mtime_nsec()),
        changed: (about.ctime(), about.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_once_it_has_settled_and_only_once() {
        let mut watch = Watch::new(1);
        for (stamp, due) in [
            (1, false),
            (2, false),
            (3, false),
            (3, true),
            (3, false),
            (4, false),
            (3, false),
            (3, false),
            (1, false),
            (1, true),
        ] {
            assert_eq!(watch.look(stamp), due, "{stamp}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_goes_on_when_what_comes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "one").unwrap();
        let (metrics, follow) = (
            Arc::new(Metrics::default()),
            Follow::new(vec![file.clone()]),
        );
        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let from = file.clone();
        let running = tokio::spawn(follow.run(Reloaded::Roll, Arc::clone(&metrics), move || {
            let text = std::fs::read_to_string(&from)?;
            let good = text != "bad";
            told.send(text)?;
            anyhow::ensure!(good, "refused");
            Ok(())
        }));
        for (text, failing) in [("two!", 0), ("bad", 1), ("three", 0)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(heard.recv().await.as_deref(), Some(text));
            tokio::task::yield_now().await;
            let rendered = metrics.render(&crate::metrics::Present {
                clusters: &[],
                engines: &[],
                shards: &[],
                map: &crate::map::MapStatus::default(),
                tasks: &[],
                phase: crate::lifecycle::Phase::Serving,
                ready: true,
            });
            let line = format!("holdfast_reload_failing{{what=\"principals\"}} {failing}");
            assert!(rendered.contains(&line), "{rendered}");
        }
        running.abort();
    }
}
