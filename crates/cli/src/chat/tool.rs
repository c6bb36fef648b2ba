//! A tool call: one row folded, its content when asked for.

use coven_api::message_content::{self as wire, ToolContent, ToolStatus};
use serde_json::Value;

use super::diff::{self, Change};
use super::row::{Row, Style};
use super::wrap::expanded;

/// So many lines of one piece of content are shown; the rest is counted.
const MOST_LINES: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    title: String,
    pub status: ToolStatus,
    args: Value,
    content: Vec<ToolContent>,
    output: Value,
}

impl ToolCall {
    /// As a message tells it.
    pub fn of_message(call: &wire::ToolCall) -> Self {
        let (content, output) = match &call.result {
            Some(result) => (result.content.clone(), result.raw_output.clone()),
            None => (Vec::new(), Value::Null),
        };
        Self { title: call.tool.clone(), status: call.status, args: call.args.clone(), content, output }
    }

    /// As a request for permission tells it.
    pub fn of_request(detail: &Value) -> Self {
        let call = detail.get("toolCall").or_else(|| detail.get("tool_call")).unwrap_or(detail);
        Self {
            title: call["title"].as_str().unwrap_or_default().to_owned(),
            status: ToolStatus::read(&call["status"]),
            args: call["rawInput"].clone(),
            content: call["content"].as_array().into_iter().flatten().map(ToolContent::read).collect(),
            output: call["rawOutput"].clone(),
        }
    }

    pub fn is_over(&self) -> bool {
        self.status.is_over()
    }

    /// What is done, in one line: the agent's title, with what it leaves out.
    pub fn label(&self) -> String {
        let title = first_line(&self.title);
        match self.subject() {
            Some(subject) if title.is_empty() => subject,
            Some(subject) if !title.contains(&subject) => format!("{title}: {subject}"),
            _ if title.is_empty() => "tool call".to_owned(),
            _ => title.to_owned(),
        }
    }

    /// The command, file or question that the call is about.
    fn subject(&self) -> Option<String> {
        const NAMES: [&str; 8] = ["command", "file_path", "filePath", "path", "pattern", "query", "url", "abs_path"];
        let found = NAMES.iter().find_map(|name| self.args.get(name))?;
        let words = match found {
            Value::Array(words) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        Some(first_line(&words).to_owned()).filter(|subject| !subject.is_empty())
    }

    /// Lines added and removed in all files, if it changes any.
    fn diff_counts(&self) -> Option<(usize, usize)> {
        let counts = self.diffs().map(|(_, old, new)| diff::counts(old, new));
        counts.reduce(|(added, removed), (more, less)| (added + more, removed + less))
    }

    fn diffs(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.content.iter().filter_map(|part| match part {
            ToolContent::Diff { path, old_text, new_text } => {
                Some((path.as_str(), old_text.as_deref().unwrap_or_default(), new_text.as_str()))
            }
            _ => None,
        })
    }

    /// The call in one row: `● touch x … done`.
    pub fn row(&self) -> Row {
        let (style, end) = match self.status {
            ToolStatus::Completed => (Style::Good, " … done".to_owned()),
            ToolStatus::Failed => (Style::Bad, format!(" … failed{}", self.reason())),
            ToolStatus::Cancelled => (Style::Dim, " … cancelled".to_owned()),
            ToolStatus::Pending | ToolStatus::InProgress => (Style::Alert, " …".to_owned()),
        };
        let row = Row::new(style, "● ").with(Style::Plain, &self.label());
        match (self.diff_counts(), self.status) {
            (Some((added, removed)), ToolStatus::Failed | ToolStatus::Cancelled) => {
                row.with(style, &end).with(Style::Dim, &format!(" (+{added} −{removed})"))
            }
            (Some((added, removed)), _) => row
                .with(Style::Dim, " … ")
                .with(Style::Good, &format!("+{added} "))
                .with(Style::Bad, &format!("−{removed}")),
            (None, ToolStatus::Failed) => row.with(Style::Bad, &end),
            (None, _) => row.with(Style::Dim, &end),
        }
    }

    /// The call after its turn is over and nothing more was heard of it.
    pub fn abandoned_row(&self) -> Row {
        Row::new(Style::Dim, "○ ").with(Style::Dim, &self.label()).with(Style::Dim, " … not finished")
    }

    /// The first line of what a failed call tells.
    fn reason(&self) -> String {
        let text = self.texts().into_iter().find(|text| !text.trim().is_empty());
        text.map_or_else(String::new, |text| format!(": {}", first_line(text.trim())))
    }

    fn texts(&self) -> Vec<&str> {
        let texts = self.content.iter().filter_map(|part| match part {
            ToolContent::Content { content } => content["text"].as_str(),
            _ => None,
        });
        let mut texts: Vec<&str> = texts.collect();
        if texts.is_empty() {
            let output = &self.output;
            let parts =
                [output.as_str(), output["stdout"].as_str(), output["stderr"].as_str(), output["output"].as_str()];
            texts.extend(parts.into_iter().flatten());
        }
        texts
    }

    /// What it was given and gave, indented.
    pub fn content_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (path, old, new) in self.diffs() {
            let (added, removed) = diff::counts(old, new);
            rows.push(Row::new(Style::Bold, &format!("    {path}")).with(Style::Dim, &format!(" +{added} −{removed}")));
            rows.extend(shortened(diff::changes(old, new).iter().map(change_row).collect()));
        }
        for text in self.texts() {
            let lines = text.trim_end().lines().filter(|_| !text.trim().is_empty());
            rows.extend(shortened(lines.map(|line| indented(Style::Dim, "", line)).collect()));
        }
        rows
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default().trim_end()
}

fn indented(style: Style, sign: &str, line: &str) -> Row {
    Row::new(style, &format!("    {sign}{}", expanded(line, 0)))
}

fn change_row(change: &Change<'_>) -> Row {
    match change {
        Change::Kept(line) => indented(Style::Dim, "  ", line),
        Change::Removed(line) => indented(Style::Bad, "- ", line),
        Change::Added(line) => indented(Style::Good, "+ ", line),
    }
}

fn shortened(mut rows: Vec<Row>) -> Vec<Row> {
    let more = rows.len().saturating_sub(MOST_LINES);
    if more > 0 {
        rows.truncate(MOST_LINES);
        rows.push(Row::new(Style::Dim, &format!("    … {more} more lines")));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_api::message_content::MessageContent;
    use serde_json::json;

    fn call(status: &str, args: Value, result: Value) -> ToolCall {
        of_row(json!({"type": "tool", "tool": "shell", "status": status, "args": args, "result": result}))
    }

    fn of_row(row: Value) -> ToolCall {
        let content = MessageContent::read(&row.to_string());
        ToolCall::of_message(content.tool().expect("a tool call"))
    }

    #[test]
    fn a_call_is_one_row_that_tells_what_it_does() {
        let args = || json!({"command": "touch x\nrm y"});
        assert_eq!(call("in_progress", args(), json!(null)).row().text(), "● shell: touch x …");
        assert_eq!(call("completed", args(), json!({"content": []})).row().text(), "● shell: touch x … done");
        let words = json!({"command": ["bash", "-lc", "ls"]});
        assert_eq!(call("completed", words, json!(null)).row().text(), "● shell: bash -lc ls … done");
        let titled = of_row(json!({"type": "tool", "tool": "touch x", "args": {"command": "touch x"}}));
        assert_eq!(titled.row().text(), "● touch x …");
        assert_eq!(of_row(json!({"type": "tool"})).row().text(), "● tool call …");
    }

    #[test]
    fn a_diff_is_summed_up_and_shown_when_asked_for() {
        let edit = json!({"content": [{"type": "diff", "path": "a.rs", "oldText": "a\nb\n", "newText": "a\nc\nd\n"}]});
        let edit = call("completed", json!({"path": "a.rs"}), edit);
        assert_eq!(edit.row().text(), "● shell: a.rs … +2 −1");
        let rows: Vec<String> = edit.content_rows().iter().map(Row::text).collect();
        assert_eq!(rows, ["    a.rs +2 −1", "    - b", "    + c", "    + d"]);
        let new = json!({"content": [{"type": "diff", "path": "n", "oldText": null, "newText": "1\n2"}]});
        assert_eq!(call("completed", json!({}), new).row().text(), "● shell … +2 −0");
    }

    #[test]
    fn a_failed_call_tells_why() {
        let failed =
            json!({"content": [{"type": "content", "content": {"type": "text", "text": "no such file\nmore"}}]});
        assert_eq!(call("failed", json!({}), failed).row().text(), "● shell … failed: no such file");
        let raw = json!({"content": [], "rawOutput": {"stdout": "", "stderr": "denied\n", "exit_code": 1}});
        assert_eq!(call("failed", json!({}), raw).row().text(), "● shell … failed: denied");
    }

    #[test]
    fn long_content_is_shortened() {
        let text = "line\n".repeat(300);
        let long = json!({"content": [{"type": "content", "content": {"type": "text", "text": text}}]});
        let rows = call("completed", json!({}), long).content_rows();
        assert_eq!((rows.len(), rows[200].text().as_str()), (201, "    … 100 more lines"));
    }

    #[test]
    fn a_request_for_permission_is_a_call_too() {
        let detail = json!({"toolCall": {"toolCallId": "1", "title": "shell", "rawInput": {"command": "touch x"}}, "options": []});
        assert_eq!(ToolCall::of_request(&detail).label(), "shell: touch x");
    }
}
