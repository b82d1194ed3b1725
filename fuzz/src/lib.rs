//! What must hold of every reader of bytes from outside, whatever the bytes.
//!
//! Each [`Target`] takes bytes and panics when something does not hold, so that a fuzzer can drive it. The
//! test here runs what is kept in `fuzz/corpus/`, and every beginning of it.

mod map;
mod peers;
mod text;

use holdfast_gateway::fuzz;

/// A reader, and what must hold of it.
pub struct Target {
    /// As the folder of its corpus is called.
    pub name: &'static str,
    /// Panics when it does not hold.
    pub check: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    // What clients send.
    target("heads", fuzz::heads),
    target("bodies", fuzz::bodies),
    target("lock_ids", text::lock_ids),
    target("names", text::names),
    // What other gateways say.
    target("frames", peers::frames),
    // What etcd has.
    target("records", fuzz::records),
    target("map", map::map),
    // What operators write.
    target("roll", text::roll),
];

const fn target(name: &'static str, check: fn(&[u8])) -> Target {
    Target { name, check }
}

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn what_is_kept_of_earlier_searches_holds() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        for target in TARGETS {
            let folder = corpus.join(target.name);
            let files = std::fs::read_dir(&folder).unwrap();
            let mut count = 0;
            for file in files {
                let whole = std::fs::read(file.unwrap().path()).unwrap();
                // Its beginnings too: what breaks off is what readers stumble over.
                for end in 0..=whole.len() {
                    (target.check)(&whole[..end]);
                }
                count += 1;
            }
            assert!(count > 0, "{} is empty", folder.display());
        }
    }
}
