//! The tracker that the older coven had its tasks from: a file of the project with an issue in each line.

use std::path::Path;
use std::{fs, io};

use coven_domain::legacy::Source;
use serde_json::Value;

use super::{Found, WHOLE, bytes_of, modified_at, task};

/// Where it is, seen from the home.
const FILE: &str = "../.beads/issues.jsonl";

/// The file is never among those to put aside: it belongs to the tracker, which may still be in use.
pub(super) fn read(project: &Path, found: &mut Found) {
    let path = project.join(".beads/issues.jsonl");
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return;
    }
    let file = Source { file: FILE.to_owned(), ..Source::default() };
    match bytes_of(&path) {
        Ok((bytes, metadata)) => take(&bytes, &Source { modified_at: modified_at(&metadata), ..file }, found),
        Err(why) => {
            found.left.push(file.left(WHOLE, why));
            found.legacy.may_lack_tasks = true;
        }
    }
}

/// A line that cannot be read does not stop the others: the tracker may be writing the last one.
pub(super) fn take(bytes: &[u8], file: &Source, found: &mut Found) {
    for (nth, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let source = Source { line: Some(nth + 1), ..file.clone() };
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => {
                let issue = task::read(&value, None, &source, &mut found.legacy, &mut found.left);
                found.legacy.issues.extend(issue);
            }
            Err(error) => {
                let why = if error.is_eof() { "it ends in the middle" } else { "it is no JSON" };
                found.left.push(source.left("a task", format!("{why}, at column {}", error.column())));
                found.legacy.may_lack_tasks = true;
            }
        }
    }
}
