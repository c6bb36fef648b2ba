//! The changes of a task: a patch, parsed once into files and numbered lines.

use std::ops::Range;

use coven_api::workflow::TaskDiffResponse;

/// Further lines of a patch are not shown.
const MAX_LINES: usize = 200_000;
/// Longer files are folded at first.
const FOLDED_LINES: usize = 1_500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    Hunk,
    Same,
    Added,
    Removed,
    /// A remark of git, such as a missing line break at the end.
    Note,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: LineKind,
    /// In the new file; of a removed line in the old one.
    pub number: u32,
    /// The bytes of its text in the patch.
    start: usize,
    end: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    pub path: String,
    /// Why it has no lines.
    pub note: &'static str,
    /// `None` for a binary file.
    pub counts: Option<(u64, u64)>,
    /// Its lines in `Diff::lines`.
    pub lines: Range<usize>,
    pub is_folded: bool,
}

#[derive(Debug)]
pub struct Diff {
    /// Without the list of files. The lines are parts of its patch.
    pub record: TaskDiffResponse,
    pub files: Vec<FileDiff>,
    pub lines: Vec<DiffLine>,
    /// Not everything is shown.
    pub is_cut: bool,
}

impl Diff {
    pub fn new(mut record: TaskDiffResponse) -> Self {
        let listed = std::mem::take(&mut record.files).into_iter();
        let listed = listed.map(|file| FileDiff::new(file.path, file.additions.zip(file.deletions)));
        let (files, is_cut) = (listed.collect(), record.truncated);
        let mut diff = Self { record, files, lines: Vec::new(), is_cut };
        let patch = std::mem::take(&mut diff.record.patch);
        diff.parse(&patch);
        diff.record.patch = patch;
        for file in &mut diff.files {
            file.is_folded = file.lines.len() > FOLDED_LINES;
            file.note = match file.counts {
                _ if !file.lines.is_empty() => "",
                None => "binary",
                Some((0, 0)) => "no lines changed",
                Some(_) if diff.is_cut => "its lines were cut off",
                Some(_) => "its lines are shown under its new name",
            };
        }
        diff
    }

    /// Finds the lines of the files. The patch has them in the order of the list.
    fn parse(&mut self, patch: &str) {
        let (listed, mut next_listed) = (self.files.len(), 0);
        let mut file: Option<usize> = None;
        // The numbers of the next line in the old and the new file, after the first header of a hunk.
        let mut numbers: Option<(u32, u32)> = None;
        let mut next = 0;
        for line in patch.split_inclusive('\n') {
            let start = next;
            next += line.len();
            let line = line.trim_end_matches('\n');
            if self.lines.len() >= MAX_LINES {
                self.is_cut = true;
                break;
            }
            let (kind, number) = match (line.as_bytes().first(), &mut numbers) {
                (Some(b'@'), _) => {
                    let (old, new) = hunk_start(line);
                    numbers = Some((old, new));
                    (LineKind::Hunk, new)
                }
                (Some(b'+'), Some((_, new))) => (LineKind::Added, next_number(new)),
                (Some(b'-'), Some((old, _))) => (LineKind::Removed, next_number(old)),
                (Some(b' ') | None, Some((old, new))) => {
                    next_number(old);
                    (LineKind::Same, next_number(new))
                }
                (Some(b'\\'), Some(_)) => (LineKind::Note, 0),
                _ => {
                    if let Some(names) = line.strip_prefix("diff --git ") {
                        numbers = None;
                        let found = (next_listed..listed).find(|at| is_named(names, &self.files[*at].path));
                        file = Some(found.unwrap_or(self.files.len()));
                        match found {
                            Some(at) => next_listed = at + 1,
                            None => self.files.push(FileDiff::new(names.to_owned(), None)),
                        }
                    }
                    continue;
                }
            };
            let Some(file) = file.and_then(|file| self.files.get_mut(file)) else { continue };
            let has_sign = !matches!(kind, LineKind::Hunk | LineKind::Note) && !line.is_empty();
            let (start, end) = (start + usize::from(has_sign), start + line.len());
            self.lines.push(DiffLine { kind, number, start, end });
            if file.lines.is_empty() {
                file.lines.start = self.lines.len() - 1;
            }
            file.lines.end = self.lines.len();
        }
    }

    /// Returns the text of a line, without its sign.
    pub fn text(&self, line: usize) -> &str {
        let DiffLine { start, end, .. } = self.lines[line];
        self.record.patch.get(start..end).unwrap_or_default()
    }

    /// Returns the line of a file with this text that is nearest to a number.
    pub fn find(&self, path: &str, is_removed: bool, number: u32, text: &str) -> Option<usize> {
        let file = self.files.iter().find(|file| file.path == path)?;
        let is_it = |line: &usize| {
            let kind = self.lines[*line].kind;
            let is_side = if is_removed { kind == LineKind::Removed } else { kind.is_new() };
            is_side && self.text(*line) == text
        };
        file.lines.clone().filter(is_it).min_by_key(|line| self.lines[*line].number.abs_diff(number))
    }

    /// Number of columns of the largest line number.
    pub fn number_width(&self) -> usize {
        self.lines.iter().map(|line| line.number).max().unwrap_or(0).to_string().len().max(3)
    }
}

impl LineKind {
    /// Reports whether the line is in the new file.
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Same | Self::Added)
    }
}

/// Returns the first line numbers of `@@ -1,5 +1,6 @@`.
fn hunk_start(line: &str) -> (u32, u32) {
    let first = |sign: char| {
        let range = line.split_whitespace().find_map(|word| word.strip_prefix(sign));
        range.and_then(|range| range.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    (first('-'), first('+'))
}

fn next_number(number: &mut u32) -> u32 {
    let this = *number;
    *number = this.saturating_add(1);
    this
}

impl FileDiff {
    const fn new(path: String, counts: Option<(u64, u64)>) -> Self {
        Self { path, note: "", counts, lines: 0..0, is_folded: false }
    }
}

/// Reports whether the names of a `diff --git` line end with this path, behind a prefix such as `b/` or none.
fn is_named(names: &str, path: &str) -> bool {
    if names.ends_with('"') {
        // Git writes such paths with escapes.
        return path.chars().any(|c| !c.is_ascii() || c.is_ascii_control() || matches!(c, '"' | '\\'));
    }
    let before = names.strip_suffix(path).map(str::as_bytes);
    before.is_some_and(|before| matches!(before, [.., b' '] | [.., b' ', _, b'/']))
}

#[cfg(test)]
pub mod tests {
    use coven_api::workflow::FileChangeRecord;
    use coven_domain::TaskId;

    use super::*;

    pub fn response(files: &[(&str, u64, u64)], patch: &str) -> TaskDiffResponse {
        let file = |(path, additions, deletions): &(&str, u64, u64)| FileChangeRecord {
            path: (*path).to_owned(),
            additions: Some(*additions),
            deletions: Some(*deletions),
        };
        TaskDiffResponse {
            task_id: "0190f3a2-0000-7000-8000-000000000001".parse::<TaskId>().expect("an id"),
            base_branch: Some("main".to_owned()),
            base_commit: "c0ffee".to_owned(),
            branch: "coven/1".to_owned(),
            merged: false,
            files: files.iter().map(file).collect(),
            additions: files.iter().map(|file| file.1).sum(),
            deletions: files.iter().map(|file| file.2).sum(),
            patch: patch.to_owned(),
            truncated: false,
            uncommitted: false,
        }
    }

    pub const PATCH: &str = "diff --git a/src/a.rs b/src/a.rs\nindex 1..2 100644\n--- a/src/a.rs\n+++ b/src/a.rs\n\
        @@ -1,3 +1,4 @@ fn a\n one\n-two\n--- minus\n+TWO\n++++ plus\n+three\n\
        diff --git a/b c.txt b/b c.txt\nnew file mode 100644\n--- /dev/null\n+++ b/b c.txt\t\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n";

    fn shown(diff: &Diff, file: usize) -> Vec<String> {
        let line = |at: usize| format!("{:?} {} {}", diff.lines[at].kind, diff.lines[at].number, diff.text(at));
        diff.files[file].lines.clone().map(line).collect()
    }

    #[test]
    fn a_patch_becomes_numbered_lines_of_files() {
        let diff = Diff::new(response(&[("src/a.rs", 3, 2), ("b c.txt", 1, 0)], PATCH));
        assert_eq!(diff.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["src/a.rs", "b c.txt"]);
        assert_eq!(
            shown(&diff, 0),
            [
                "Hunk 1 @@ -1,3 +1,4 @@ fn a",
                "Same 1 one",
                "Removed 2 two",
                "Removed 3 -- minus",
                "Added 2 TWO",
                "Added 3 +++ plus",
                "Added 4 three",
            ]
        );
        assert_eq!(shown(&diff, 1), ["Hunk 1 @@ -0,0 +1 @@", "Added 1 x", "Note 0 \\ No newline at end of file"]);
        assert_eq!(diff.find("src/a.rs", false, 9, "three"), Some(6));
        assert_eq!((diff.find("src/a.rs", false, 2, "two"), diff.find("src/a.rs", true, 1, "two")), (None, Some(2)));
    }

    #[test]
    fn hostile_renamed_and_binary_files_are_found_in_the_list() {
        let patch = "diff --git a/a b/z/a\nsimilarity index 90%\n@@ -1 +1 @@\n-x\n+y\n\
            diff --git \"a/\\303\\251\\n\" \"b/\\303\\251\\n\"\n@@ -1 +1 @@\n-x\n+y\n\
            diff --git a/new b/new\n@@ -0,0 +1 @@\n+n\ndiff --git q.png q.png\nBinary files differ\n";
        let mut record = response(&[("a", 0, 3), ("z/a", 3, 0), ("é\n", 1, 1), ("q.png", 0, 0)], patch);
        record.files[3].additions = None;
        let diff = Diff::new(record);
        let files: Vec<_> = diff.files.iter().map(|file| (file.path.as_str(), file.lines.len(), file.note)).collect();
        let moved = ("a", 0, "its lines are shown under its new name");
        let unlisted = ("a/new b/new", 2, "");
        assert_eq!(files, [moved, ("z/a", 3, ""), ("é\n", 3, ""), ("q.png", 0, "binary"), unlisted]);
    }

    #[test]
    fn a_cut_or_damaged_patch_is_read_as_far_as_it_goes() {
        let mut record = response(&[("src/a.rs", 3, 2), ("gone.rs", 9, 9)], &PATCH[..110]);
        record.truncated = true;
        let diff = Diff::new(record);
        assert!(diff.is_cut);
        assert_eq!((diff.files[1].path.as_str(), diff.files[1].note), ("gone.rs", "its lines were cut off"));
        for end in 0..PATCH.len() {
            let diff = Diff::new(response(&[], &PATCH[..end]));
            (0..diff.lines.len()).for_each(|line| assert!(!diff.text(line).contains('\n')));
        }
        for patch in ["@@ -1 +1 @@\n+x", "diff --git \n@@ -1,4294967295 +1,9 @@\n+x", "diff --git é\n+++ \n@@ -x\n\\"]
        {
            Diff::new(response(&[], patch));
        }
        let many = format!("diff --git a/x b/x\n@@ -0,0 +1,300000 @@\n{}", "+\n".repeat(300_000));
        let diff = Diff::new(response(&[], &many));
        assert!(diff.is_cut && diff.lines.len() == MAX_LINES && diff.files[0].is_folded);
    }
}
