//! Front matter: the YAML between two `---` lines at the start of a Markdown file.

use serde::Deserialize;

/// The keys that coven reads; others belong to the tool that owns the file. `id` and `name`, `role` and `title`, `goal`
/// and `description` are alternatives.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FrontMatter {
    pub id: Option<String>,
    pub name: Option<String>,
    pub role: Option<String>,
    pub title: Option<String>,
    pub goal: Option<String>,
    pub description: Option<String>,
}

/// Splits a file into its front matter and the text after it.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    let (first, rest) = text.split_once('\n')?;
    if first.trim_end() != "---" {
        return None;
    }
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..end], &rest[end + line.len()..]));
        }
        end += line.len();
    }
    None
}

pub fn parse(matter: &str) -> Result<FrontMatter, String> {
    let parsed = serde_saphyr::from_str(matter);
    // `description: Use this agent when: …` is not valid YAML, but the tools that own these files accept it.
    parsed.or_else(|error| serde_saphyr::from_str(&quoted(matter)).map_err(|_| first_line(&error.to_string())))
}

/// Quotes all single-line values, so that special characters in them have no effect.
fn quoted(matter: &str) -> String {
    let mut lines = matter.lines().peekable();
    let mut text = String::with_capacity(matter.len() + 64);
    while let Some(line) = lines.next() {
        let is_continued = lines.peek().is_some_and(|next| next.starts_with([' ', '\t', '-']));
        match line.split_once(": ") {
            Some((key, value)) if is_plain_value(key, value) && !is_continued => {
                let value = value.trim().replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("{key}: \"{value}\"\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

fn is_plain_value(key: &str, value: &str) -> bool {
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    is_key && !value.trim_start().starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!'])
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(matter: &str) -> Option<String> {
        parse(matter).expect("valid front matter").description
    }

    #[test]
    fn front_matter_ends_at_the_next_line_of_dashes() {
        assert_eq!(split("---\nid: a\n---\nbody\n---\n"), Some(("id: a\n", "body\n---\n")));
        assert_eq!(split("\u{feff}---\r\nid: a\r\n---\r\n"), Some(("id: a\r\n", "")));
        assert_eq!(split("# Title\n---\nid: a\n---\n"), None);
        assert_eq!(split("---\nid: a\n"), None);
    }

    #[test]
    fn values_may_be_plain_quoted_folded_or_blocks() {
        assert_eq!(description("description: plain words").as_deref(), Some("plain words"));
        assert_eq!(description("description: \"a: b\"").as_deref(), Some("a: b"));
        assert_eq!(description("description: >\n  two\n  lines\n").as_deref(), Some("two lines\n"));
        assert_eq!(description("description: |\n  two\n  lines\n").as_deref(), Some("two\nlines\n"));
        assert_eq!(description("tools: [Bash, Read]\nmodel: opus\n"), None);
    }

    #[test]
    fn a_colon_in_an_unquoted_value_is_accepted() {
        let matter = "name: reviewer\ndescription: Use when: the user says \"go\" \\ done\ntools: Bash\n";
        assert_eq!(description(matter).as_deref(), Some("Use when: the user says \"go\" \\ done"));
    }

    #[test]
    fn invalid_yaml_is_reported_in_one_line() {
        let problem = parse("name: [\n").expect_err("an unclosed list");
        assert!(!problem.is_empty() && !problem.contains('\n'), "{problem}");
    }
}
