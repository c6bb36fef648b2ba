//! A tool call: one row folded, its content when asked for.

use serde_json::Value;

use super::diff::{self, Change};
use super::row::{Row, Style};
use super::wrap::expanded;

/// So many lines of one piece of content are shown; the rest is counted.
const MOST_LINES: usize = 200;

#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    title: String,
    pub status: String,
    args: Value,
    content: Vec<Value>,
    output: Value,
}

impl ToolCall {
    /// As a message tells it.
    pub fn of_message(content: &Value) -> Self {
        Self::new(&content["tool"], &content["status"], &content["args"], &content["result"])
    }

    /// As a request for permission tells it.
    pub fn of_request(detail: &Value) -> Self {
        let call = detail.get("toolCall").or_else(|| detail.get("tool_call")).unwrap_or(detail);
        Self::new(&call["title"], &call["status"], &call["rawInput"], call)
    }

    fn new(title: &Value, status: &Value, args: &Value, result: &Value) -> Self {
        Self {
            title: title.as_str().unwrap_or_default().to_owned(),
            status: status.as_str().unwrap_or("pending").to_owned(),
            args: args.clone(),
            content: result["content"].as_array().cloned().unwrap_or_default(),
            output: result["rawOutput"].clone(),
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled")
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
        let diffs = self.content.iter().filter(|block| block["type"] == "diff" && block["newText"].is_string());
        diffs.map(|block| {
            let text = |name: &str| block[name].as_str().unwrap_or_default();
            (text("path"), text("oldText"), text("newText"))
        })
    }

    /// The call in one row: `● touch x … done`.
    pub fn row(&self) -> Row {
        let (style, end) = match self.status.as_str() {
            "completed" => (Style::Good, " … done".to_owned()),
            "failed" => (Style::Bad, format!(" … failed{}", self.reason())),
            "cancelled" => (Style::Dim, " … cancelled".to_owned()),
            _ => (Style::Alert, " …".to_owned()),
        };
        let row = Row::new(style, "● ").with(Style::Plain, &self.label());
        match (self.diff_counts(), self.status.as_str()) {
            (Some((added, removed)), "failed" | "cancelled") => {
                row.with(style, &end).with(Style::Dim, &format!(" (+{added} −{removed})"))
            }
            (Some((added, removed)), _) => row
                .with(Style::Dim, " … ")
                .with(Style::Good, &format!("+{added} "))
                .with(Style::Bad, &format!("−{removed}")),
            (None, "failed") => row.with(Style::Bad, &end),
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
        let blocks = self.content.iter().filter(|block| block["type"] == "content");
        let mut texts: Vec<&str> = blocks.filter_map(|block| block["content"]["text"].as_str()).collect();
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
    use serde_json::json;

    fn call(status: &str, args: Value, result: Value) -> ToolCall {
        ToolCall::of_message(&json!({"tool": "shell", "status": status, "args": args, "result": result}))
    }

    #[test]
    fn a_call_is_one_row_that_tells_what_it_does() {
        let args = || json!({"command": "touch x\nrm y"});
        assert_eq!(call("in_progress", args(), json!(null)).row().text(), "● shell: touch x …");
        assert_eq!(call("completed", args(), json!({"content": []})).row().text(), "● shell: touch x … done");
        let words = json!({"command": ["bash", "-lc", "ls"]});
        assert_eq!(call("completed", words, json!(null)).row().text(), "● shell: bash -lc ls … done");
        let titled = ToolCall::of_message(&json!({"tool": "touch x", "args": {"command": "touch x"}}));
        assert_eq!(titled.row().text(), "● touch x …");
        assert_eq!(ToolCall::of_message(&json!({})).row().text(), "● tool call …");
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
