//! Issues of the tracker that the older coven got its tasks from: a file in the project, one issue per line.

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use crate::legacy::records::Source;
use coven_files::{BoundedLine, Lines};
use serde_json::Value;

use super::{ISSUE, ISSUES, LegacyFindings, WHOLE, modified_at, opened, task};

/// Path of the file relative to the home.
const FILE: &str = "../.beads/issues.jsonl";

/// Reads the issues. The file is never renamed: it belongs to the tracker, which may still be in use.
pub(super) fn read(project: &Path, found: &mut LegacyFindings) {
    let path = project.join(".beads/issues.jsonl");
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return;
    }
    let file = Source { file: FILE.to_owned(), ..Source::default() };
    let result = opened(&path).and_then(|(issues, metadata)| {
        if metadata.len() > ISSUES.bytes {
            return Err(format!("larger than {ISSUES}"));
        }
        // The file may grow while it is being read.
        let issues = BufReader::new(issues.take(ISSUES.bytes));
        let source = Source { modified_at: modified_at(&metadata), ..file.clone() };
        take(issues, &source, found).map_err(|error| format!("cannot be read: {error}"))
    });
    if let Err(why) = result {
        found.left.push(file.left(WHOLE, why));
        found.legacy.is_task_list_partial = true;
    }
}

/// Reads all lines. Continues after a line that cannot be parsed: the tracker may be writing the last one.
pub(super) fn take(issues: impl BufRead, file: &Source, found: &mut LegacyFindings) -> io::Result<()> {
    let mut lines = Lines::new(issues, ISSUE);
    for number in 1.. {
        let Some(line) = lines.next_line()? else { break };
        let source = Source { line: Some(number), ..file.clone() };
        let read = match line {
            BoundedLine::Whole(line) if line.trim_ascii().is_empty() => continue,
            BoundedLine::Whole(line) => serde_json::from_slice::<Value>(line).map_err(|error| {
                let why = if error.is_eof() { "truncated JSON" } else { "invalid JSON" };
                format!("{why} at column {}", error.column())
            }),
            BoundedLine::TooLong { .. } => Err(format!("longer than {ISSUE}")),
        };
        match read {
            Ok(value) => {
                let issue = task::read(&value, None, &source, &mut found.legacy, &mut found.left);
                found.legacy.issues.extend(issue);
            }
            Err(why) => {
                found.left.push(source.left("a task", why));
                found.legacy.is_task_list_partial = true;
            }
        }
    }
    Ok(())
}
