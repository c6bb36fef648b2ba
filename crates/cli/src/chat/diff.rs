//! What changed between two texts, line by line.

/// One line of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    Kept(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// Above so many comparisons the middle counts as replaced: exactness is not worth a pause.
const MOST_COMPARISONS: usize = 4_000_000;

/// The changed lines, with what is kept between them; what is the same at both ends is left out.
pub fn changes<'a>(old: &'a str, new: &'a str) -> Vec<Change<'a>> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[head..], &new[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    if old.len().saturating_mul(new.len()) > MOST_COMPARISONS {
        let removed = old.iter().map(|line| Change::Removed(line));
        return removed.chain(new.iter().map(|line| Change::Added(line))).collect();
    }
    aligned(old, new)
}

/// Lines added and removed.
pub fn counts(old: &str, new: &str) -> (usize, usize) {
    changes(old, new).iter().fold((0, 0), |(added, removed), change| match change {
        Change::Kept(_) => (added, removed),
        Change::Added(_) => (added + 1, removed),
        Change::Removed(_) => (added, removed + 1),
    })
}

/// Keeps the longest common run of lines.
fn aligned<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Change<'a>> {
    let columns = new.len() + 1;
    // The length of the best run that begins at each pair.
    let mut best = vec![0u32; (old.len() + 1) * columns];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            best[i * columns + j] = match old[i] == new[j] {
                true => best[(i + 1) * columns + j + 1] + 1,
                false => best[(i + 1) * columns + j].max(best[i * columns + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut changes = Vec::new();
    while i < old.len() || j < new.len() {
        let is_removed = j == new.len()
            || (i < old.len() && old[i] != new[j] && best[(i + 1) * columns + j] >= best[i * columns + j + 1]);
        if i < old.len() && j < new.len() && old[i] == new[j] {
            changes.push(Change::Kept(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if is_removed {
            changes.push(Change::Removed(old[i]));
            i += 1;
        } else {
            changes.push(Change::Added(new[j]));
            j += 1;
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let changed = changes("a\nb\nc\nd\n", "a\nx\nc\ny\nd\n");
        let expected = [Change::Removed("b"), Change::Added("x"), Change::Kept("c"), Change::Added("y")];
        assert_eq!(changed, expected);
        assert_eq!(counts("a\nb\nc\nd\n", "a\nx\nc\ny\nd\n"), (2, 1));
    }

    #[test]
    fn new_and_deleted_files_count_whole() {
        assert_eq!((counts("", "a\nb"), counts("a\nb\n", ""), counts("a", "a")), ((2, 0), (0, 2), (0, 0)));
    }

    #[test]
    fn huge_texts_are_counted_at_once() {
        let text = |word: &str| (0..5_000).map(|n| format!("{word}{n}\n")).collect::<String>();
        assert_eq!(counts(&text("a"), &text("b")), (5_000, 5_000));
    }
}
