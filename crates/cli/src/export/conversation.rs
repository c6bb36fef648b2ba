//! Exports an ACP conversation as a readable transcript or as its messages.

use std::io::Write;

use coven_api::SessionRecord;

use super::{Format, Target};
use crate::chat::past;
use crate::chat::row::Row;
use crate::chat::transcript::{Detail, Transcript};
use crate::daemon_client::DaemonClient;
use crate::failure::Failure;

pub(super) const PAGE_END: &str = "</pre>\n</body>\n</html>\n";

pub async fn export(
    link: &mut DaemonClient,
    record: &SessionRecord,
    format: Format,
    target: &mut Target,
) -> Result<(), Failure> {
    match format {
        Format::Text => transcript(link, &record.id.to_string(), target, |row| row.text()).await,
        Format::Html => {
            write!(target, "{}", page_start(&record.title)).map_err(Failure::Output)?;
            transcript(link, &record.id.to_string(), target, html).await?;
            write!(target, "{PAGE_END}").map_err(Failure::Output)
        }
        Format::Jsonl => messages(link, &record.id.to_string(), target).await,
        Format::Asciicast => {
            Err(Failure::usage("a conversation has no terminal recording", "Use --format text, html or jsonl"))
        }
    }
}

async fn transcript(
    link: &mut DaemonClient,
    id: &str,
    target: &mut Target,
    line: fn(&Row) -> String,
) -> Result<(), Failure> {
    let mut transcript = Transcript::new(None, Detail { has_tool_content: true, folds_thoughts: false });
    let mut write =
        |rows: Vec<Row>| rows.iter().try_for_each(|row| writeln!(target, "{}", line(row)).map_err(Failure::Output));
    past::read(link, id, 0, |message| write(transcript.take(&message))).await?;
    write(transcript.end_turn())
}

/// Writes the messages as the daemon sends them, one per line.
async fn messages(link: &mut DaemonClient, id: &str, target: &mut Target) -> Result<(), Failure> {
    past::read(link, id, 0, |message| {
        let line = serde_json::to_string(&message).expect("records are plain data");
        writeln!(target, "{line}").map_err(Failure::Output)
    })
    .await
    .map(drop)
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
    fn markup_in_messages_is_escaped() {
        let row = Row::new(Style::User, "› <script>").with(Style::Plain, "a & \"b\"");
        assert_eq!(html(&row), "<span class=\"user\">› &lt;script&gt;</span>a &amp; &quot;b&quot;");
        assert!(page_start("<b>").contains("<title>&lt;b&gt;</title>"));
    }
}
