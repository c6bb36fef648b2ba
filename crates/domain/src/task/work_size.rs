//! The size of a task's changes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Changes on a task's branch since it left its base. Binary files count as files, without lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkSize {
    pub files: u64,
    pub additions: u64,
    pub deletions: u64,
}

impl fmt::Display for WorkSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.files {
            0 => f.write_str("no changes"),
            1 => write!(f, "+{} −{} in 1 file", self.additions, self.deletions),
            files => write!(f, "+{} −{} in {files} files", self.additions, self.deletions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_size_shows_lines_and_files() {
        assert_eq!(WorkSize::default().to_string(), "no changes");
        assert_eq!(WorkSize { files: 1, additions: 0, deletions: 0 }.to_string(), "+0 −0 in 1 file");
        assert_eq!(WorkSize { files: 2, additions: 12, deletions: 3 }.to_string(), "+12 −3 in 2 files");
    }
}
