//! Parses the lines of each agent, split into pieces of various sizes.

use super::*;

/// JSON format of this agent's output.
fn json(agent: &str) -> PrintFormat {
    crate::print_mode::known(agent).expect("a print mode").format
}

/// Returns the answer and the pieces passed to `on_text`.
fn read(format: PrintFormat, output: &str, size: usize) -> (PrintAnswer, Vec<String>) {
    let mut pieces = Vec::new();
    let mut on_text = |text: &str| pieces.push(text.to_owned());
    let mut answer = PrintAnswer::new(format);
    for piece in output.as_bytes().chunks(size) {
        answer.feed(piece, &mut on_text);
    }
    answer.finish(&mut on_text);
    (answer, pieces)
}

/// Returns text, session and usage; asserts that they do not depend on how the output was split.
fn parse(format: PrintFormat, lines: &[&str]) -> (String, Option<String>, Option<Usage>) {
    let output = lines.join("\n") + "\n";
    let mut all = [1, 7, 64, output.len()].map(|size| {
        let (answer, pieces) = read(format, &output, size);
        assert_eq!(pieces.concat().trim_end(), answer.text, "in pieces of {size}");
        let usage = answer.usage(Some(Usage::default()));
        (answer.text, answer.session, usage)
    });
    assert!(all.iter().all(|one| *one == all[0]));
    std::mem::take(&mut all[0])
}

fn answer(text: &str, session: &str, usage: Option<(u64, u64)>) -> (String, Option<String>, Option<Usage>) {
    let session = Some(session.to_owned()).filter(|id| !id.is_empty());
    (text.to_owned(), session, usage.map(|(input, output)| Usage { input, output }))
}

#[test]
fn claude_streams_pieces_and_then_repeats_the_message() {
    let lines = [
        r#"{"type":"system","subtype":"init","session_id":"s-1"}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"Let me "}},"parent_tool_use_id":null,"session_id":"s-1"}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"look."}},"session_id":"s-1"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Let me look."}]},"parent_tool_use_id":null,"session_id":"s-1"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{}}]},"session_id":"s-1"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"from a subagent"}]},"parent_tool_use_id":"t","session_id":"s-1"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Done: naïve café ✓"}]},"session_id":"s-1"}"#,
        r#"{"type":"result","is_error":false,"result":"Done","session_id":"s-2","usage":{"input_tokens":300,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":30}}"#,
    ];
    let expected = answer("Let me look.\n\nDone: naïve café ✓", "s-2", Some((312, 30)));
    assert_eq!(parse(json("claude"), &lines), expected);
}

#[test]
fn a_message_of_several_blocks_is_not_repeated() {
    let lines = [
        r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"One."}}"#,
        r#"{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"Two."}}"#,
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"One."},{"type":"text","text":"Two."}],"usage":{"input":1,"output":2}}}"#,
        r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Three."}],"usage":{"input":10,"output":20}}}"#,
    ];
    assert_eq!(parse(json("pi"), &lines), answer("One.Two.\n\nThree.", "", Some((11, 22))));
}

#[test]
fn codex_prints_complete_messages() {
    let lines = [
        r#"{"type":"thread.started","thread_id":"01a1"}"#,
        r#"{"type":"item.completed","item":{"type":"reasoning","text":"hidden"}}"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"First."}}"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"Second."}}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":300,"cached_input_tokens":100,"output_tokens":30}}"#,
    ];
    assert_eq!(parse(json("codex"), &lines), answer("First.\n\nSecond.", "01a1", Some((300, 30))));
}

#[test]
fn gemini_starts_a_new_paragraph_after_a_tool_call() {
    let lines = [
        r#"{"type":"init","session_id":"g-1"}"#,
        r#"{"type":"message","role":"user","content":"the prompt"}"#,
        r#"{"type":"message","role":"assistant","content":"Let me ","delta":true}"#,
        r#"{"type":"message","role":"assistant","content":"look.","delta":true}"#,
        r#"{"type":"tool_use","tool_name":"ls"}"#,
        r#"{"type":"message","role":"assistant","content":"Done.","delta":true}"#,
        r#"{"type":"result","status":"success","stats":{"input_tokens":400,"output_tokens":40}}"#,
    ];
    assert_eq!(parse(json("gemini"), &lines), answer("Let me look.\n\nDone.", "g-1", Some((400, 40))));
}

#[test]
fn opencode_usage_is_summed_over_steps() {
    let lines = [
        r#"{"type":"step_finish","sessionID":"ses_1","part":{"tokens":{"input":100,"output":10,"cache":{"write":1,"read":2}}}}"#,
        r#"{"type":"text","sessionID":"ses_1","part":{"text":"Done."}}"#,
        r#"{"type":"step_finish","sessionID":"ses_1","part":{"tokens":{"input":100,"output":10,"cache":{"write":0,"read":0}}}}"#,
    ];
    assert_eq!(parse(json("opencode"), &lines), answer("Done.", "ses_1", Some((203, 20))));
}

#[test]
fn kimi_prints_its_session_id_in_the_last_line() {
    let lines = [
        r#"{"role":"assistant","tool_calls":[]}"#,
        r#"{"role":"tool","content":"README.md"}"#,
        r#"{"role":"assistant","content":"Done."}"#,
        r#"{"role":"meta","type":"session.resume_hint","session_id":"session_6f"}"#,
    ];
    assert_eq!(parse(json("kimi"), &lines), answer("Done.", "session_6f", None));
}

#[test]
fn text_between_json_lines_and_unknown_lines_are_ignored() {
    let lines = [
        "Loaded cached credentials.",
        r#"{"type":"thread.started","thread_id":"t"}"#,
        "warning: something",
        "",
        "{not json}",
        r#"{"type":"item.completed","item":{"type":"of a later version","text":"?"}}"#,
        r#"[1,2]"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"Answer."}}"#,
    ];
    let (answer, _) = read(json("codex"), &(lines.join("\n") + "\n"), 16);
    assert_eq!(answer.text, "Answer.");
}

#[test]
fn plain_text_instead_of_json_is_streamed_as_the_answer() {
    let output = "Hello,\n\n  {world} is\n{no json\nat all";
    for size in [1, 5, output.len()] {
        let (answer, _) = read(json("claude"), output, size);
        assert_eq!(answer.text, output, "in pieces of {size}");
    }
    let mut streamed = String::new();
    PrintAnswer::new(json("claude")).feed(b"Hel", &mut |text: &str| streamed.push_str(text));
    assert_eq!(streamed, "Hel");
}

#[test]
fn plain_text_is_streamed_unchanged_and_stored_without_trailing_whitespace() {
    let (answer, pieces) = read(PrintFormat::Text, "{\"a\":1}\nsecond é\n\n", 3);
    assert_eq!(answer.text, "{\"a\":1}\nsecond é");
    assert_eq!(pieces.concat(), "{\"a\":1}\nsecond é\n\n");
}

#[test]
fn a_last_line_without_a_line_break_is_parsed() {
    let (answer, _) = read(json("kimi"), r#"{"role":"assistant","content":"Done."}"#, 5);
    assert_eq!(answer.text, "Done.");
}

#[test]
fn the_agents_error_message_is_kept() {
    let line = r#"{"type":"turn.failed","error":{"message":"no such model"}}"#;
    let (answer, _) = read(json("codex"), line, 9);
    assert_eq!((answer.text.as_str(), answer.trouble.as_deref()), ("", Some("no such model")));
}

#[test]
fn session_totals_are_converted_to_the_usage_of_the_turn() {
    let line = r#"{"type":"turn.completed","usage":{"input_tokens":300,"output_tokens":30}}"#;
    let (answer, _) = read(json("codex"), line, 9);
    assert_eq!(answer.usage(Some(Usage { input: 100, output: 10 })), Some(Usage { input: 200, output: 20 }));
    // The usage of the earlier turns is unknown.
    assert_eq!(answer.usage(None), None);
}

#[test]
fn qwen_usage_is_summed_over_messages() {
    let lines = [
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"One."}],"usage":{"input_tokens":100,"output_tokens":10}},"session_id":"q"}"#,
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Two."}],"usage":{"input_tokens":100,"output_tokens":10}},"session_id":"q"}"#,
        r#"{"type":"result","is_error":false,"session_id":"q","usage":{"input_tokens":900,"output_tokens":90}}"#,
    ];
    assert_eq!(parse(json("qwen"), &lines), answer("One.\n\nTwo.", "q", Some((200, 20))));
}

#[test]
fn the_formats_of_the_other_agents_are_parsed() {
    let copilot = [
        r#"{"type":"user.message","data":{"content":"the prompt"}}"#,
        r#"{"type":"assistant.message_delta","data":{"deltaContent":"Done"},"ephemeral":true}"#,
        r#"{"type":"assistant.message_delta","data":{"deltaContent":"."},"ephemeral":true}"#,
        r#"{"type":"assistant.message","data":{"content":"Done.","toolRequests":[]}}"#,
        r#"{"type":"result","sessionId":"212c","exitCode":0}"#,
    ];
    assert_eq!(parse(json("copilot"), &copilot), answer("Done.", "212c", None));
    let goose = [
        r#"{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Let me "}]}}"#,
        r#"{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"look."}]}}"#,
        r#"{"type":"message","message":{"role":"user","content":[{"type":"toolResponse"}]}}"#,
        r#"{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}"#,
        r#"{"type":"complete","input_tokens":100,"output_tokens":10}"#,
    ];
    assert_eq!(parse(json("goose"), &goose), answer("Let me look.\n\nDone.", "", Some((100, 10))));
    let vibe = [
        r#"{"sessionId":"d99e","type":"message","role":"user","content":[{"type":"text","text":"the prompt"}]}"#,
        r#"{"sessionId":"d99e","type":"message","role":"assistant","content":[{"type":"text","text":"Done."}]}"#,
    ];
    assert_eq!(parse(json("vibe"), &vibe), answer("Done.", "d99e", None));
}
