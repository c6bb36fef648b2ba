//! A conversation in other forms: a readable transcript, or its messages as they are.

use std::io::Write;

use coven_api::SessionRecord;
use coven_client::ClientError;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Format, Target};
use crate::chat::past::{self, page_after};
use crate::chat::row::Row;
use crate::chat::transcript::{Detail, Transcript};
use crate::failure::Failure;
use crate::link::Link;

pub(super) const PAGE_END: &str = "</pre>\n</body>\n</html>\n";

pub async fn export(
    link: &mut Link,
    record: &SessionRecord,
    format: Format,
    target: &mut Target,
) -> Result<(), Failure> {
    match format {
        Format::Text => transcript(link, &record.id, target, |row| row.text()).await,
        Format::Html => {
            write!(target, "{}", page_start(&record.title)).map_err(Failure::Output)?;
            transcript(link, &record.id, target, html).await?;
            write!(target, "{PAGE_END}").map_err(Failure::Output)
        }
        Format::Jsonl => messages(link, &record.id, target).await,
        Format::Asciicast => {
            Err(Failure::usage("a conversation has no terminal to record", "Use --format text, html or jsonl"))
        }
    }
}

async fn transcript(link: &mut Link, id: &str, target: &mut Target, line: fn(&Row) -> String) -> Result<(), Failure> {
    let mut transcript = Transcript::new(None, Detail { has_tool_content: true, folds_thoughts: false });
    let mut write =
        |rows: Vec<Row>| rows.iter().try_for_each(|row| writeln!(target, "{}", line(row)).map_err(Failure::Output));
    past::read(link, id, 0, |message| write(transcript.take(&message))).await?;
    write(transcript.end_turn())
}

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    next: u64,
}

/// Messages as the daemon wrote them, one per line.
async fn messages(link: &mut Link, id: &str, target: &mut Target) -> Result<(), Failure> {
    let mut after = 0;
    loop {
        let body = link.bytes(page_after(id, after)).await?;
        let page: RawPage<'_> = serde_json::from_slice(&body).map_err(ClientError::from)?;
        for message in &page.messages {
            writeln!(target, "{message}").map_err(Failure::Output)?;
        }
        if page.messages.is_empty() || page.next <= after {
            return Ok(());
        }
        after = page.next;
    }
}

pub(super) fn page_start(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\nbody{{margin:0;padding:1em;max-width:100ch;background:#1e1e1e;color:#d4d4d4}}\n\
         pre{{font:14px/1.4 ui-monospace,Menlo,Consolas,monospace;margin:0;white-space:pre-wrap;overflow-wrap:anywhere}}\n\
         .dim{{opacity:.6}} .bold{{font-weight:bold}} .user{{font-weight:bold;color:#56b6c2}}\n\
         .good{{color:#98c379}} .bad{{color:#e06c75}} .alert{{color:#e5c07b}}\n\
         </style>\n</head>\n<body>\n<pre>",
        escaped(title)
    )
}

fn html(row: &Row) -> String {
    let span = |(style, text): &(crate::chat::row::Style, String)| match style.class() {
        Some(class) => format!("<span class=\"{class}\">{}</span>", escaped(text)),
        None => escaped(text),
    };
    row.spans().iter().map(span).collect()
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::row::Style;

    #[test]
    fn a_page_holds_no_markup_but_its_own() {
        let row = Row::new(Style::User, "› <script>").with(Style::Plain, "a & \"b\"");
        assert_eq!(html(&row), "<span class=\"user\">› &lt;script&gt;</span>a &amp; &quot;b&quot;");
        assert!(page_start("<b>").contains("<title>&lt;b&gt;</title>"));
    }
}
