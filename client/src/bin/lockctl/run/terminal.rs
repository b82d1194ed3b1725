//! Whether this process is in the foreground of a terminal.

/// Where this process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Terminal {
    /// In the foreground of one, which sends its signals to the whole foreground.
    Foreground,
    /// In the background, or without one.
    None,
}

impl Terminal {
    /// Looks; without an answer from the kernel, none.
    pub(super) fn of_this_process() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self::from_stat(&stat)
    }

    /// Reads `/proc/.../stat`: after the name in brackets come state, parent, group, session,
    /// terminal, and the terminal's foreground group.
    fn from_stat(stat: &str) -> Self {
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        match fields[..] {
            [_, _, group, _, terminal, foreground, ..]
                if terminal != "0" && group == foreground =>
            {
                Self::Foreground
            }
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_foreground_is_where_the_terminals_group_is_ones_own() {
        for (stat, expected) in [
            (
                "7 (a) b) S 1 70 60 34816 70 4194304 0",
                Terminal::Foreground,
            ),
            ("7 (lockctl) S 1 70 60 34816 60 4194304 0", Terminal::None),
            ("7 (lockctl) S 1 70 60 0 -1 4194304 0", Terminal::None),
            ("", Terminal::None),
        ] {
            assert_eq!(Terminal::from_stat(stat), expected, "{stat}");
        }
    }
}
