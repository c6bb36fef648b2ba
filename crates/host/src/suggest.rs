//! Suggests similar names for an unknown one.

const MAX_SUGGESTIONS: usize = 3;

/// Returns the most similar names, best first. A name that contains `wanted` counts as similar regardless of its
/// length.
pub fn closest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let far = (wanted.chars().count() / 3).max(2);
    let mut ranked: Vec<(usize, &str)> = known
        .filter_map(|name| match distance(wanted, name) {
            near if near <= far => Some((near, name)),
            _ if name.starts_with(wanted) || wanted.starts_with(name) => Some((far, name)),
            _ if name.contains(wanted) => Some((far + 1, name)),
            _ => None,
        })
        .collect();
    ranked.sort();
    ranked.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

/// Returns the Levenshtein distance.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in to.iter().enumerate() {
            let changed = diagonal + usize::from(left != *right);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_sorted_and_others_omitted() {
        let known = ["qa-test", "qa-test-architect", "ux-expert", "qa-text"];
        assert_eq!(closest("qa-tset", known.into_iter()), ["qa-test", "qa-text"]);
        assert_eq!(closest("qa", known.into_iter()), ["qa-test", "qa-test-architect", "qa-text"]);
        assert_eq!(closest("zzz", known.into_iter()), Vec::<String>::new());
        assert_eq!(closest("", known.into_iter()), Vec::<String>::new());
    }

    #[test]
    fn distance_counts_insertions_deletions_and_substitutions() {
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("kitten", "sitting")), (3, 3, 3));
    }
}
