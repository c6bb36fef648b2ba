//! Values in commands: each becomes one word of the shell.

use crate::bounded::MAX_RESULT;

/// A value becomes a word of the shell by being quoted; inside quotes of the command that would undo them, and the value would be
/// read as a part of the command.
pub(crate) fn check_command(template: &str) -> Result<(), String> {
    let (mut quote, mut is_word_start): (Option<char>, bool) = (None, true);
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        let end = |mark: &str| rest.find(mark).map_or(rest.len(), |at| at + mark.len());
        let taken = if rest.starts_with("{{") {
            let value = &rest[2..end("}}").saturating_sub(2).max(2)];
            let is_safe =
                value.rsplit('|').next().is_some_and(|last| last.trim().trim_end_matches('-').trim() == "safe");
            if quote.is_some() && !is_safe {
                let value = value.trim();
                return Err(format!("{{{{ {value} }}}} stands inside quotes; it is quoted already, so leave them out"));
            }
            end("}}")
        } else if rest.starts_with("{%") {
            end("%}")
        } else if rest.starts_with("{#") {
            end("#}")
        } else if quote.is_none() && first == '#' && is_word_start {
            end("\n")
        } else {
            match (quote, first) {
                // What is behind a backslash is no quote, except between single ones.
                (None | Some('"'), '\\') => {
                    let escaped = rest.chars().nth(1).map_or(0, char::len_utf8);
                    rest = &rest[1 + escaped..];
                    continue;
                }
                (None, '\'' | '"') => quote = Some(first),
                (Some(open), found) if open == found => quote = None,
                _ => {}
            }
            first.len_utf8()
        };
        is_word_start = first.is_whitespace();
        rest = &rest[taken..];
    }
    Ok(())
}

/// One word of the shell; none if it is too long for a template.
pub(super) fn quoted(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Some(text.to_owned());
    }
    let size = text.len() + 3 * text.matches('\'').count() + 2;
    (size <= MAX_RESULT).then(|| format!("'{}'", text.replace('\0', "").replace('\'', "'\\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_inside_quotes_is_refused() {
        for fine in [
            "echo {{ task.title }} 'a b' \"c\"",
            "echo \\\"{{ task.title }}",
            "echo \"{{ task.title|safe }}\"",
            "{% if x == 'y' %}echo {{ a }}{% endif %}",
            "echo 'it''s' {{ a }}",
            "echo \"a\\\"b\" {{ a }}",
            "echo {{ a",
            "# don't\necho {{ a }}",
        ] {
            assert_eq!(check_command(fine), Ok(()), "{fine}");
        }
        for bad in ["echo \"{{ task.title }}\"", "echo '{{ a }}'", "sh -c \"x {% if a %}{{ a }}{% endif %}\""] {
            assert!(check_command(bad).is_err_and(|why| why.contains("stands inside quotes")), "{bad}");
        }
    }
}
