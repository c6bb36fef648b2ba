//! Messages become rows, each once.

use serde_json::json;

use super::fixtures::{agent, message, piece, system, tool, user};
use super::row::Row;
use super::transcript::{Detail, Transcript};

fn transcript() -> Transcript {
    Transcript::new(Some(40), Detail::default())
}

fn texts(rows: &[Row]) -> Vec<String> {
    rows.iter().map(Row::text).collect()
}

#[test]
fn a_streamed_text_is_never_told_twice() {
    let mut transcript = transcript();
    assert_eq!(texts(&transcript.take(&user(1, "hello"))), ["› hello"]);
    assert_eq!(texts(&transcript.take(&piece(2, "a", "one\nt"))), ["", "one"]);
    assert_eq!(texts(&transcript.take(&piece(3, "a", "wo"))), [""; 0]);
    // when the whole takes the place of its pieces, then only the row under way is finished
    assert_eq!(texts(&transcript.take(&agent(4, "a", "one\ntwo"))), ["two"]);
    assert!(transcript.take(&agent(5, "a", "one\ntwo")).is_empty());
    assert!(transcript.take(&piece(6, "a", "late")).is_empty());
}

#[test]
fn what_was_missed_while_the_daemon_was_away_is_added() {
    let mut transcript = transcript();
    transcript.take(&piece(1, "a", "first li"));
    // when the rest of the message was written without us, then the whole brings it
    assert_eq!(texts(&transcript.take(&agent(9, "a", "first line\nsecond"))), ["first line", "second"]);
}

#[test]
fn a_text_that_was_written_anew_is_shown_whole() {
    let mut transcript = transcript();
    transcript.take(&piece(1, "a", "draft"));
    assert_eq!(texts(&transcript.take(&agent(2, "a", "final"))), ["draft", "", "final"]);
}

#[test]
fn thoughts_are_told_apart_and_folded_once_they_are_over() {
    let thought = |number, text: &str, partial| {
        message(number, "t", "agent", json!({"type": "thought", "text": text, "partial": partial}))
    };
    let mut live = transcript();
    assert_eq!(texts(&live.take(&thought(1, "hm\nwell\n", true))), ["┊ hm", "┊ well"]);
    let mut past = Transcript::new(Some(40), Detail { folds_thoughts: true, ..Detail::default() });
    assert_eq!(texts(&past.take(&thought(1, "hm\nwell\n", false))), ["┊ hm …"]);
}

#[test]
fn a_tool_call_is_one_row_once_it_is_over() {
    let mut transcript = transcript();
    assert!(transcript.take(&tool(1, "t1", "touch x", "pending")).is_empty());
    transcript.take(&tool(2, "t2", "touch y", "in_progress"));
    assert_eq!(texts(&transcript.take(&tool(3, "t2", "touch y", "completed"))), ["● touch y … done"]);
    assert_eq!(texts(&transcript.take(&tool(4, "t1", "touch x", "completed"))), ["● touch x … done"]);
    assert!(transcript.take(&tool(5, "t1", "touch x", "completed")).is_empty(), "nothing has changed");
}

#[test]
fn a_tool_call_never_falls_into_a_line_that_is_being_written() {
    let mut transcript = transcript();
    transcript.take(&piece(1, "a", "I am do"));
    assert!(transcript.take(&tool(2, "t1", "touch x", "completed")).is_empty());
    assert_eq!(texts(&transcript.take(&piece(3, "a", "ing it\n"))), ["I am doing it", "", "● touch x … done"]);
}

#[test]
fn calls_that_nobody_heard_of_again_are_told_when_the_turn_is_over() {
    let mut transcript = transcript();
    transcript.take(&tool(1, "t1", "touch x", "pending"));
    assert_eq!(texts(&transcript.end_turn()), ["○ touch x … not finished"]);
    assert!(transcript.end_turn().is_empty());
    assert_eq!(texts(&transcript.take(&tool(2, "t1", "touch x", "completed"))), ["● touch x … done"]);
}

#[test]
fn of_a_plan_only_changes_are_told_again() {
    let plan = |number, states: [&str; 2]| {
        let step = |text: &str, status: &str| json!({"content": text, "status": status});
        let steps = [step("read", states[0]), step("write", states[1])];
        message(number, "p", "system", json!({"type": "plan", "steps": steps}))
    };
    let mut transcript = transcript();
    assert_eq!(texts(&transcript.take(&plan(1, ["in_progress", "pending"]))), ["▸ read", "☐ write"]);
    assert!(transcript.take(&plan(2, ["in_progress", "pending"])).is_empty());
    assert_eq!(texts(&transcript.take(&plan(3, ["completed", "pending"]))), ["✔ read"]);
}

#[test]
fn errors_and_other_endings_are_told() {
    let mut transcript = transcript();
    let error = system(1, json!({"type": "error", "message": "the model is gone\nfor good"}));
    assert_eq!(texts(&transcript.take(&error)), ["✖ the model is gone", "  for good"]);
    let cancelled = system(2, json!({"type": "cancelled", "reason": "user"}));
    assert_eq!(texts(&transcript.take(&cancelled)), ["■ cancelled: user"]);
    let stopped = system(3, json!({"type": "turn", "stopReason": "max_tokens"}));
    assert_eq!(texts(&transcript.take(&stopped)), ["■ the turn ended: max tokens"]);
    let update = system(4, json!({"type": "update", "update": {"sessionUpdate": "weather"}}));
    assert!(transcript.take(&update).is_empty());
    transcript.detail.has_tool_content = true;
    assert_eq!(texts(&transcript.take(&update)), ["· the agent sent weather"]);
}

#[test]
fn no_row_is_wider_than_the_terminal_and_none_acts_on_it() {
    let evil = "a\x1b[2J\x1b]0;t\x07 漢字 ".repeat(20);
    let mut transcript = Transcript::new(Some(20), Detail { has_tool_content: true, ..Detail::default() });
    let result = json!({"content": [{"type": "content", "content": {"type": "text", "text": evil}}]});
    let call = json!({"type": "tool", "tool": evil, "args": {}, "result": result, "status": "failed"});
    let plan = json!({"type": "plan", "steps": [{"content": evil, "status": evil}]});
    let mut rows = transcript.take(&user(1, &evil));
    rows.extend(transcript.take(&piece(2, "a", &evil)));
    rows.extend(transcript.take(&system(3, call)));
    rows.extend(transcript.take(&system(4, plan)));
    rows.extend(transcript.take(&system(5, json!({"type": "error", "message": evil}))));
    rows.extend(transcript.end_turn());
    for row in rows {
        assert!(row.width() <= 20, "{}", row.text());
        assert!(!row.text().chars().any(char::is_control), "{}", row.text());
    }
}
