//! Quoting of values in commands: each becomes one shell word.

use crate::bounded::MAX_RESULT;

/// Refuses values inside quotes of the command. Coven quotes each value; inside other quotes this would end them, and
/// the shell would interpret the value as part of the command.
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
                return Err(format!("{{{{ {value} }}}} is inside quotes; remove them, coven quotes values itself"));
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
                // A backslash escapes a quote, except inside single quotes.
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

/// Quotes a text as one shell word; `None` if the result is too long for a template.
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
            assert!(check_command(bad).is_err_and(|why| why.contains("is inside quotes")), "{bad}");
        }
    }
}
